"""Agent: brains, muscles and objectives written for `palaestrai.agent`, hosted by the bus."""

from __future__ import annotations

import functools
from abc import ABC
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ganglion.sdk import ActuatorInformation as _Actuator
from ganglion.sdk import Brain as _Brain
from ganglion.sdk import CheckpointableBrain, EvaluationResult, Filter, Memory, MemoryShard, Mode, bootstrap_mask
from ganglion.sdk import Muscle as _Muscle
from ganglion.sdk import Objective as _Objective
from ganglion.sdk import SensorInformation as _Sensor
from ganglion_palaestrai.dumper import BrainDumper, NoBrainFoundError, dump_of
from ganglion_palaestrai.information import ActuatorInformation, RewardInformation, SensorInformation, adopt

__all__ = [
    "ActuatorInformation",
    "Brain",
    "BrainDumper",
    "CheckpointableBrain",
    "EvaluationResult",
    "Filter",
    "Memory",
    "MemoryShard",
    "Muscle",
    "NoBrainFoundError",
    "Objective",
    "RewardInformation",
    "SensorInformation",
    "bootstrap_mask",
]


class _Declared:
    """Teach the declarations of an agent the old names when the bus sets them."""

    _sensors: Sequence[_Sensor] = ()
    _actuators: Sequence[_Actuator] = ()

    @property
    def sensors(self) -> Sequence[_Sensor]:
        """The sensors of the agent."""
        return self._sensors

    @sensors.setter
    def sensors(self, sensors: Sequence[_Sensor]) -> None:
        adopt(sensors)
        self._sensors = sensors

    @property
    def actuators(self) -> Sequence[_Actuator]:
        """The actuators of the agent."""
        return self._actuators

    @actuators.setter
    def actuators(self, actuators: Sequence[_Actuator]) -> None:
        adopt(actuators)
        self._actuators = actuators


class Brain(_Declared, _Brain, ABC):
    """Learn as `ganglion.sdk.Brain` does; `store` and `load` may keep dumps through `_dumpers`.

    `load` is called after `setup`, and only if there is a model. Before its first row, `thinking` is asked once per
    muscle with None as data.
    """

    @property
    def _dumpers(self) -> list[BrainDumper]:
        return [BrainDumper(self.models, self.models)]

    @property
    def _memory(self) -> Memory:
        return self.memory

    @property
    def _seed(self) -> int:
        return self.seed

    @property
    def _name(self) -> str:
        return self.name


class Muscle(_Declared, _Muscle, ABC):
    """Act as `ganglion.sdk.Muscle` does; what it gets answers to the old names, `load` gives dumps as files."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "propose_actions" in cls.__dict__:
            cls.propose_actions = _adopting(cls.propose_actions)  # type: ignore[method-assign]

    def load(self, tag: str = "") -> Any:
        """Return the dump under a tag as a file that stands at its beginning; what is no dump as it is; else None."""
        found = super().load(tag or "")
        dump = dump_of(found)
        return found if dump is None else dump

    @property
    def _model_loaders(self) -> list[BrainDumper]:
        return [] if self.model_reader is None else [BrainDumper(self.model_reader)]

    @property
    def _memory(self) -> Memory:
        return self.memory

    @property
    def _uid(self) -> str:
        return self.uid

    @property
    def _mode(self) -> Mode:
        return self.mode


class Objective(_Objective, ABC):
    """Judge as `ganglion.sdk.Objective` does; an empty array is no objective, too."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "internal_reward" in cls.__dict__:
            cls.internal_reward = _emptying(cls.internal_reward)  # type: ignore[method-assign]


def _adopting(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that teaches all informations it is given the old names first."""

    @functools.wraps(method)
    def adopting(self: Any, sensors: Any, actuators_available: Any, *more: Any) -> Any:
        adopt(sensors)
        adopt(actuators_available)
        return method(self, sensors, actuators_available, *more)

    return adopting


def _emptying(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that gives None where its own result is an empty array."""

    @functools.wraps(method)
    def emptying(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = method(self, *args, **kwargs)
        return None if isinstance(found, np.ndarray) and found.size == 0 else found

    return emptying
