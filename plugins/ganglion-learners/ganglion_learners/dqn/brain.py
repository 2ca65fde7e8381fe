"""Brain: learns the values of actions from drawn earlier decisions."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ganglion_learners.choice import Choices, Legal
from ganglion_learners.dqn.config import DqnConfig
from ganglion_learners.dqn.muscle import one_choice
from ganglion_learners.off_policy import OffPolicy
from ganglion_learners.parameter import configured
from ganglion_learners.replay import Replay

__all__ = ["DqnBrain"]

Array = NDArray[Any]


@configured(DqnConfig)
class DqnBrain(OffPolicy):
    """Learn by deep Q-learning with double targets.

    For agents with one Discrete actuator, or one MultiDiscrete of at most 4096 combinations, and any sensors. Each
    completed decision of all workers and bodies goes into the replay; every `train_every` decisions there are
    `gradient_steps` steps of the optimiser, each with a minibatch drawn from the replay. Actions that the actuator's
    Mask forbids are neither taken nor given a value.

    The update is a map: `algorithm` and `activation` (texts), `exploration` (the probability of a random action),
    `values.<i>.weight` (inputs, outputs) and `values.<i>.bias` (outputs,), float32. Statistics: `loss`, `exploration`.

    Params:
        hidden: Widths of the hidden layers, each in [1, 4096]. Default [128, 128].
        activation: `tanh` or `relu`. Default `relu`.
        replay: Decisions to keep, >= 1. Default 10000.
        warm_up: Decisions before the first training, in [1, replay]. Default 1000.
        minibatch: Decisions of one step of the optimiser, >= 1. Default 128.
        train_every: Decisions from training to training, >= 1. Default 1.
        gradient_steps: Steps of the optimiser in each, >= 1. Default 1.
        learning_rate: Of Adam at first, > 0. Default 0.0005.
        learning_rate_least: That after `learning_rate_decisions`, > 0. Default 0.0001.
        learning_rate_decisions: Decisions over which it falls linearly, >= 1. Default 50000.
        discount: Per decision, in [0, 1]. Default 0.99.
        target_every: Steps of the optimiser after which the target network follows the other, >= 1. Default 1.
        target_share: By which it follows, in (0, 1]; 1 makes both equal. Default 0.005.
        exploration: Probability of a random action at first, in [0, 1]. Default 1.
        exploration_least: That after `exploration_decisions`, in [0, 1]. Default 0.02.
        exploration_decisions: Decisions over which it falls linearly, >= 1. Default 5000.
        gradient_norm: Longer gradients are shortened to this, > 0. Default 10.
        update_every: A changed policy is sent after a decision whose number is a multiple of this, >= 1. Default 4.
        pretrain_steps: Steps of the optimiser with recorded decisions (agent key `replay`), >= 0. None is one for each
            recorded decision. Default None.
        pretrain_caution: In these steps, weight of the loss for valuing other actions above the recorded ones, >= 0; 0
            trusts the values of actions that were never recorded. Default 1.
        table: Uid of a table of the document from which minibatches are drawn in place of the own replay, as far as
            its rate allows; the document decides what the table keeps. Default None.

    Source: Mnih et al. (2015), Human-level control through deep reinforcement learning, algorithm 1; van Hasselt, Guez
    and Silver (2016), Deep reinforcement learning with double Q-learning, eq. 4; for a target that follows by shares
    instead of leaps Lillicrap et al. (2016), Continuous control with deep reinforcement learning, algorithm 1; for
    recorded decisions Kumar, Zhou, Tucker and Levine (2020), Conservative Q-learning for offline reinforcement
    learning, eq. 4.
    """

    CHECKPOINT_FORMAT = "dqn"
    algorithm = "dqn"
    codec = staticmethod(one_choice)

    config: DqnConfig
    _actions: Choices

    def _build(self) -> None:
        from ganglion_learners.dqn.networks import Values  # needs torch
        from ganglion_learners.tensors import Adam

        config = self.config
        legal = Legal(self.sensors, self.actuators)
        self.networks = Values(self.rng, self.inputs, self._actions.joint, config.hidden, config.activation, legal)
        self._adam = Adam(self.networks.parameters)
        self._stored = [("", self.networks.parameters), ("target.", self.networks.target), ("adam.", self._adam)]
        # observation, next observation, action, objective, bootstrap
        self._replay = Replay(config.replay, 2 * self.inputs + 3)

    def _known(self, setpoints: Array) -> Array:
        return self._actions.join(setpoints)

    def _rate(self) -> float:
        return self.config.rate_at(self.decisions)

    def _step(self, rate: float, caution: float = 0.0) -> dict[str, float]:
        """Step the values once, and the target if due."""
        import torch

        config, n = self.config, self.inputs
        drawn = torch.from_numpy(self._minibatch())
        observations, following = drawn[:, :n], drawn[:, n : 2 * n]
        actions, objectives, bootstrap = drawn[:, 2 * n].long(), drawn[:, 2 * n + 1], drawn[:, 2 * n + 2]
        targets = self.networks.targets(objectives, following, bootstrap, config.discount)
        loss = self.networks.loss(observations, actions, targets, caution)
        value = self._finite("the loss", loss.item(), "learning_rate discount target_every gradient_norm")
        self._adam.step(self.networks.parameters.gradient(loss), rate, config.gradient_norm)
        if self._adam.steps % config.target_every == 0:
            self.networks.target.follow(self.networks.parameters, config.target_share)
        return {"loss": value}

    def _acting(self) -> dict[str, Any]:
        exploration = self.config.exploration_at(self.decisions)
        self.add_statistics("exploration", exploration, allow_overwrite=True)
        return {"exploration": exploration, **self.networks.parameters.arrays()}
