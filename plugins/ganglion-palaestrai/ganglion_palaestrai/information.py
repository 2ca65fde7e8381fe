"""Information: readings, setpoints and rewards that also answer to the names they had in palaestrAI."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ganglion.sdk import ActuatorInformation as _Actuator
from ganglion.sdk import Information, Space
from ganglion.sdk import RewardInformation as _Reward
from ganglion.sdk import SensorInformation as _Sensor

__all__ = ["ActuatorInformation", "RewardInformation", "SensorInformation", "adopt"]


def _warn(kind: type, old: str, new: str, level: int) -> None:
    warnings.warn(f"{kind.__name__}.{old} is called {new}", DeprecationWarning, stacklevel=level + 1)


def _renamed(old: str, new: str) -> Any:
    """Return a property that reads and sets another attribute, and says so."""

    def read(self: Any) -> Any:
        _warn(type(self), old, new, 2)
        return getattr(self, new)

    def write(self: Any, value: Any) -> None:
        _warn(type(self), old, new, 2)
        setattr(self, new, value)

    return property(read, write, doc=f"`{new}`, under the name that it had.")


class _Renamed(Information):
    """Take value, space and uid by the names of `_names`, too: old name -> new name.

    Raises:
        TypeError: An argument has a name that there never was, or space or uid lacks.
    """

    __slots__ = ()
    _names: ClassVar[Mapping[str, str]]

    def __init__(
        self,
        value: Any = None,
        space: Space | None = None,
        uid: str | int | None = None,
        value_ids: Sequence[str] | None = None,
        **old: Any,
    ) -> None:
        kind, arguments = type(self), {"value": value, "space": space, "uid": uid}
        for name, given in old.items():
            if name not in self._names:
                expected = ", ".join([*arguments, *self._names])
                raise TypeError(f"{kind.__name__}: expected {expected}, found {name!r}")
            new = self._names[name]
            _warn(kind, name, new, 2)
            if arguments[new] is None:
                arguments[new] = given
        for name in ("space", "uid"):
            if arguments[name] is None:
                raise TypeError(f"{kind.__name__}: {name} is missing")
        super().__init__(**arguments, value_ids=value_ids)


class SensorInformation(_Renamed, _Sensor):
    """Hold one reading; `sensor_value`, `observation_space`, `sensor_id` and `id` are old names.

    The constructor takes them too. Using one is a DeprecationWarning.
    """

    __slots__ = ()
    _names: ClassVar[Mapping[str, str]] = {"sensor_value": "value", "observation_space": "space", "sensor_id": "uid"}

    sensor_value = _renamed("sensor_value", "value")
    observation_space = _renamed("observation_space", "space")
    sensor_id = _renamed("sensor_id", "uid")
    id = _renamed("id", "uid")

    def __len__(self) -> int:
        return self.space.size


class ActuatorInformation(_Renamed, _Actuator):
    """Hold one setpoint; `setpoint`, `action_space`, `actuator_id` and `id` are old names.

    The constructor takes them too. Using one is a DeprecationWarning.
    """

    __slots__ = ()
    _names: ClassVar[Mapping[str, str]] = {"setpoint": "value", "action_space": "space", "actuator_id": "uid"}

    setpoint = _renamed("setpoint", "value")
    action_space = _renamed("action_space", "space")
    actuator_id = _renamed("actuator_id", "uid")
    id = _renamed("id", "uid")

    def __len__(self) -> int:
        return self.space.size


class RewardInformation(_Renamed, _Reward):
    """Hold one reward; `reward_value`, `observation_space` and `reward_id` are old names.

    The constructor takes them too. Using one is a DeprecationWarning. A reward plus a number is a number.
    """

    __slots__ = ()
    _names: ClassVar[Mapping[str, str]] = {"reward_value": "value", "observation_space": "space", "reward_id": "uid"}

    reward_value = _renamed("reward_value", "value")
    observation_space = _renamed("observation_space", "space")
    reward_id = _renamed("reward_id", "uid")

    def __add__(self, other: Any) -> Any:
        return self.value + other


_OURS: dict[type[Information], type[Information]] = {
    _Sensor: SensorInformation,
    _Actuator: ActuatorInformation,
    _Reward: RewardInformation,
}


def adopt(informations: Iterable[Any]) -> None:
    """Teach informations that the bus made the old names; they stay the objects that they are."""
    for information in informations:
        ours = _OURS.get(type(information))
        if ours is not None:
            information.__class__ = ours  # no slot is added: nothing has to be copied
