"""What the tests of the deep learners share: both halves as the bus makes them, and rows to learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import (
    ActuatorInformation,
    Batch,
    Box,
    Discrete,
    Memory,
    Mode,
    SensorInformation,
    Session,
    Transitions,
)

SENSORS = (Box(-1.0, 1.0, (2,)), Discrete(3))


class Halves:
    """Make brains and muscles with the same sensors and actuators, and rows for them."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self.sensors = [SensorInformation(None, space, f"e.s{i}") for i, space in enumerate(SENSORS)]
        self.actuators: list[ActuatorInformation] = []
        self.act_on(Discrete(3, start=5))

    def act_on(self, *spaces: Any) -> None:
        self.actuators = [ActuatorInformation(space.default(), space, f"e.a{i}") for i, space in enumerate(spaces)]

    def brain(self, cls: type[Any], seed: int = 42, **params: Any) -> Any:
        brain = self._make(cls, seed=seed, **params)
        brain.sensors, brain.actuators, brain.name = self.sensors, self.actuators, "a"
        brain.memory = Memory()
        brain.memory.declare(self.sensors, self.actuators)
        brain.setup()
        return brain

    def muscle(self, cls: type[Any], update: Any = None, mode: Mode = Mode.TRAIN, seed: int = 7) -> Any:
        muscle = self._make(cls, seed=seed, mode=mode)
        muscle.sensors, muscle.actuators = self.sensors, self.actuators
        muscle.setup()
        if update is not None:
            muscle.update(update)
        return muscle

    def batch(self, bodies: int = 1, seed: int = 3, **more: Any) -> Batch:
        rng = np.random.default_rng(seed)
        rows = np.column_stack([rng.uniform(-1, 1, (bodies, 2)), rng.integers(3, size=bodies)])
        numbers = np.zeros(bodies, dtype=np.int64)
        readings = {"e.s0": rows[:, :2], "e.s1": rows[:, 2].astype(np.int64)}
        return Batch(rows, readings, list(range(bodies)), numbers, numbers, Mode.TRAIN, **more)

    def rows(self, count: int, seed: int = 0, muscles: int = 1, length: int = 5) -> Iterator[Transitions]:
        rng = np.random.default_rng(seed)
        k = muscles
        for i in range(count):
            over = (i + 1) % length == 0
            odd = bool((i // length) % 2)
            actions = np.array(
                [np.concatenate([it.space.to_vector(it.space.sample(rng)) for it in self.actuators]) for _ in range(k)]
            )
            yield Transitions(
                observations=rng.uniform(-1, 1, (k, 3)),
                actions=actions,
                objectives=rng.normal(size=k),
                rewards=np.zeros((k, 0)),
                next_observations=rng.uniform(-1, 1, (k, 3)),
                terminated=np.full(k, over and not odd),
                truncated=np.full(k, over and odd),
                muscle=[f"a/{w}" for w in range(k)],
                body=[("a", 0)] * k,
                episode=np.full(k, i // length),
                step=np.full(k, i % length),
                data=[None] * k,
            )

    def session(self, length: int = 5, seed: int = 0, final: bool = True, **more: Any) -> Session:
        rng = np.random.default_rng([seed, length])
        actions = [
            np.concatenate([it.space.to_vector(it.space.sample(rng)) for it in self.actuators]) for _ in range(length)
        ]
        over = np.arange(1, length + 1) == length
        given = {
            "observations": rng.uniform(-1, 1, (length + final, 3)),
            "actions": np.array(actions).reshape(length, -1),
            "rewards": np.zeros((length, 0)),
            "objectives": rng.normal(size=length),
            "terminated": np.zeros(length, dtype=bool),
            "truncated": over,
            "ticks": np.arange(length),
            "sensors": self.sensors,
            "actuators": self.actuators,
            **more,
        }
        return Session("past-1", 0, 0, "a", "e", 0, seed, Mode.TRAIN, reward_ids=[], **given)


@pytest.fixture
def halves(make: Callable[..., Any]) -> Halves:
    """Return a maker of brains and muscles; without torch the test is skipped."""
    pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
    return Halves(make)
