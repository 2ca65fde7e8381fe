"""Value lists: how they rest, what declares them, and how declarations make them readable."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgpack

from ganglion.sdk.store import Nondeterministic, StoreError
from ganglion_store.records import KINDS


class Declared(NamedTuple):
    """Declare one value of a list: its full id, and for arrays the numpy dtype and the shape of its bytes.

    Where arrays differ in length the bytes begin with it, and `ragged` is the shape of the longest.
    """

    id: str
    dtype: str | None
    shape: tuple[int, ...]
    ragged: tuple[int, ...] | None = None


def ragged_of(space: str | None) -> tuple[int, ...] | None:
    """Return the greatest shape of a space whose arrays differ in length; None of any other."""
    if not space or not space.startswith("Ragged("):
        return None
    from ganglion.sdk.spaces import Ragged, parse_space  # late, as below

    found = parse_space(space)
    return found.box.shape if isinstance(found, Ragged) else None


def unpack(blob: bytes) -> list[Any]:
    """Return the values that rest in a value list; arrays are bytes."""
    values = unpack_plain(blob)
    if type(values) is not list:
        raise StoreError(f"expected a value list, found {values!r:.60}")
    return values


def unpack_plain(blob: bytes) -> Any:
    """Return a plain value that rests as msgpack: the statistics of a decision, a world state."""
    try:
        value = msgpack.unpackb(blob, strict_map_key=False)
    except Exception as error:
        raise StoreError(f"expected msgpack, found {blob!r:.60}: {error}") from error
    return value if type(value) in _SCALARS else _data(value)


_SCALARS = frozenset({type(None), bool, int, float, str, bytes})


def _data(value: Any) -> Any:
    """Return a value if it is data all through; extension types, which stand for objects, are refused."""
    if type(value) is list:
        for inner in value:
            if type(inner) not in _SCALARS:
                _data(inner)
    elif type(value) is dict:
        for key, inner in value.items():
            if type(key) not in _SCALARS or type(inner) not in _SCALARS:
                _data(key), _data(inner)
    elif type(value) not in _SCALARS:
        raise StoreError(f"expected plain values, found an extension type of msgpack: {value!r:.60}")
    return value


def _array(declared: Declared, blob: bytes) -> Any:
    """Return an array as nested lists of numbers."""
    import numpy as np  # late: most value lists are scalars, and the import takes longer than most queries

    if declared.dtype is None:
        raise StoreError(f"{declared.id}: found the bytes of an array, but no dtype was declared")
    try:
        dtype = np.dtype(declared.dtype).newbyteorder("<")
        return np.frombuffer(blob, dtype).reshape(declared.shape)
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"{declared.id}: expected {declared.dtype} of shape {list(declared.shape)}, found {len(blob)} bytes"
        ) from error


def _plain(declared: Declared, value: Any) -> Any:
    if type(value) is bytes:
        array = _array(declared, value)
        if declared.ragged is not None:
            array = array[1:].reshape(declared.ragged)[: int(array[0])]
        value = array.tolist()
    elif type(value) is int and declared.dtype in _BOOLEANS:
        value = bool(value)
    if type(value) is float and math.isnan(value):
        return None  # unknown
    return value


_BOOLEANS = frozenset({"|b1", "bool", "?", "b1"})


def named(declared: Sequence[Declared], blob: bytes, given_only: bool = False) -> dict[str, Any]:
    """Return a value list as a map full id -> plain value, in declared order, if asked without unknown ones."""
    values = unpack(blob)
    if len(values) != len(declared):
        raise StoreError(f"expected {len(declared)} values as declared, found {len(values)}")
    return {
        declaration.id: _plain(declaration, value)
        for declaration, value in zip(declared, values, strict=True)
        if value is not None or not given_only
    }


_pack = msgpack.Packer(autoreset=True).pack


def value_lists(column: Sequence[Any], declared: Sequence[Declared]) -> tuple[Any, ...]:
    """Return values as they came, the blocks of a row in one, or a list of one row, as they rest; None stays.

    Raises:
        StoreError: Blocks are not as declared, or it is no one row.
    """
    blocks = [values for values in column if type(values) is bytes]
    found = _from_blocks(blocks, declared) if blocks else []
    if len(found) == len(column):
        return tuple(found)
    resting = iter(found)
    return tuple(next(resting) if type(v) is bytes else v if v is None else _from_row(v) for v in column)


def _from_row(values: Any) -> bytes:
    if type(values) not in (list, tuple) or len(values) != 1 or type(values[0]) not in (list, tuple):
        raise StoreError(f"expected one row of values, found {values!r:.60}")
    return _pack(values[0])


def _from_blocks(blocks: Sequence[bytes], declared: Sequence[Declared]) -> list[bytes]:
    """Return the blocks of many rows as value lists: whole columns at once."""
    import numpy as np  # late: readers of results do without

    try:
        dtypes = [np.dtype(one.dtype).newbyteorder("<") for one in declared]
    except TypeError as error:
        raise StoreError(f"expected dtypes of what was declared, found {declared!r:.200}") from error
    sizes = [math.prod(one.shape) * dtype.itemsize for one, dtype in zip(declared, dtypes, strict=True)]
    if {*map(len, blocks)} != {sum(sizes)}:
        found = next(block for block in blocks if len(block) != sum(sizes))
        raise StoreError(f"expected {sum(sizes)} bytes of {len(declared)} values as declared, found {len(found)}")
    return lists_of_matrix(np.frombuffer(b"".join(blocks), np.uint8).reshape(len(blocks), sum(sizes)), declared)


def lists_of_matrix(matrix: Any, declared: Sequence[Declared]) -> list[bytes]:
    """Return the rows of a matrix of bytes as value lists: whole columns at once."""
    import numpy as np

    dtypes = [np.dtype(one.dtype).newbyteorder("<") for one in declared]
    sizes = [math.prod(one.shape) * dtype.itemsize for one, dtype in zip(declared, dtypes, strict=True)]
    if len({*dtypes}) == 1 and dtypes[0].kind == "f" and all(one.shape == () for one in declared):
        return _packed(np.ascontiguousarray(matrix).view(dtypes[0]).astype(">f8"))
    rows: list[list[Any]] = [[] for _ in matrix]
    begin = 0
    kinds = zip(dtypes, sizes, [one.shape == () for one in declared], strict=True)
    for (dtype, scalar), run in groupby(kinds, lambda kind: (kind[0], kind[2])):
        for size in [sum(size for _, size, _ in run)] if scalar else [size for _, size, _ in run]:
            part = np.ascontiguousarray(matrix[:, begin : begin + size])
            begin += size
            values = part.view(dtype).tolist() if scalar else [[vector.tobytes()] for vector in part]
            rows = [row + found for row, found in zip(rows, values, strict=True)]
    return list(map(_pack, rows))


def _packed(numbers: Any) -> list[bytes]:
    """Return each row of a matrix of big-endian doubles as msgpack."""
    import numpy as np

    count, width = numbers.shape
    opening = np.frombuffer(msgpack.Packer().pack_array_header(width), np.uint8)
    begin, size = len(opening), len(opening) + 9 * width
    cells = np.empty((count, size), np.uint8)
    cells[:, :begin] = opening
    doubles = cells[:, begin:].reshape(count, width, 9)  # a copy
    doubles[:, :, 0] = 0xCB
    doubles[:, :, 1:] = np.ascontiguousarray(numbers).view(np.uint8).reshape(count, width, 8)
    cells[:, begin:] = doubles.reshape(count, 9 * width)
    whole = cells.tobytes()
    return [whole[place : place + size] for place in range(0, len(whole), size)]


def sums(blobs: Sequence[bytes], declared: Sequence[Declared]) -> list[float | None]:
    """Return the sum of each value list, None where nothing in it is known; arrays count with all their elements."""
    # One list of lists is unpacked in one call, which is several times faster than a call for each.
    rows = unpack(b"\xdd" + len(blobs).to_bytes(4, "big") + b"".join(blobs))
    try:
        return [float(sum(row)) if row else None for row in rows]
    except TypeError:
        return [_sum(row, declared) for row in rows]


def _sum(row: Any, declared: Sequence[Declared]) -> float | None:
    if type(row) is not list:
        raise StoreError(f"expected a value list, found {row!r:.60}")
    known = [_number(position, value, declared) for position, value in enumerate(row) if value is not None]
    return float(sum(known)) if known else None


def _number(position: int, value: Any, declared: Sequence[Declared]) -> float:
    if type(value) is bytes:
        if position >= len(declared):
            raise StoreError(f"reward {position}: found the bytes of an array, but it was not declared")
        return float(_array(declared[position], value).sum())
    if type(value) is list:
        return float(sum(_number(position, element, declared) for element in value))
    if type(value) not in (int, float, bool):
        raise StoreError(f"reward {position}: expected a number, found {value!r:.60}")
    return float(value)


Key = tuple[int, str, str, str]
"""Phase, environment, agent, kind. One of the two is empty, unless it is an agent's in one environment: of bodies."""


