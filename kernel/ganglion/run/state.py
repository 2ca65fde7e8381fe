"""State of our own objects: what a successor is given that has been set up in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class Stateful:
    """Say by `state` what an object is beside what it was set up with, and become that by `restore`.

    The state holds plain values and dataclasses; parts that are stateful themselves are restored in their place.
    """

    SET_UP: ClassVar[frozenset[str]] = frozenset()
    """Attributes that are no part of the state: a successor has them by its own set-up."""

    def state(self) -> dict[str, Any]:
        """Return the state; it is not to be changed, since it shows the object's own lists and maps."""
        found: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name not in self.SET_UP:
                plain = list(value) if isinstance(value, set) else value
                found[name] = value.state() if isinstance(value, Stateful) else plain
        return found

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become what `state` says."""
        for name, value in state.items():
            mine = getattr(self, name, None)
            if isinstance(mine, Stateful):
                mine.restore(value)
            else:
                setattr(self, name, set(value) if isinstance(mine, set) else value)
