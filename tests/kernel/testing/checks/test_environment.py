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


class Guesses(Right):
    """Count in the class how often it was opened."""

    count = 0

    def start_environment(self) -> EnvironmentBaseline:
        Guesses.count += 1
        return super().start_environment()

    def readings(self) -> list[SensorInformation]:
        return [SensorInformation(float(Guesses.count), LEVEL, "level")]


class Remembers(Right):
    """Keep something of its own from one episode for the next."""

    opened = 0

    def start_environment(self) -> EnvironmentBaseline:
        self.opened += 1
        super().start_environment()
        self.level = float(self.opened)
        return EnvironmentBaseline(self.readings(), self.valves())


class GoesBack(Right):
    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        state = super().update(actuators)
        state.simtime = SimTime(10 - self.steps, None)
        return state


class Says(Right):
    """Say what it is."""

    def save_state(self) -> Any:
        return {"level": np.array(self.level), "steps": self.steps}

    def load_state(self, state: Any) -> None:
        self.level, self.steps = float(state["level"]), state["steps"]


class SaysAndDraws(Says):
    def save_state(self) -> Any:
        self.level = min(self.level + 0.25, 10.0)
        return super().save_state()


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


def _other(self: Any, request: Any) -> EnvironmentBaseline:
    self.start_environment()
    return EnvironmentBaseline([SensorInformation(1.0, LEVEL, "other")], self.valves())


def _raises(self: Any, *_: Any) -> None:
    raise RuntimeError("no way out")


@pytest.mark.parametrize(
    ("base", "methods", "clause"),
    [
        (
            Right,
            {"longest_episode": classmethod(lambda cls, **params: "five")},
            "returns a number of steps or None: found 'five'",
        ),
        (
            Right,
            {"readings": lambda self: [SensorInformation(self.level + self.steps, LEVEL, "level")]},
            "returns all that it declared",
        ),
        (
            Right,
            {"update": lambda self, actuators: EnvironmentState([], self.rewards(), terminated=False)},
            "returns all that it declared",
        ),
        (Right, {"valves": lambda self: [ActuatorInformation(None, Discrete(2), "valve")]}, "its no-op"),
        (Right, {"readings": lambda self: []}, "at least one sensor"),
        (Right, {"reset": _other}, "with the same declarations"),
        (
            Right,
            {"longest_episode": classmethod(lambda cls, **params: 10)},
            "no episode is longer than `longest_episode` says",
        ),
        (Guesses, {}, "the same seed and setpoints give the same readings"),
        (Remembers, {}, "the same `reset` again, .* opens the same episode, .*: found another answer number 21 "),
        (
            Right,
            {"update": lambda self, actuators: Right.update(self, [actuators[0]])},
            "takes a step in which no actuator is set: IndexError",
        ),
        (GoesBack, {}, "returns all that it declared"),
        (
            Right,
            {"shutdown": _raises, "reset": lambda self, request: self.start_environment()},
            "`shutdown` ends it: .*no way out",
        ),
        (
            Right,
            {"save_state": lambda self: {}},
            "expected save_state and load_state, or neither, found save_state without load_state",
        ),
        (
            Says,
            {"save_state": lambda self: {"level": np.array(self.level), "steps": 0}},
            "all that it needs to go on, bit for bit: then no episode is longer",
        ),
        (SaysAndDraws, {}, "and changes nothing: found another answer number"),
        (
            Says,
            {"save_state": lambda self: {"tank": [self.rng, object()]}},
            r"returns names and arrays, or other plain values.*tank\[1\]: a object is no plain value",
        ),
        (
            Says,
            {"save_state": lambda self: {"level": np.array(5.0), "steps": self.steps}},
            "all that it needs to go on, bit for bit: found another answer number",
        ),
        (Says, {"load_state": _raises}, "`load_state` gives a started environment.*no way out"),
    ],
)
def test_each_breach_is_named(base: type[Environment], methods: dict[str, Any], clause: str) -> None:
    """A class that breaks one clause is told that clause, by its own name."""
    with pytest.raises(ContractBroken, match=f"(?s)Broken.*{clause}"):
        check_environment(type("Broken", (base,), methods))