class Declarations:
    """Keep what was declared in a run; the same again is harmless, something else is refused."""

    def __init__(self) -> None:
        self._lists: dict[Key, tuple[Declared, ...]] = {}
        self._environment_of: dict[tuple[int, str], str] = {}  # phase, full id

    def add(self, key: Key, declared: Sequence[Declared]) -> bool:
        """Take a list; return whether it is new. Nondeterministic if another one was declared under this key."""
        phase, environment = key[:2]
        known = self._lists.get(key)
        if known is not None:
            if known != tuple(declared):
                raise Nondeterministic(_difference(key, known, declared))
            return False
        self._lists[key] = tuple(declared)
        if environment and not key[2]:
            self._environment_of.update(((phase, declaration.id), environment) for declaration in declared)
        return True

    def of(self, phase: int, member: str, name: str, kind: str, within: str = "") -> Sequence[Declared]:
        """Return what an environment or an agent has declared of a kind; empty if that is nothing.

        `within` is the environment of an agent's bodies, or whose episodes theirs are: they may declare for it alone.
        """
        owner = (name, "") if member == "environment" else ("", name)
        own = self._lists.get((phase, within.partition("[")[0], name, kind)) if within and owner[1] else None
        return self._lists.get((phase, *owner, kind), ()) if own is None else own

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
    owner = " in ".join(filter(None, (agent and f"agent {agent}", environment and f"environment {environment}")))
    where = f"nondeterministic: {kind}s of {owner}, phase {phase}"
    if len(known) != len(declared):
        return f"{where}: declared {len(known)} before, now {len(declared)}"
    position = next(i for i, pair in enumerate(zip(known, declared, strict=True)) if pair[0] != pair[1])
    return f"{where}: declared {_words(known[position])} before, now {_words(declared[position])}"


