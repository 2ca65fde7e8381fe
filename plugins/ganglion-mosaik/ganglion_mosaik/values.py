"""Values: spaces that a document gives as text, setpoints as JSON has them, and simulated time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ganglion.sdk import SimTime, Space, SpaceError

__all__ = ["moment", "plain", "spaces"]


def spaces(whose: str, given: Mapping[str, str] | None) -> dict[str, Space]:
    """Return spaces by name, from their texts.

    Raises:
        SpaceError: A text describes none; the message begins with `whose` and the name.
    """
    found = {}
    for name, text in (given or {}).items():
        try:
            found[name] = Space.from_string(text)
        except SpaceError as error:
            raise SpaceError(f"{whose}.{name}: {error}") from error
    return found


def plain(value: Any) -> Any:
    """Return a value of a space as numbers and lists."""
    return value.tolist() if hasattr(value, "tolist") else value


def moment(count: int, span_s: float, start: datetime | None) -> SimTime:
    """Return the simulated time of step or tick `count`, `span_s` after the start; without a start it has no date."""
    return SimTime(count, None if start is None else start + timedelta(seconds=span_s))
