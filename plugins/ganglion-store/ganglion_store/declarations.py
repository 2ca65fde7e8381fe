"""Declarations: the order of all value lists, and which environment an agent is in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ganglion.sdk.store import Nondeterministic, StoreError
from ganglion_store.records import KINDS
from ganglion_store.values import Declared

Key = tuple[int, str, str, str]  # phase, environment, agent (one of the two is empty), kind


class Declarations:
    """Keep what was declared in a run; the same again is harmless, something else is refused."""

    def __init__(self) -> None:
        self._lists: dict[Key, tuple[Declared, ...]] = {}
        self._environment_of: dict[tuple[int, str], str] = {}  # phase, full id

    def add(self, key: Key, declared: Sequence[Declared]) -> bool:
        """Take a list; return whether it is new.

        Raises:
            Nondeterministic: Another list was declared before under this key.
        """
        phase, environment = key[:2]
        known = self._lists.get(key)
        if known is not None:
            if known != tuple(declared):
                raise Nondeterministic(_difference(key, known, declared))
            return False
        self._lists[key] = tuple(declared)
        if environment:
            self._environment_of.update(((phase, declaration.id), environment) for declaration in declared)
        return True

    def rewards_of(self, phase: int, agent: str) -> Sequence[Declared]:
        """Return the rewards of an agent; empty if it has declared none."""
        return self._lists.get((phase, "", agent, "reward"), ())

    def environment_of(self, phase: int, agent: str) -> str | None:
        """Return the environment that all sensors and actuators of an agent belong to, None if there are several."""
        lists = (self._lists.get((phase, "", agent, kind), ()) for kind in ("sensor", "actuator"))
        found = {self._environment_of.get((phase, declared.id)) for each in lists for declared in each}
        return found.pop() if len(found) == 1 else None

    def members(self, phase: int) -> Iterable[tuple[str, str]]:
        """Return kind and name of all that have declared something in a phase, in the order in which they first did."""
        keys = ((environment, agent) for of, environment, agent, _ in self._lists if of == phase)
        return dict.fromkeys(("agent", agent) if agent else ("environment", environment) for environment, agent in keys)


def _difference(key: Key, known: Sequence[Declared], declared: Sequence[Declared]) -> str:
    phase, environment, agent, kind = key
    owner = f"environment {environment}" if environment else f"agent {agent}"
    where = f"nondeterministic: {kind}s of {owner}, phase {phase}"
    if len(known) != len(declared):
        return f"{where}: declared {len(known)} before, now {len(declared)}"
    position = next(i for i, pair in enumerate(zip(known, declared, strict=True)) if pair[0] != pair[1])
    return f"{where}: declared {_words(known[position])} before, now {_words(declared[position])}"


def _words(declared: Declared) -> str:
    return f"{declared.id} ({declared.dtype}, {list(declared.shape)})"


def checked(values: Sequence[Any]) -> tuple[Key, list[tuple[Any, ...]]]:
    """Return the key of a record `declare`, and its rows: id, space, unit, dtype, shape (a tuple)."""
    phase, environment, agent, kind, rows = values
    if kind not in KINDS:
        raise StoreError(f"record declare: expected {', '.join(KINDS)} as `kind`, found {kind!r}")
    if bool(environment) == bool(agent):
        raise StoreError("record declare: expected an environment or an agent, found both or none")
    return (phase, environment or "", agent or "", kind), [_row(row) for row in rows]


def _row(row: Any) -> tuple[Any, ...]:
    if type(row) in (list, tuple) and len(row) >= 5:
        name, space, unit, dtype, shape = row[:5]
        texts = all(text is None or type(text) is str for text in (space, unit, dtype))
        sizes = type(shape) in (list, tuple) and all(type(size) is int for size in shape)
        if type(name) is str and texts and sizes:
            return (name, space, unit, dtype, tuple(shape))
    raise StoreError(f"record declare: expected [id, space, unit, dtype, shape], found {row!r:.100}")


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as it rests."""
    return json.dumps(list(shape))


def shape_of(text: str) -> tuple[int, ...]:
    """Return the shape that rests as text."""
    return tuple(json.loads(text))
