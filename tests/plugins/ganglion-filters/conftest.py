"""A stack of filters, driven as a muscle's process does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ganglion.sdk import ActuatorInformation, Filter, SensorInformation


class Chain:
    """Let readings go through filters in their order, and setpoints in reverse."""

    def __init__(self, filters: Sequence[Filter], sensors: list[Any], actuators: list[Any]) -> None:
        self.filters = list(filters)
        self.outer = (sensors, actuators)
        for one in self.filters:
            one.setup()
        for one in self.filters:
            one.given = sensors, actuators
            one.shown = sensors, actuators = one.declare(sensors, actuators)
        self.sensors, self.actuators = sensors, actuators
        self.reset()

    def reset(self) -> None:
        """Begin an episode."""
        for one in self.filters:
            one.reset()

    def see(self, **values: Any) -> dict[str, Any]:
        """Return the readings as the agent sees them; ids are those of the outer sensors."""
        readings = [SensorInformation(values[it.uid], it.space, it.uid) for it in self.outer[0]]
        available = [ActuatorInformation(None, it.space, it.uid) for it in self.outer[1]]
        for one in self.filters:
            readings, available = one.muscle_pre_process(readings, available)
        assert [it.uid for it in self.sensors] == [it.uid for it in readings]
        for declared, it in zip(self.sensors, readings, strict=True):
            assert declared.space == it.space
        return {it.uid: it.value for it in readings}

    def set(self, data: Any = None, **values: Any) -> tuple[dict[str, Any], Any]:
        """Return the setpoints as they are applied, and the data."""
        setpoints = [ActuatorInformation(values[it.uid], it.space, it.uid) for it in self.actuators]
        for one in reversed(self.filters):
            setpoints, data = one.muscle_post_process(setpoints, data)
        assert [it.space for it in self.outer[1]] == [it.space for it in setpoints]
        return {it.uid: it.value for it in setpoints}, data

    def spaces(self) -> dict[str, str]:
        """Return the spaces of the agent's sensors, as text."""
        return {it.uid: it.space.to_string() for it in self.sensors}


@pytest.fixture
def chain() -> Callable[..., Chain]:
    """Return a function that stacks filters over sensors and actuators, given by id."""

    def make(filters: Any, sensors: Any = None, actuators: Any = None) -> Chain:
        stack = filters if isinstance(filters, list) else [filters]
        return Chain(
            stack,
            [SensorInformation(None, space, uid) for uid, space in (sensors or {}).items()],
            [ActuatorInformation(value, space, uid) for uid, (space, value) in (actuators or {}).items()],
        )

    return make
