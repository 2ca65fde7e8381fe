"""Update: what a muscle was sent, in words for a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["refused"]

_NAMES_MAX = 4


def refused(learner: str, update: Any) -> ValueError:
    """Return the error of an update that is none of a learner's: what was expected, what was found, what to do."""
    return ValueError(
        f"update: expected one of {learner}, found {_found(update)} (brain and muscle of an agent, and the model "
        "that it loads, are of the same learner)"
    )


def _found(update: Any) -> str:
    if not isinstance(update, Mapping):
        return f"a {type(update).__name__}"
    if "algorithm" in update:
        return f"one of {update['algorithm']!r:.60}"
    names = [str(name) for name in update]
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return f"a map of {', '.join(names[:_NAMES_MAX])}{more}" if names else "an empty map"
