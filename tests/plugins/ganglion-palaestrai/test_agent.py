from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion import sdk
from ganglion.sdk import Discrete, Memory, Mode, Models
from ganglion_palaestrai.agent import Brain, BrainDumper, Muscle, Objective

Make = Callable[..., Any]
SPACE = Discrete(5)


class Arm(Muscle):
    """Set each actuator to its sensor, by old names."""

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        for sensor, actuator in zip(sensors, actuators_available, strict=True):
            actuator.setpoint = sensor.sensor_value
        return actuators_available, self._mode


class Slow(Muscle):
    """Decide in a coroutine."""

    async def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        await asyncio.sleep(0)
        actuators_available[0].setpoint = 2
        return actuators_available


class Late(Arm):
    """Inherit how to decide."""

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        return super().propose_actions(sensors, actuators_available)


class Head(Brain):
    """Keep one number, in two dumps."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 1

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        return self.number

    def store(self) -> None:
        for tag in (None, "twin"):
            BrainDumper.store_brain_dump(io.BytesIO(bytes([self.number])), self._dumpers, tag)

    def load(self) -> None:
        found = BrainDumper.load_brain_dump(self._dumpers)
        assert found is not None
        self.number = found.read()[0]


def informations() -> tuple[list[sdk.SensorInformation], list[sdk.ActuatorInformation]]:
    """Return a sensor and an actuator as the bus makes them."""
    return [sdk.SensorInformation(3, SPACE, "e.s")], [sdk.ActuatorInformation(None, SPACE, "e.a")]


@pytest.mark.parametrize("kind", [Arm, Late])
def test_muscles_see_old_names(make: Make, kind: type[Muscle]) -> None:
    """What a muscle is given answers to the old names, once each, also where a method is inherited."""
    muscle = make(kind, mode=Mode.TEST)
    with pytest.warns(DeprecationWarning, match="is called") as caught:
        actuators, data = muscle.propose_actions(*informations())

    assert (3, Mode.TEST, 2) == (actuators[0].value, data, len(caught))


def test_muscles_may_decide_in_a_coroutine(make: Make) -> None:
    """A coroutine stays one."""
    with pytest.warns(DeprecationWarning, match="is called"):
        (actuator,) = asyncio.run(make(Slow).propose_actions(*informations()))

    assert 2 == actuator.value


def test_declarations_answer_to_old_names(make: Make) -> None:
    """The sensors and actuators that the bus sets on brain and muscle answer to the old names."""
    for part in (make(Head), make(Arm)):
        part.sensors, part.actuators = informations()
        with pytest.warns(DeprecationWarning, match="is called") as caught:
            found = (part.sensors[0].observation_space, part.sensors[0].sensor_id, part.actuators[0].action_space)
        assert ((SPACE, "e.s", SPACE), 3) == (found, len(caught))


def test_brains_keep_dumps_and_muscles_read_them(make: Make, tmp_path: Path) -> None:
    """What a brain stores through its dumpers comes back in a brain's load, and in a muscle's as a file."""
    first, second, muscle = make(Head), make(Head), make(Arm)
    first.models = second.models = muscle.model_reader = Models(str(tmp_path), str(tmp_path))
    first.number = 7
    first.store()
    second.load()

    assert 7 == second.number
    assert (b"\x07", b"\x07", None) == (muscle.load().read(), muscle.load("twin").read(), muscle.load("other"))
    assert b"\x07" == BrainDumper.load_brain_dump(muscle._model_loaders, "twin").read()


def test_private_names_of_old(make: Make) -> None:
    """Attributes that authors reached for are what the bus has set."""
    head, arm = make(Head, seed=5), make(Arm)
    head.memory, arm.memory = Memory(), Memory()

    assert (head.memory, 5, "part") == (head._memory, head._seed, head._name)
    assert (arm.memory, "part", Mode.TRAIN) == (arm._memory, arm._uid, arm._mode)


@pytest.mark.parametrize(("found", "expected"), [(np.array([]), None), (np.array([2.0]), np.array([2.0])), (3, 3)])
def test_an_empty_array_is_no_objective(make: Make, found: Any, expected: Any) -> None:
    """An objective may say that it has no value by an empty array; all else passes as it is."""

    class Goal(Objective):
        def __init__(self, params: Any = None) -> None:
            super().__init__(params)

        def internal_reward(self, memory: Memory, **kwargs: Any) -> Any:
            return found

    assert expected == make(Goal).internal_reward(Memory())
