from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import ContractBroken
from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
)
from ganglion.testing import check_environment

LEVEL = Box(0.0, 10.0, ())


class Right(Environment):
    """A tank that keeps the contract."""

    def __init__(self, size: float = 10.0) -> None:
        super().__init__()
        self.size = size

    def start_environment(self) -> EnvironmentBaseline:
        self.level, self.steps = float(self.rng.uniform(0.0, self.size)), 0
        return EnvironmentBaseline(self.readings(), self.valves())

    def valves(self) -> list[ActuatorInformation]:
        return [ActuatorInformation(0, Discrete(2), "valve")]

    def readings(self) -> list[SensorInformation]:
        return [SensorInformation(self.level, LEVEL, "level")]

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        self.steps += 1
        self.level = min(max(self.level - 0.5 + sum(it.value for it in actuators), 0.0), 10.0)
        return EnvironmentState(self.readings(), self.rewards(), terminated=self.steps == 20)

    def rewards(self) -> list[RewardInformation]:
        return [RewardInformation(1.0, LEVEL, "nearness")]

    @classmethod
    def longest_episode(cls, **params: Any) -> int | None:
        return 20


class Overflows(Right):
    def readings(self) -> list[SensorInformation]:
        return [SensorInformation(self.level + self.steps, LEVEL, "level")]


class Forgets(Right):
    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        super().update(actuators)
        return EnvironmentState([], self.rewards(), terminated=False)


class WithoutNoOp(Right):
    def valves(self) -> list[ActuatorInformation]:
        return [ActuatorInformation(None, Discrete(2), "valve")]


class Blind(Right):
    def readings(self) -> list[SensorInformation]:
        return []


class Changes(Right):
    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        self.start_environment()
        return EnvironmentBaseline([SensorInformation(1.0, LEVEL, "other")], self.valves())


class GoesOn(Right):
    @classmethod
    def longest_episode(cls, **params: Any) -> int | None:
        return 10


class Guesses(Right):
    count = 0

    def start_environment(self) -> EnvironmentBaseline:
        Guesses.count += 1
        baseline = super().start_environment()
        self.level = float(Guesses.count)
        baseline.sensors_available[0].value = self.level
        return baseline


class Remembers(Right):
    """Keep something of its own from one episode for the next."""

    opened = 0

    def start_environment(self) -> EnvironmentBaseline:
        self.opened += 1
        super().start_environment()
        self.level = float(self.opened)
        return EnvironmentBaseline(self.readings(), self.valves())


class Demands(Right):
    """Rely on being given a setpoint."""

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        return super().update([actuators[0]])


class GoesBack(Right):
    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        state = super().update(actuators)
        return EnvironmentState(
            state.sensor_information, state.rewards, terminated=False, simtime=SimTime(10 - self.steps, None)
        )


class Stumbles(Right):
    def shutdown(self) -> None:
        raise RuntimeError("no way out")

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        return self.start_environment()


class Says(Right):
    """Say what it is."""

    def save_state(self) -> Any:
        return {"level": np.array(self.level), "steps": self.steps}

    def load_state(self, state: Any) -> None:
        self.level, self.steps = float(state["level"]), state["steps"]


class SaysLess(Says):
    def save_state(self) -> Any:
        return {"level": np.array(self.level), "steps": 0}


class SaysAndDraws(Says):
    def save_state(self) -> Any:
        self.level = min(self.level + 0.25, 10.0)
        return super().save_state()


class SaysObjects(Says):
    def save_state(self) -> Any:
        return {"tank": [self.rng, object()]}


class SaysNothing(Says):
    def save_state(self) -> Any:
        return {"level": np.array(5.0), "steps": self.steps}


class Deaf(Says):
    def load_state(self, state: Any) -> None:
        raise KeyError("level")


class OnlySaves(Right):
    def save_state(self) -> Any:
        return {}


class Waits(Says):
    """Say it in a loop."""

    async def save_state(self) -> Any:
        return super().save_state()

    async def load_state(self, state: Any) -> None:
        super().load_state(state)


@pytest.mark.parametrize("cls", [Says, Waits])
def test_one_that_says_what_it_is_passes(cls: type[Environment]) -> None:
    """Its state is asked for in each episode, and another one goes on with it: nothing is said of a right one."""
    check_environment(cls, steps=15)
    check_environment(cls, seed=7, episodes=4, steps=50)
    check_environment(cls, episodes=2, steps=1)


class Counts(Right):
    """Say in words how long its episodes are."""

    @classmethod
    def longest_episode(cls, **params: Any) -> Any:
        return "five"


@pytest.mark.parametrize(
    ("cls", "clause"),
    [
        (Counts, "returns a number of steps or None: found 'five'"),
        (Overflows, "returns all that it declared"),
        (Forgets, "returns all that it declared"),
        (WithoutNoOp, "its no-op"),
        (Blind, "at least one sensor"),
        (Changes, "with the same declarations"),
        (GoesOn, "no episode is longer than `longest_episode` says"),
        (Guesses, "the same seed and setpoints give the same readings"),
        (Remembers, "the same `reset` again, .* opens the same episode, .*: found another answer number 21 "),
        (Demands, "takes a step in which no actuator is set: IndexError"),
        (GoesBack, "returns all that it declared"),
        (Stumbles, "`shutdown` ends it: .*no way out"),
        (OnlySaves, "expected save_state and load_state, or neither, found save_state without load_state"),
        (SaysLess, "all that it needs to go on, bit by bit: then no episode is longer"),
        (SaysAndDraws, "and changes nothing: found another answer number"),
        (SaysObjects, r"returns names and arrays, or other plain values.*tank\[1\]: a object is no plain value"),
        (SaysNothing, "all that it needs to go on, bit by bit: found another answer number"),
        (Deaf, "`load_state` puts one that was started.*KeyError"),
    ],
)
def test_each_breach_is_named(cls: type[Environment], clause: str) -> None:
    """A class that breaks one clause is told that clause, by its own name."""
    with pytest.raises(ContractBroken, match=f"(?s){cls.__name__}.*{clause}"):
        check_environment(cls)