def _words(declared: Declared) -> str:
    return f"{declared.id} ({declared.dtype}, {list(declared.shape)})"


def declared_lists(rows: Iterable[Sequence[Any]], bodies: Iterable[Sequence[Any]] = ()) -> dict[Key, list[Declared]]:
    """Return the lists that a run has declared, all under full ids; those of an agent's bodies by their environment.

    Rows are those of `SELECT_DECLARATIONS` and `SELECT_BODIES`. An agent that has bodies in several environments has
    declared them once, under local ids; and if they are of several groups, for each environment: then those of the
    groups that are in several are local.
    """
    found: dict[Key, list[Declared]] = {}
    for phase, environment, agent, kind, name, dtype, shape, space in rows:
        declared = Declared(name, dtype, shape_of(shape), ragged_of(space))
        found.setdefault((phase, environment, agent, kind), []).append(declared)
    homes: dict[tuple[int, str], dict[str, None]] = {}
    for phase, agent, environment, *_ in bodies:
        homes.setdefault((phase, agent), {})[environment] = None
    alike = Counter((key[0], *key[2:], tuple(found[key])) for key in found)
    lists: dict[Key, list[Declared]] = {}
    for (phase, environment, agent, kind), own in found.items():
        places = homes.get((phase, agent), {}) if agent else {}
        local = len(places) > 1 and (not environment or alike[phase, agent, kind, tuple(own)] > 1)
        for place in places if places and not environment else [environment]:
            full = [one._replace(id=f"{place}.{one.id}") for one in own] if local else own
            lists[phase, place, agent, kind] = full
    return lists


def checked(values: Sequence[Any]) -> tuple[Key, list[tuple[Any, ...]]]:
    """Return the key of a record `declare`, and its rows: id, space, unit, dtype, shape (a tuple)."""
    phase, environment, agent, kind, rows = values
    if kind not in KINDS:
        raise StoreError(f"record declare: expected {', '.join(KINDS)} as `kind`, found {kind!r}")
    if not (environment or agent):
        raise StoreError("record declare: expected an environment or an agent, found none")
    return (phase, environment or "", agent or "", kind), [_row(row) for row in rows]


def _row(row: Any) -> tuple[Any, ...]:
    if type(row) in (list, tuple) and len(row) >= 5:
        name, space, unit, dtype, shape = row[:5]
        texts = all(text is None or type(text) is str for text in (space, unit, dtype))
        sizes = type(shape) in (list, tuple) and all(type(size) is int for size in shape)
        if type(name) is str and texts and sizes:
            return (name, space, unit, dtype, tuple(shape))
    raise StoreError(f"record declare: expected [id, space, unit, dtype, shape], found {row!r:.100}")


def shape_of(text: str) -> tuple[int, ...]:
    """Return the shape that rests as text."""
    return tuple(json.loads(text))
