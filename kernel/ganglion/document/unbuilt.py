"""What documents may say and this version does not carry out yet: one table, refused and never ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ganglion.document.fault import Fault
from ganglion.document.marks import Node
from ganglion.document.spelling import PLACES

__all__ = ["UNBUILT", "is_unbuilt", "unbuilt"]

Test = Callable[[Any], bool]


def _given(value: Any) -> bool:
    return value not in (None, [], {})


def _is(*values: Any) -> Test:
    return lambda value: any(value is v or (isinstance(v, str) and value == v) for v in values)


# (place of `spelling.PLACES`, key, which values, what it is called)
UNBUILT: tuple[tuple[str, str, Test, str], ...] = (
    ("phase", "bodies", _given, "bodies"),
    ("entry", "clock", _given, "a clock of an environment"),
    ("entry", "budget", _given, "a budget of an environment"),
    ("entry", "max_steps", _given, "a bound on the episodes of one environment"),
    ("entry", "episode_end", _given, "`episode_end`"),
    ("replay", "path", _given, "pre-training out of files"),
    ("replay", "format", _given, "pre-training out of files"),
    ("replay", "table", _given, "pre-training out of tables"),
    ("agent", "opponents", _given, "opponents"),
    ("simulation", "name", _is("aeb"), "the controller `aeb`"),
)


def is_unbuilt(place: str, key: str, value: Any) -> str | None:
    """Return what a value is called if this version does not carry it out."""
    rows = (words for at, name, test, words in UNBUILT if (at, name) == (place, key) and test(value))
    return next(rows, None)


def unbuilt(root: Node) -> list[Fault]:
    """Return a fault for all in a normalised document that this version does not carry out yet."""
    return list(_walk(root, "document", ""))


def _walk(node: Node, place: str, under: str) -> Iterator[Fault]:
    for key, part in node.map.items():
        for at in {place: None, under: None}:
            words = is_unbuilt(at, key, part.plain()) if at else None
            if words is not None:
                yield part.fault(f"not built yet: {words}")
        if place == "document" and key == "schedule":
            for entry in part.items:
                for phase in entry.map.values():
                    yield from _walk(phase, "phase", "")
            continue
        below = PLACES[place].parts.get(key) if place in PLACES else None
        below = below or ("recovery" if key == "recovery" else None)
        if below is None:
            continue
        for item in part.items if below.startswith("[") else [part]:
            yield from _walk(item, below.strip("[]"), key)
