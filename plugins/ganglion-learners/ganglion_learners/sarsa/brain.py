"""Brain: learns the values of actions from completed decisions, one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import ActuatorInformation, CheckpointableBrain, MemoryShard, SensorInformation, mask_columns
from ganglion_learners.parameter import configured
from ganglion_learners.sarsa.config import SarsaConfig
from ganglion_learners.sarsa.networks import FourierBasis, action_space, ranges, seen

__all__ = ["SarsaBrain"]

Array = NDArray[np.float64]

# The newest rows are all that is looked at: one per worker.
MEMORY_ROWS = 1024
NAMES_MAX = 4  # of arrays, in a message


class _Path:
    """Keep what belongs to the running episode of one muscle: where it stands, and its eligibility trace."""

    __slots__ = ("features", "trace")

    def __init__(self, features: Array, actions: int) -> None:
        self.features = features
        self.trace = np.zeros((actions, len(features)))


@configured(SarsaConfig)
class SarsaBrain(CheckpointableBrain):
    """Learn by expected Sarsa with eligibility traces, linear in a Fourier basis of the observation.

    For agents with one Discrete actuator and any sensors of few columns; of a mask of it no features are made, and
    what it forbids is neither chosen nor expected. Each completed decision is learned from as it
    comes, whichever worker made it; workers share the values and have traces of their own. Values begin optimistic,
    so that every action is tried until it has disappointed.

    The update, which is also the stored policy, is a map of arrays: `weights` (actions, features) float64, `basis`
    [order, unbounded], `exploration` (). It goes out every `send_every` decisions and at the end of every episode.

    Params:
        order: Highest multiple in the basis, >= 1; there are (order + 1) ** columns features. Default 3.
        step_size: Of the constant feature, > 0; others have less by their frequency. Default 0.001.
        discount: Of what comes a decision later, in [0, 1]. Default 0.99.
        trace_decay: Lambda, in [0, 1]. Default 0.9.
        exploration: Probability of a random action at first, in [0, 1]. Default 1.
        exploration_decay: Its factor after each episode of any worker, in [0, 1]. Default 0.9.
        exploration_least: What it does not fall below, in [0, 1]. Default 0.02.
        initial_value: What every action is thought to be worth at first, in units of the objective. Default
            1 / (1 - discount): that of the objective 1 for ever. Where it learns from recorded decisions (agent key
            `replay`) of one who never took some actions, 0 or less, so that these do not seem the best.
        unbounded: Where a side of a sensor without bound is assumed to end, > 0, in the sensor's unit. Default 3.
        send_every: Decisions from update to update, >= 1. Default 8.

    Source: Sutton and Barto (2018), Reinforcement Learning, sections 6.6 (expected Sarsa) and 12.7 (Sarsa(lambda),
    accumulating traces).
    """

    CHECKPOINT_FORMAT = "sarsa"
    CHECKPOINT_SCHEMA_VERSION = 1

    config: SarsaConfig

    def __init__(self) -> None:
        super().__init__()
        self.exploration = self.config.exploration
        self.decisions = 0
        self._paths: dict[str, _Path] = {}

    @classmethod
    def check_spaces(
        cls, sensors: Sequence[SensorInformation], actuators: Sequence[ActuatorInformation], **params: Any
    ) -> None:
        """Refuse anything but one Discrete actuator."""
        action_space(actuators)

    def setup(self) -> None:
        """Make the basis from the sensors, and the values."""
        self.memory.size_limit = MEMORY_ROWS
        self._space = action_space(self.actuators)
        ends = np.cumsum([0, *(it.space.size for it in self.sensors)])
        looks = {id(it) for it in seen(self.sensors)}
        parts = [np.arange(a, b) for it, a, b in zip(self.sensors, ends, ends[1:], strict=False) if id(it) in looks]
        self._seen = np.concatenate(parts or [np.zeros(0, np.int64)])  # columns of observations
        self._legal = mask_columns(self.sensors, self.actuators).get(self.actuators[0].uid)
        self._basis = FourierBasis(*ranges(self.sensors, self.config.unbounded), self.config.order)
        self.weights: Array = np.zeros((self._space.n, self._basis.count))
        self.weights[:, 0] = self.config.first_value  # the first feature is constant

    def initial_update(self, muscle_id: str) -> dict[str, NDArray[Any]]:
        """Return the values as they are."""
        return self.policy()

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> dict[str, NDArray[Any]] | None:
        """Learn from the newest decision of a muscle; return the update where one is due.

        Raises:
            ValueError: The decision has no objective.
            FloatingPointError: An error is no finite number; learning cannot go on.
        """
        row = self.memory.tail(1, include_only=muscle_id)
        choice = data_from_muscle
        if choice is None:  # a row that our muscle did not make
            choice = int(row.actions[0, 0]) - self._space.start
        body = int(row.body[0])
        who = muscle_id if body < 0 else f"{muscle_id} body {body}"  # whose decisions follow each other
        with np.errstate(over="ignore", invalid="ignore"):  # infinity shows in an error, where it is refused
            over = self._learn(who, row, choice)
        self.decisions += 1
        if over:
            del self._paths[who]
            self.exploration = max(self.config.exploration_least, self.exploration * self.config.exploration_decay)
        return self.policy() if over or self.decisions % self.config.send_every == 0 else None

    def _learn(self, who: str, row: MemoryShard, action: int) -> bool:
        """Move the values by the error of one decision for the action of this index; return whether it was the last.

        The features of a decision are those that the one before led to, and are not computed again.
        """
        objective = float(row.objective[0])
        if objective != objective:
            raise ValueError(f"sarsa needs an objective for each decision, and that of {who} has none")
        # A recorded episode without a known outcome has no end, and the next one begins all the same.
        path = None if row.decision_index[0] == 0 else self._paths.get(who)
        if path is None:
            path = _Path(self._basis.features(row.observations[0][self._seen]), self._space.n)
            self._paths[who] = path
        error = objective - float(self.weights[action] @ path.features)
        if not math.isfinite(error):
            raise FloatingPointError(
                f"sarsa: the error of a decision is {error} after {self.decisions} decisions, so learning cannot go "
                f"on; objective {objective:g}, step_size {self.config.step_size:g}, discount {self.config.discount:g}; "
                "objectives should be of the order of 1"
            )
        over = bool(row.dones[0])
        following = path.features
        if not (over and row.terminated[0]):
            after = row.next_readings.flat[0]
            following = self._basis.features(after[self._seen])
            legal = None if self._legal is None else after[self._legal] != 0
            error += self.config.discount * self._expected(following, legal)
        path.trace *= self.config.discount * self.config.trace_decay
        path.trace[action] += path.features
        self.weights += (self.config.step_size * error * self._basis.step_sizes) * path.trace
        path.features = following
        return over

    def _expected(self, features: Array, legal: NDArray[Any] | None) -> float:
        """Return what acting on from here is worth, exploration included; `legal` None: all actions are."""
        worth = self.weights @ features
        values: list[float] = (worth if legal is None else worth[legal]).tolist()
        return (1.0 - self.exploration) * max(values) + self.exploration * sum(values) / len(values)

    def policy(self) -> dict[str, NDArray[Any]]:
        """Return what a muscle needs to act, in memory of its own."""
        return {
            "weights": self.weights.copy(),
            "basis": np.array([self.config.order, self.config.unbounded], dtype=np.float64),
            "exploration": np.array(self.exploration),
        }

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return the same as the policy: there is no more to store between episodes."""
        return self.policy()

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on with stored values and exploration.

        Raises:
            ValueError: They belong to another brain, other sensors, actions or another basis, or hold NaN; nothing was
                changed.
        """
        expected = {name: array.shape for name, array in self.policy().items()}
        found = {name: array.shape for name, array in arrays.items()}
        if found.keys() != expected.keys():
            names = ", ".join(list(found)[:NAMES_MAX]) + (" and others" if len(found) > NAMES_MAX else "")
            raise ValueError(
                f"the stored model is not one of sarsa: expected arrays {', '.join(expected)}, found {names}"
            )
        if found["basis"] == expected["basis"]:
            for name, own, there in zip(
                ("order", "unbounded"), (self.config.order, self.config.unbounded), arrays["basis"], strict=True
            ):
                if own != there:
                    raise ValueError(f"the stored model has another {name}: expected {own:g}, found {there:g}")
        for name, shape in expected.items():
            if found[name] != shape:
                raise ValueError(
                    f"the stored model is for other sensors or actions: {name}: expected {shape}, found {found[name]}"
                )
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("the stored model is damaged: expected finite numbers, found NaN or infinity")
        self.weights = np.array(arrays["weights"], dtype=np.float64)
        self.exploration = float(arrays["exploration"])

    def export_checkpoint_state(self) -> Mapping[str, NDArray[Any]]:
        """Return values, exploration, the number of decisions, and the path of each muscle that is in an episode."""
        paths = {
            f"{part}:{muscle}": array
            for muscle, path in self._paths.items()
            for part, array in (("features", path.features), ("trace", path.trace))
        }
        scalars = {"exploration": np.array(self.exploration), "decisions": np.array(self.decisions)}
        return {"weights": self.weights, **scalars, **paths}

    def restore_checkpoint_state(self, state: Mapping[str, NDArray[Any]] | bytes) -> None:
        """Take over what `export_checkpoint_state` returned."""
        assert not isinstance(state, bytes)
        self.weights = np.array(state["weights"])
        self.exploration, self.decisions = float(state["exploration"]), int(state["decisions"])
        self._paths = {}
        for name in state:
            part, _, muscle = name.partition(":")
            if part == "features":
                path = _Path(np.array(state[name]), self._space.n)
                path.trace = np.array(state[f"trace:{muscle}"])
                self._paths[muscle] = path
