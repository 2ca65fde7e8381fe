"""Information: readings, setpoints and rewards that also answer to the names they had in palaestrAI."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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


def _given(
    kind: type,
    value: Any,
    space: Space | None,
    uid: str | int | None,
    old: Mapping[str, str],
    found: dict[str, Any],
) -> tuple[Any, Space, str | int]:
    """Return value, space and uid of what a constructor was given by new and by old names.

    Raises:
        TypeError: An argument has a name that there never was, or space or uid lacks.
    """
    arguments = {"value": value, "space": space, "uid": uid}
    for name, given in found.items():
        if name not in old:
            raise TypeError(f"{kind.__name__}: expected {', '.join([*arguments, *old])}, found {name!r}")
        _warn(kind, name, old[name], 3)
        if arguments[old[name]] is None:
            arguments[old[name]] = given
    for name in ("space", "uid"):
        if arguments[name] is None:
            raise TypeError(f"{kind.__name__}: {name} is missing")
    return arguments["value"], arguments["space"], arguments["uid"]


class SensorInformation(_Sensor):
    """Hold one reading; `sensor_value`, `observation_space`, `sensor_id` and `id` are old names.

    The constructor takes them too. Using one is a DeprecationWarning.
    """

    __slots__ = ()

    sensor_value = _renamed("sensor_value", "value")
    observation_space = _renamed("observation_space", "space")
    sensor_id = _renamed("sensor_id", "uid")
    id = _renamed("id", "uid")

    def __init__(
        self,
        value: Any = None,
        space: Space | None = None,
        uid: str | int | None = None,
        value_ids: Sequence[str] | None = None,
        **old: Any,
    ) -> None:
        names = {"sensor_value": "value", "observation_space": "space", "sensor_id": "uid"}
        super().__init__(*_given(SensorInformation, value, space, uid, names, old), value_ids)

    def __len__(self) -> int:
        return self.space.size


class ActuatorInformation(_Actuator):
    """Hold one setpoint; `setpoint`, `action_space`, `actuator_id` and `id` are old names.

    The constructor takes them too. Using one is a DeprecationWarning.
    """

    __slots__ = ()

    setpoint = _renamed("setpoint", "value")
    action_space = _renamed("action_space", "space")
    actuator_id = _renamed("actuator_id", "uid")
    id = _renamed("id", "uid")

    def __init__(
        self,
        value: Any = None,
        space: Space | None = None,
        uid: str | int | None = None,
        value_ids: Sequence[str] | None = None,
        **old: Any,
    ) -> None:
        names = {"setpoint": "value", "action_space": "space", "actuator_id": "uid"}
        super().__init__(*_given(ActuatorInformation, value, space, uid, names, old), value_ids)

    def __len__(self) -> int:
        return self.space.size


class RewardInformation(_Reward):
    """Hold one reward; `reward_value`, `observation_space` and `reward_id` are old names.

    The constructor takes them too. Using one is a DeprecationWarning. A reward plus a number is a number.
    """

    __slots__ = ()

    reward_value = _renamed("reward_value", "value")
    observation_space = _renamed("observation_space", "space")
    reward_id = _renamed("reward_id", "uid")

    def __init__(
        self,
        value: Any = None,
        space: Space | None = None,
        uid: str | int | None = None,
        value_ids: Sequence[str] | None = None,
        **old: Any,
    ) -> None:
        names = {"reward_value": "value", "observation_space": "space", "reward_id": "uid"}
        super().__init__(*_given(RewardInformation, value, space, uid, names, old), value_ids)

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
