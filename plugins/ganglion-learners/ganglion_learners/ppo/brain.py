"""Brain: gathers rollouts of all workers and bodies, and improves policy and values from each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import LateCredit, Session, Transitions
from ganglion_learners.choice import Choices, Legal
from ganglion_learners.learner import Learner
from ganglion_learners.parameter import configured
from ganglion_learners.ppo.config import PpoConfig
from ganglion_learners.ppo.muscle import actions_of
from ganglion_learners.ranges import Ranges

__all__ = ["PpoBrain"]

Array = NDArray[Any]


@configured(PpoConfig)
class PpoBrain(Learner):
    """Learn by proximal policy optimisation with generalised advantages.

    For agents with any number of discrete actuators, or any number of Box actuators of floats, and any sensors. After
    every `rollout` decisions of all workers and bodies together the advantages are estimated, for each body of each
    worker by itself, and policy and values are improved in `epochs` passes of minibatches. Only then the policy is sent
    to the muscles. Actions that an actuator's Mask forbids have no probability, in acting and in learning. The reward
    of a group after the end of one of its bodies is added to the objective of the body's last decision, unless its
    rollout has been learned.

    The update is a map: `algorithm` and `activation` (texts), `policy.<i>.weight` (inputs, outputs) and
    `policy.<i>.bias` (outputs,), with Box actuators `log_std` (columns,), all float32. Statistics: `policy_loss`,
    `value_loss`, `entropy` of the last minibatch.

    Params:
        hidden: Widths of the hidden layers of policy and values, each in [1, 4096]. Default [64, 64].
        activation: `tanh` or `relu`. Default `tanh`.
        rollout: Decisions of all workers and bodies between two improvements, >= 2. Default 2048.
        minibatch: Decisions of one step of the optimiser, >= 2. Default 64.
        epochs: Passes over a rollout, >= 1. Default 10.
        learning_rate: Of Adam, > 0. Default 0.0003.
        discount: Per decision, in [0, 1]. Default 0.99.
        trace_decay: Lambda of the advantages, in [0, 1]. Default 0.95.
        clip: The most distance of the ratio of new to old probability from 1, > 0. Default 0.2.
        entropy_weight: Of the bonus for entropy, >= 0. Default 0.
        value_weight: Of the squared error of the values, > 0. Default 0.5.
        gradient_norm: Longer gradients are shortened to this, > 0. Default 0.5.
        anneal_decisions: Decisions over which learning rate and clip fall linearly to 0, where learning ends; >= 1,
            None never. Default None.
        pretrain_epochs: Passes over recorded decisions (agent key `replay`), >= 1, in which policy and values clone
            actions and returns, see `Cloning`; they do not count as decisions. Default 10.

    Source: Schulman, Wolski, Dhariwal, Radford and Klimov (2017), Proximal policy optimization algorithms, algorithm 1;
    Schulman, Moritz, Levine, Jordan and Abbeel (2016), High-dimensional continuous control using generalized advantage
    estimation.
    """

    CHECKPOINT_FORMAT = "ppo"
    algorithm = "ppo"
    codec = staticmethod(actions_of)

    config: PpoConfig

    def _build(self) -> None:
        from ganglion_learners.ppo.networks import ActorCritic  # needs torch
        from ganglion_learners.tensors import Adam

        config = self.config
        sizes = self._actions.sizes if isinstance(self._actions, Choices) else ()
        columns = len(self._actions) if isinstance(self._actions, Ranges) else 0
        legal = Legal(self.sensors, self.actuators)
        self.networks = ActorCritic(self.rng, self.inputs, sizes, columns, config.hidden, config.activation, legal)
        self._adam = Adam(self.networks.parameters, epsilon=1e-5)
        self._stored = [("", self.networks.parameters), ("adam.", self._adam)]
        n, m = config.rollout, len(sizes) or columns
        self._rows: dict[str, Array] = {
            "observations": np.zeros((n, self.inputs), dtype=np.float32),
            "next_observations": np.zeros((n, self.inputs), dtype=np.float32),
            "actions": np.zeros((n, m), dtype=np.int64 if sizes else np.float32),
            "logs": np.zeros(n, dtype=np.float32),
            "objectives": np.zeros(n, dtype=np.float64),
            "bootstrap": np.zeros(n, dtype=np.float64),
            "over": np.zeros(n, dtype=bool),
            "who": np.zeros(n, dtype=np.int64),
        }
        self._filled = 0
        self._who: dict[tuple[str, str], int] = {}
        self._numbers: dict[tuple[str, Any], int] = {}  # the same by bodies
        self.learn_every = n

    # -- recorded decisions ------------------------------------------------------------------------------------------
    def pretrain(self, sessions: Iterable[Session]) -> None:
        """Clone recorded decisions: change policy and values, but neither the optimiser of improvements nor counts.

        Raises:
            ValueError: A session does not fit sensors or actuators, or no decision can be learned from.
            FloatingPointError: The loss is no finite number; learning cannot go on.
        """
        from ganglion_learners.ppo.cloning import Cloning

        cloning = Cloning(
            self.networks,
            self._encoded,
            self.config,
            self.rng,
            lambda loss: self._finite("the loss of cloning", loss, "learning_rate discount value_weight"),
        )
        for name, value in cloning.run(self._recorded(sessions)).items():
            self.add_statistics(name, value, allow_overwrite=True)

    def _encoded(self, setpoints: Array) -> Array:
        """Return setpoints, (k, columns), as actions of the networks."""
        if isinstance(self._actions, Choices):
            return np.asarray(setpoints, dtype=np.int64) - self._actions.starts
        return self._actions.unscale(setpoints).astype(np.float32)

    # -- rollouts ----------------------------------------------------------------------------------------------------
    def _learn(self, batch: Transitions) -> dict[str, Any] | None:
        update: dict[str, Any] | None = None
        done, count = 0, len(batch)
        while done < count:
            end = min(count, done + self.config.rollout - self._filled)
            self._keep(batch, slice(done, end))
            done = end
            if self._filled == self.config.rollout:
                self._improve()
                self._filled, update = 0, self.policy()
        return update

    def _keep(self, batch: Transitions, part: slice) -> None:
        """Append some rows of a batch."""
        rows = self._rows
        size = part.stop - part.start
        at = slice(self._filled, self._filled + size)
        rows["observations"][at] = batch.observations[part]
        rows["next_observations"][at] = batch.next_observations[part]
        rows["objectives"][at] = batch.objectives[part]
        rows["bootstrap"][at] = batch.bootstrap[part]
        rows["over"][at] = batch.terminated[part] | batch.truncated[part]
        rows["who"][at] = list(map(self._number, batch.muscle[part], batch.body[part]))
        rows["actions"][at], rows["logs"][at] = self._done(batch.actions[part], batch.data[part])
        self._filled += size
        self.decisions += size

    def late(self, credits: Sequence[LateCredit]) -> None:  # noqa: A002
        """Add the rewards after the end of a body to the objective of its last decision.

        That is its newest decision in the current rollout. If its rollout has been learned, nothing is added, and the
        statistic `late_missed` counts the credit.
        """
        rows, missed = self._rows, 0
        for one in credits:
            mine = np.flatnonzero(rows["who"][: self._filled] == self._number(one.muscle, one.body))
            if len(mine) and rows["over"][mine[-1]]:
                rows["objectives"][mine[-1]] += one.objective or 0.0
            else:
                missed += 1
        if missed:
            self.add_statistics("late_missed", missed, allow_overwrite=True)

    def _number(self, muscle: str, body: Any) -> int:
        """Return the number of a worker's body, whose decisions follow each other."""
        found = self._numbers.get((muscle, body))
        if found is None:
            found = self._who.setdefault((muscle, repr(body)), len(self._who))
            self._numbers[muscle, body] = found
        return found

    def _done(self, setpoints: Array, data: Any) -> tuple[Array, Array]:
        """Return the actions, and the logarithms of their probabilities; NaN if not from `PpoMuscle`."""
        own = isinstance(self._actions, Ranges)
        unknown: Any = [np.nan] * (1 + self._rows["actions"].shape[1]) if own else np.nan
        if not isinstance(data, np.ndarray):
            data = np.array([unknown if it is None else it for it in data])
        encoded = self._encoded(setpoints)
        if not own:
            return encoded, data
        return np.where(np.isnan(data[:, :1]), encoded, data[:, 1:]), data[:, 0]

    # -- improving ---------------------------------------------------------------------------------------------------
    def _improve(self) -> None:
        """Estimate the advantages of the rollout, and step."""
        import torch

        config, rows = self.config, self._rows
        left = config.share_left(self.decisions - config.rollout)
        if left <= 0.0:
            return
        batch = {name: torch.from_numpy(rows[name]) for name in ("observations", "actions", "logs")}
        unknown = np.isnan(rows["logs"])
        if unknown.any():
            with torch.no_grad():
                logs, _ = self.networks.log_probability(batch["observations"], batch["actions"])
            batch["logs"] = torch.where(torch.from_numpy(unknown), logs, batch["logs"])
        gains, returns = self._targets()
        with np.errstate(over="ignore"):  # infinity is refused in the loss
            batch["advantages"] = torch.from_numpy(gains.astype(np.float32))
            batch["returns"] = torch.from_numpy(returns.astype(np.float32))
        count = config.rollout
        for _ in range(config.epochs):
            order = torch.from_numpy(self.rng.permutation(count))
            mixed = {name: tensor[order] for name, tensor in batch.items()}
            # A last minibatch of a single decision has no spread to normalise by: it joins the one before.
            starts = [i for i in range(0, count, config.minibatch) if i == 0 or count - i >= 2]
            for start, end in zip(starts, [*starts[1:], count], strict=True):
                parts = self._step({name: it[start:end] for name, it in mixed.items()}, left)
        for name, value in parts.items():
            self.add_statistics(name, value.item(), allow_overwrite=True)

    def _targets(self) -> tuple[Array, Array]:
        """Return advantages and returns of the rollout, (rollout,) float64."""
        from ganglion_learners.ppo.networks import advantages

        rows, config = self._rows, self.config
        values = self.networks.values(rows["observations"])
        following = self.networks.values(rows["next_observations"])
        gains = np.empty(config.rollout)
        for who in range(len(self._who)):
            mine = np.flatnonzero(rows["who"] == who)
            gains[mine] = advantages(
                rows["objectives"][mine],
                values[mine],
                following[mine],
                rows["bootstrap"][mine],
                rows["over"][mine],
                config.discount,
                config.trace_decay,
            )
        return gains, gains + values

    def _step(self, batch: Mapping[str, Any], left: float) -> dict[str, Any]:
        config, parameters = self.config, self.networks.parameters
        loss, parts = self.networks.loss(batch, config.clip * left, config.entropy_weight, config.value_weight)
        self._finite("the loss", loss.item(), "learning_rate clip gradient_norm discount")
        self._adam.step(parameters.gradient(loss), config.learning_rate * left, config.gradient_norm)
        return parts

    # -- updates and state -------------------------------------------------------------------------------------------
    def _acting(self) -> dict[str, Any]:
        arrays = self.networks.parameters.arrays()
        return {name: array for name, array in arrays.items() if not name.startswith("value.")}

    def _buffers(self) -> dict[str, Array]:
        names = "\n".join(f"{muscle}\t{body}" for muscle, body in self._who)
        kept = {f"rollout.{name}": rows[: self._filled].copy() for name, rows in self._rows.items()}
        return {**kept, "rollout.names": np.frombuffer(names.encode(), dtype=np.uint8)}

    def _restore(self, arrays: Mapping[str, Array]) -> None:
        self._filled = len(arrays["rollout.who"])
        for name, rows in self._rows.items():
            rows[: self._filled] = arrays[f"rollout.{name}"]
        names = bytes(arrays["rollout.names"]).decode()
        pairs = [line.rpartition("\t") for line in names.split("\n")] if names else []
        self._numbers = {}
        self._who = {(muscle, body): i for i, (muscle, _, body) in enumerate(pairs)}
