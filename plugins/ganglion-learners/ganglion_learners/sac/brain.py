"""Brain: learns policy, critics and temperature from drawn decisions of the past."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion_learners.off_policy import OffPolicy
from ganglion_learners.parameter import configured
from ganglion_learners.ranges import Ranges
from ganglion_learners.replay import Replay
from ganglion_learners.sac.config import SacConfig

__all__ = ["SacBrain"]

Array = NDArray[Any]


@configured(SacConfig)
class SacBrain(OffPolicy):
    """Learn by soft actor-critic, with a temperature that keeps the entropy at its target.

    For agents with any number of Box actuators of floats, all with both bounds, and any sensors. Each completed
    decision goes into the replay, whichever worker or body made it; every `train_every` decisions critics, policy and
    temperature are moved `gradient_steps` times, each time by a minibatch drawn from the replay.

    The update is a map: `algorithm` and `activation` (texts), `uniform` (whether to act by chance alone), and
    `policy.<i>.weight` (inputs, outputs) and `policy.<i>.bias` (outputs,), float32; the first half of the last outputs
    are centres, the other half logarithms of spreads. Statistics: `critic_loss`, `policy_loss`, `temperature`,
    `entropy`.

    Params:
        hidden: Widths of the hidden layers of policy and critics, each in [1, 4096]. Default [64, 64].
        activation: `tanh` or `relu`. Default `relu`.
        replay: Decisions that are kept, >= 1. Default 100000.
        warm_up: Decisions before the first is learned from, in [1, replay]; without a model these are by chance
            alone. Default 1000.
        minibatch: Decisions of one step of the optimisers, >= 1. Default 128.
        train_every: Decisions from training to training, >= 1. Default 1.
        gradient_steps: Steps of the optimisers in each, >= 1. Default 1.
        learning_rate: Of all three, with Adam, > 0. Default 0.001.
        discount: Of what comes a decision later, in [0, 1]. Default 0.99.
        target_share: By which the slow critics follow in each step, in (0, 1]. Default 0.005.
        temperature: Weight of entropy at first, > 0, in units of the objective per nat. Default 1.
        entropy_target: What the entropy of the policy is kept at, in nats of actions in [-1, 1]. None is minus the
            number of columns. Default None.
        update_every: A policy that has changed goes out after a decision whose number is a multiple of this, >= 1.
            Default 4.
        pretrain_steps: Steps of the optimisers by which recorded decisions are learned from (agent key `replay`), >= 0.
            None is one for each of them. Default None.
        pretrain_caution: In these steps, weight of the squared distance of the policy's actions to the recorded ones,
            in shares of what the critics hold of them, >= 0; 0 believes what they think of actions that nobody took.
            Default 1.
        table: Uid of a table of the document from which minibatches are drawn in place of the own replay, as far as
            its rate allows; what goes into it the document says. Default None.

    Source: Haarnoja, Zhou, Abbeel and Levine (2018), Soft actor-critic: off-policy maximum entropy deep reinforcement
    learning with a stochastic actor; Haarnoja et al. (2018), Soft actor-critic algorithms and applications, algorithm
    1, for the temperature; for recorded decisions Fujimoto and Gu (2021), A minimalist approach to offline
    reinforcement learning, eq. 3 to 5, whose alpha is 1 / `pretrain_caution`.
    """

    CHECKPOINT_FORMAT = "sac"
    algorithm = "sac"
    codec = staticmethod(partial(Ranges, bounded=True))

    config: SacConfig
    _actions: Ranges

    def _build(self) -> None:
        from ganglion_learners.sac.networks import SoftActorCritic  # needs torch
        from ganglion_learners.tensors import Adam

        config = self.config
        columns = len(self._actions)
        self._entropy_target = -float(columns) if config.entropy_target is None else config.entropy_target
        self.networks = SoftActorCritic(
            self.rng, self.inputs, columns, config.hidden, config.activation, config.temperature
        )
        self._parts = {
            "policy": self.networks.policy,
            "critics": self.networks.critics,
            "temperature": self.networks.temperature,
        }
        self._adams = {name: Adam(parameters) for name, parameters in self._parts.items()}
        self._stored = []
        for name, adam in self._adams.items():
            self._stored += [("", self._parts[name]), (f"adam.{name}.", adam)]
        self._stored.append(("target.", self.networks.target))
        # observation, next observation, action in [-1, 1], objective, bootstrap
        self._replay = Replay(config.replay, 2 * self.inputs + columns + 2)

    def _known(self, setpoints: Array) -> Array:
        return self._actions.unscale(setpoints)

    def _step(self, rate: float, caution: float = 0.0) -> dict[str, float]:
        """Move critics, policy and temperature once, and the slow critics after them."""
        import torch

        config, n, columns, networks = self.config, self.inputs, len(self._actions), self.networks
        drawn = torch.from_numpy(self._minibatch())
        noise = torch.from_numpy(self.rng.standard_normal((2, config.minibatch, columns), dtype=np.float32))
        observations, following, actions, objectives, bootstrap = drawn.split([n, n, columns, 1, 1], dim=1)
        targets = networks.targets(objectives[:, 0], following, bootstrap[:, 0], config.discount, noise[0])
        critic_loss = networks.critic_loss(observations, actions, targets)
        self._move("critics", critic_loss, rate)
        policy_loss, logs = networks.policy_loss(observations, noise[1], actions, caution)
        self._move("policy", policy_loss, rate)
        self._move("temperature", networks.temperature_loss(logs, self._entropy_target), rate)
        networks.target.follow(networks.critics, config.target_share)
        return {
            "critic_loss": critic_loss.item(),
            "policy_loss": policy_loss.item(),
            "entropy": -logs.mean().item(),
            "temperature": networks.log_temperature.exp().item(),
        }

    def _move(self, name: str, loss: Any, rate: float) -> None:
        self._finite(f"the loss of the {name}", loss.item(), "learning_rate discount target_share temperature")
        self._adams[name].step(self._parts[name].gradient(loss), rate)

    def _acting(self) -> dict[str, Any]:
        return {"uniform": self.decisions < self.config.warm_up, **self.networks.policy.arrays()}
