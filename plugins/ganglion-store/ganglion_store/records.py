"""Records: what a batch may hold, checked; rows of the hot path are checked by column."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import ne
from typing import Any

import msgpack

from ganglion.sdk.store import StoreError

_NONE = type(None)
_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "count": (int,),
    "flag": (bool,),
    "rows": (list, tuple),
    "map": (dict,),
    "plain": (dict, list, str, int, float, bool, _NONE),
    "blob": (bytes,),
    "number": (float,),
}


def _typed(columns: str) -> dict[str, tuple[type, ...]]:
    """Return columns with the types that each may have, from `name:type`, or `name:type?` where None may stand."""
    found = {}
    for column in columns.split():
        name, _, kind = column.partition(":")
        found[name] = _TYPES[kind.rstrip("?")] + ((_NONE,) if kind.endswith("?") else ())
    return found


# The fields of each kind of record, with the types that each may have; `bool` is no `int` here.
_EPISODE = "phase:count mode:text worker:count"
FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "run": _typed("run:map"),
    "declare": _typed("phase:count environment:text? agent:text? kind:text declarations:rows"),
    "phase": _typed("phase:count name:text mode:text status:text reason:text?"),
    "steps": _typed(f"{_EPISODE} environment:text episode:count rows:rows blocks:flag"),
    "actions": _typed(f"{_EPISODE} agent:text episode:count rows:rows blocks:flag"),
    "bodies": _typed("phase:count rows:rows"),
    "spawned": _typed("phase:count rows:rows"),
    "opponents": _typed("phase:count worker:count rows:rows"),
    "ratings": _typed("phase:count worker:count rows:rows"),
    "resets": _typed(f"{_EPISODE} environment:text entries:rows"),
    "body_steps": _typed(f"{_EPISODE} environment:text entries:rows"),
    "body_actions": _typed(f"{_EPISODE} agent:text entries:rows"),
    "episode": _typed(
        f"{_EPISODE} environment:text? episode:count steps:count terminated:flag truncated:flag reason:text "
        "round:count inner:count"
    ),
    "signal": _typed(
        "phase:count? worker:count? episode:count? step:count? signal:text issuer:text reason:text? data:plain "
        "round:count inner:count ordinal:count?"
    ),
    "topic": _typed(
        "phase:count mode:text worker:count tick:count peer:text topic:text key:text value:plain number:count"
    ),
    "evaluation": _typed("phase:count agent:text number:count episode:count? metrics:map brain:text? completed:text?"),
    "brain": _typed(
        "phase:count agent:text tag:text episode:count? updates:count? created:text? bytes:count? sha256:text? "
        "path:text?"
    ),
    "incident": _typed("time:text name:text incarnation:count kind:text position:text? detail:text?"),
    "end": _typed("status:text reason:text? ended:text"),
}
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "episode": (0,),
    "signal": (0, None),
    "steps": (False,),
    "actions": (False,),
}  # of the last fields, for writers that do not know them
VALUES = {"sensors": "sensor", "setpoints": "actuator", "proposed": "actuator", "rewards": "reward"}
"""Columns of values, and the kind of declaration that says what these are."""
KINDS = ("sensor", "actuator", "reward", "static_world_model")


def _words(types: Iterable[type]) -> str:
    names = {str: "text", _NONE: "nil", dict: "a map", list: "a list", int: "an integer", tuple: "", bool: "a boolean"}
    return " or ".join(word for word in (names.get(kind, kind.__name__) for kind in types) if word)


def fields_of(record: Sequence[Any]) -> Sequence[Any]:
    """Return the fields of a record after its kind, checked by type; fields that are not known are left out."""
    kind = record[0] if type(record) in _TYPES["rows"] and record else None
    declared = FIELDS.get(kind) if type(kind) is str else None
    if declared is None:
        raise StoreError(f"expected a record [{' | '.join(FIELDS)}, ...], found {record!r:.100}")
    missing = len(declared) + 1 - len(record)
    defaults = _DEFAULTS.get(str(kind), ())
    if 0 < missing <= len(defaults):
        record = [*record, *defaults[-missing:]]
    elif missing > 0:
        raise StoreError(f"record {kind}: expected {len(declared)} fields, found {len(record) - 1}")
    values = record[1 : len(declared) + 1]
    for (name, types), value in zip(declared.items(), values, strict=True):
        if type(value) not in types:
            raise StoreError(f"record {kind}: expected {_words(types)} as `{name}`, found {value!r:.100}")
    return values


def to_json(value: Any) -> str | None:
    """Return a plain value as JSON text, None for None; numbers that JSON has not become null."""
    return None if value is None else json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(element) for element in value]
    return value


@dataclass(frozen=True, slots=True)
class RowKind:
    """Describe the rows of a table: its columns as they come, with the types that each may have."""

    table: str
    member: str
    columns: tuple[str, ...]
    types: tuple[frozenset[type], ...]
    least: int  # so many columns each row has; what is missing behind them is None


def _row_kind(table: str, member: str, least: int, columns: str) -> RowKind:
    typed = _typed(columns)
    return RowKind(table, member, tuple(typed), tuple(map(frozenset, typed.values())), least)


STEPS = _row_kind(
    "steps",
    "environment",
    9,
    "step:count tick:count? simtime_ticks:count? simtime_timestamp:text? sensors:blob setpoints:blob rewards:blob "
    "terminated:flag truncated:flag world_state:blob?",
)
BODY_STEPS = _row_kind(  # of steps in a phase with bodies: `bodies` are numbers of two bytes
    "steps",
    "environment",
    11,
    "step:count tick:count? simtime_ticks:count? simtime_timestamp:text? sensors:blob setpoints:blob rewards:blob "
    "terminated:flag truncated:flag world_state:blob? bodies:blob",
)
ACTIONS = _row_kind(
    "actions",
    "agent",
    11,
    "body:count step:count tick:count? sensors:blob setpoints:blob proposed:blob? rewards:blob objective:number? "
    "terminated:flag truncated:flag statistics:blob?",
)
BODY_ACTIONS = _row_kind(  # of bodies: by which model they decided, and what fell due after their ends
    "actions",
    "agent",
    13,
    "body:count step:count tick:count? sensors:blob setpoints:blob proposed:blob? rewards:blob objective:number? "
    "terminated:flag truncated:flag statistics:blob? policy:text policy_version:count? late_reward:number?",
)
RESETS = _row_kind(
    "resets",
    "environment",
    6,
    "step:count tick:count? simtime_ticks:count? simtime_timestamp:text? sensors:blob bodies:blob?",
)
WIDTHS = {"steps": 11, "actions": 14, "resets": 6}
"""How many columns the rows of a table have where they rest; those that a kind of rows does not have are NULL."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Hold the rows of one batch after the check: `rows` in canonical form, and their `columns`."""

    rows: Sequence[Sequence[Any]]
    columns: Sequence[Sequence[Any]]
    packed: memoryview

    @classmethod
    def of(cls, kind: RowKind, rows: Sequence[Sequence[Any]]) -> Rows:
        """Check rows that came in and return them in canonical form.

        Columns are compared by type as wholes: a check of each value on its own takes longer than the insertion.
        """
        try:
            columns = list(zip(*rows, strict=True))
        except (TypeError, ValueError) as error:
            raise StoreError(f"expected rows of equal length, found {rows!r:.100}") from error
        width = len(kind.columns)
        if len(columns) < kind.least:
            raise StoreError(f"expected rows of {kind.least} values, found {len(columns)}")
        if len(columns) != width:  # fields of a newer writer, or not those of this one
            missing = [(None,) * len(rows)] * (width - len(columns))
            columns = [*columns[:width], *missing]
            rows = list(zip(*columns, strict=True))
        for position, types in enumerate(kind.types):
            found = set(map(type, columns[position]))
            if not found <= types:
                columns[position] = _floats(kind, position, columns[position], found)
                rows = list(zip(*columns, strict=True))
            if float in types and not _rests_as_it_is(columns[position]):
                columns[position] = tuple(map(_resting, columns[position]))
                rows = list(zip(*columns, strict=True))
        packed = msgpack.packb(rows)
        return cls(rows, columns, memoryview(packed)[_header_bytes(len(rows)) :])


def _floats(kind: RowKind, position: int, column: Sequence[Any], found: set[type]) -> tuple[float | None, ...]:
    """Return a column of numbers as floats, in which they rest; an integer is a float that was sent short."""
    types, name = kind.types[position], kind.columns[position]
    if float not in types or not found <= types | {int}:
        wrong = next(value for value in column if type(value) not in types)
        raise StoreError(f"expected {_words(kind.types[position])} as `{name}`, found {wrong!r:.100}")
    return tuple(value if value is None else float(value) for value in column)


def _rests_as_it_is(column: Sequence[float | None]) -> bool:
    """Say whether a database gives these numbers back: not a number is unknown to it, and zero has no sign."""
    return 0.0 not in column and not any(map(ne, column, column))


def _resting(value: float | None) -> float | None:
    return None if value is None or value != value else value + 0.0  # -0.0 + 0.0 is 0.0


def _header_bytes(length: int) -> int:
    """Return how many bytes msgpack puts before the elements of a list."""
    return 1 if length < 16 else 3 if length < 65536 else 5
