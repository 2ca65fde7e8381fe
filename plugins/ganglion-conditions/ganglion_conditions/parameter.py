"""Parameter: what a document gives a condition, refused by its key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ganglion.sdk.naming import nearest

__all__ = ["choice", "count", "known", "number", "table", "text"]


def table(where: str, value: Any, what: str) -> Mapping[Any, Any]:
    """Return a map with at least one entry; `what` says of what."""
    if not isinstance(value, Mapping) or not value:
        found = "an empty one" if isinstance(value, Mapping) else repr(value)
        raise ValueError(f"{where}: expected a map of {what}, found {found}")
    return value


def number(where: str, value: Any, least: float = -math.inf) -> float:
    """Return a finite number, at least `least`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < least:
        bound = "" if least == -math.inf else f" >= {least:g}"
        raise ValueError(f"{where}: expected a finite number{bound}, found {value!r}")
    return float(value)


def count(where: str, value: Any) -> int:
    """Return an integer >= 1."""
    if type(value) is not int or value < 1:
        raise ValueError(f"{where}: expected an integer >= 1, found {value!r}")
    return value


def text(where: str, value: Any) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{where}: expected a text, found {value!r}")
    return value


def choice(where: str, value: Any, words: Sequence[str]) -> str:
    """Return one of a few words."""
    if value not in words:
        raise ValueError(f"{where}: expected {' or '.join(words)}, found {value!r}")
    return str(value)


def known(agents: Iterable[str], document: Mapping[str, Any]) -> None:
    """Refuse a name that no phase has an agent of; the nearest one is told."""
    names = document.get("known_agents")
    for agent in agents:
        if names is not None and agent not in names:
            raise ValueError(f"there is no agent `{agent}`{nearest(agent, names)}")
