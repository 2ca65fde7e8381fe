"""History: the setpoints that were handed on in an episode, newest first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ganglion.sdk import ActuatorInformation, SensorInformation, Space

__all__ = ["Setpoints", "checked_steps"]


def checked_steps(steps: Any, least: int = 1) -> int:
    """Return a number of decisions; ValueError if it is none."""
    if type(steps) is not int or steps < least:
        raise ValueError(f"steps: expected an integer >= {least}, found {steps!r}")
    return steps


@dataclass(init=False)
class Setpoints:
    """Show the setpoints of the last decisions as sensors `LAST-<n>-<actuator>`, 1 the newest.

    Where a sensor has that id already, as the past of a sensor of the actuator's name, ` (setpoint)` follows.

    Args:
        actuators: With their no-ops, which stand for what was before the first decision.
        steps: How many decisions are shown.
        taken: Ids of other sensors.
    """

    _past: tuple[tuple[Any, ...], ...]

    def __init__(self, actuators: Sequence[ActuatorInformation], steps: int, taken: Collection[str] = ()) -> None:
        self._taken = list(taken)
        self._uids = [it.uid for it in actuators]
        self._spaces: list[Space] = [it.space for it in actuators]
        self._noops = tuple(it.value for it in actuators)
        self._steps = steps
        self._past = ()

    def reset(self) -> None:
        """Forget all."""
        self._past = ()

    def note(self, setpoints: Sequence[ActuatorInformation]) -> None:
        """Take the setpoints of a decision, in any order."""
        values = {it.uid: it.value for it in setpoints}
        newest = tuple(values[uid] for uid in self._uids)
        self._past = (newest, *self._past)[: self._steps]

    def sensors(self, declared: bool = False) -> list[SensorInformation]:
        """Return a sensor per actuator and decision; `declared` leaves the values out."""
        found = []
        for i, (uid, space) in enumerate(zip(self._uids, self._spaces, strict=True)):
            for n in range(self._steps):
                values = self._past[n] if n < len(self._past) else self._noops
                name = f"LAST-{n + 1}-{uid}"
                name = f"{name} (setpoint)" if name in self._taken else name
                found.append(SensorInformation(None if declared else values[i], space, name))
        return found
