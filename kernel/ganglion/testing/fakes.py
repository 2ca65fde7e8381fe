"""Fakes: an environment, a muscle, a brain and an objective that play a script and record their inputs; a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk.brain import Brain
from ganglion.sdk.environment import Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation
from ganglion.sdk.memory import Memory
from ganglion.sdk.muscle import Muscle, Objective
from ganglion.sdk.spaces import Box

Sensors = list[SensorInformation]
Actuators = list[ActuatorInformation]
_WIDE = Box(-np.inf, np.inf, ())


class FakeEnvironment(Environment):
    """Show the readings of a script, reward the last setpoint, and record all setpoints.

    One sensor `level`, one actuator `push` (a box from -1 to 1, no-op 0), one reward `pushed`. `levels` are the
    readings of an episode, which terminates with the last; `heard` are the setpoints of all updates, else the no-op.
    """

    def __init__(self, levels: Sequence[float] = (0.0, 1.0, 2.0, 3.0)) -> None:
        if len(levels) < 2:
            raise ValueError(f"levels: expected at least 2 readings, found {len(levels)}")
        self.levels = [float(level) for level in levels]
        self.heard: list[float] = []

    def start_environment(self) -> EnvironmentBaseline:
        """Show the first reading."""
        self._place = 0
        return EnvironmentBaseline(self._read(), [ActuatorInformation(0.0, Box(-1.0, 1.0, ()), "push")])

    def _read(self) -> Sensors:
        return [SensorInformation(self.levels[self._place], _WIDE, "level")]

    def update(self, actuators: Actuators) -> EnvironmentState:
        """Show the next reading."""
        push = actuators[0].value if actuators else 0.0
        self.heard.append(push)
        self._place += 1
        reward = RewardInformation(push, Box(-1.0, 1.0, ()), "pushed")
        return EnvironmentState(self._read(), [reward], terminated=self._place == len(self.levels) - 1)


class FakeMuscle(Muscle):
    """Set all actuators by a script, after its end to their no-ops, and record readings and updates.

    `setpoints` has a value for each decision; `seen` are the readings of each decision by id, `updates` the updates.
    """

    def __init__(self, setpoints: Sequence[Any] = ()) -> None:
        self.script = list(setpoints)
        self.seen: list[dict[str, Any]] = []
        self.updates: list[Any] = []

    def propose_actions(self, sensors: Sensors, actuators_available: Actuators) -> tuple[Actuators, Any]:
        """Return the script's setpoints, with the number of the decision as data for the brain."""
        number = len(self.seen)
        self.seen.append({it.uid: it.value for it in sensors})
        noops = {it.uid: it.value for it in self.actuators}
        for it in actuators_available:
            it.value = self.script[number] if number < len(self.script) else noops[it.uid]
        return actuators_available, {"number": number}

    def update(self, update: Any) -> None:
        """Record the update."""
        self.updates.append(update)


class FakeBrain(Brain):
    """Send the updates of a script, after its end none, and record rows and evaluations.

    The initial update is None and not of the script. `thoughts` are muscle, data and objective of each row,
    `evaluations` the arguments of `evaluate`.
    """

    def __init__(self, updates: Sequence[Any] = ()) -> None:
        self.script = list(updates)
        self.thoughts: list[tuple[str, Any, float]] = []
        self.evaluations: list[Any] = []
        self._before = 0

    def initial_update(self, muscle_id: str) -> Any:
        """Return the last update, None before the first one."""
        return self.last_update

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Return what the script says."""
        number = len(self.thoughts)
        objective = float(self.memory.tail(1).objective[0])
        self.thoughts.append((muscle_id, data_from_muscle, objective))
        return self.script[number] if number < len(self.script) else None

    def evaluate(self, evaluation: Any) -> None:
        """Write it down."""
        self.evaluations.append(evaluation)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return the number of thoughts, those of a loaded model included, as `thoughts`."""
        return {"thoughts": np.array(self._before + len(self.thoughts))}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue to count; restart the script."""
        self._before = int(arrays["thoughts"])


class FakeObjective(Objective):
    """Judge by a script, after its end by the sum of the rewards, and record the rewards.

    `values` has the objective of each row, None included; `rows` are the rewards of each row by full id.
    """

    def __init__(self, values: Sequence[float | None] = ()) -> None:
        self.script = list(values)
        self.rows: list[dict[str, Any]] = []

    def internal_reward(self, memory: Memory, **kwargs: Any) -> float | None:
        """Return what the script says."""
        number, rewards = len(self.rows), memory.tail(1).rewards
        self.rows.append({uid: rewards[uid][0] for uid in rewards.columns})
        return self.script[number] if number < len(self.script) else float(rewards.sum(axis=None))


class Clock:
    """A clock that `advance` and `sleep` move: a call returns seconds, as `time.monotonic` does.

    A class that uses real time takes clock and sleep as arguments; a test gives `clock` and `clock.sleep`.
    """

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = float(now_s)

    def __call__(self) -> float:
        """Return the time, seconds."""
        return self._now_s

    def advance(self, span_s: float) -> float:
        """Advance the time; return the new one. ValueError: the span is negative or no number."""
        if not span_s >= 0.0:
            raise ValueError(f"clock: expected a span of at least 0 s, found {span_s!r}")
        self._now_s += float(span_s)
        return self._now_s

    def sleep(self, span_s: float) -> None:
        """Advance the time without waiting; raises as `advance`."""
        self.advance(span_s)
