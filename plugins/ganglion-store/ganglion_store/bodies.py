"""Bodies: the columns in which many bodies are recorded, taken apart into rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import ge
from typing import Any

import msgpack

from ganglion.sdk.store import StoreError
from ganglion_store.values import Declared, lists_of_matrix, value_lists

Row = tuple[Any, ...]
PAIR_BITS = 32  # of a position, for the number of a body that was spawned
SPAWNED = b"\xff\xff"
"""What stands before positions of eight bytes, the highest first, where the numbers of bodies that took part would."""
_FLAGS = (1, 2)  # terminated, truncated


@dataclass(slots=True)
class BodyTable:
    """Know the bodies of a phase, in the order of agents, environments and numbers.

    A body has a position: those of the document their place among `rows`; one that was spawned has the place of its
    agent and environment among those that may be, from 1 on, and behind it 32 bits of its number.

    Attributes:
        rows: Agent, environment and number of each that is there from the begin.
        each: The environments in which each body has episodes of its own.
        pairs: Agent and environment of bodies that were spawned, by the first part of their positions.
    """

    rows: list[tuple[str, str, int]] = field(default_factory=list)
    each: set[str] = field(default_factory=set)
    pairs: dict[int, tuple[str, str]] = field(default_factory=dict)

    def body(self, position: int) -> tuple[str, str, int]:
        """Return agent, environment and number of the body at a position; StoreError if there is none."""
        pair = self.pairs.get(position >> PAIR_BITS)
        if pair is not None:
            return (*pair, position & (1 << PAIR_BITS) - 1)
        if not 0 <= position < len(self.rows):
            raise StoreError(f"expected the position of a body, found {position}")
        return self.rows[position]

    def view(self, positions: Sequence[int]) -> list[int]:
        """Return the places of these positions in the order of agents and numbers."""
        agents = list(dict.fromkeys(row[0] for row in self.rows))
        keys = [(agents.index(agent), b) for agent, _, b in map(self.body, positions)]
        return sorted(range(len(keys)), key=keys.__getitem__)

    def timeline(self, agent: str, environment: str, b: int) -> str:
        """Return whose episodes those of a body are: the environment's, or `<environment>[<agent>/<b>]`."""
        return f"{environment}[{agent}/{b}]" if environment in self.each else environment

    def seats(self, environment: str) -> list[tuple[str, str, int]]:
        """Return the bodies of an environment in its own order."""
        return [row for row in self.rows if row[1] == environment]

    def places(self, agent: str) -> list[tuple[str, str, int]]:
        """Return the bodies of an agent in its own order."""
        return [row for row in self.rows if row[0] == agent]


def table_of(rows: Sequence[Any]) -> tuple[BodyTable, list[Row]]:
    """Return the bodies that a record names, and its rows.

    They have agent, environment, b, role, team, group, learn, each, policy.
    """
    found: list[Row] = []
    for row in rows:
        whole = type(row) in (list, tuple) and len(row) >= 8
        texts = whole and all(text is None or type(text) is str for text in (*row[:2], *row[3:6]))
        if not (texts and type(row[2]) is int and {*map(type, row[6:8])} == {bool} and row[0] and row[1]):
            fields = "agent, environment, b, role, team, group, learn, each"
            raise StoreError(f"record bodies: expected [{fields}], found {row!r:.100}")
        policy = row[8] if len(row) > 8 else "latest"
        if type(policy) is not str:
            raise StoreError(f"record bodies, policy: expected text, found {policy!r:.100}")
        found.append((*row[:8], policy))
    each = {row[1] for row in found if row[7]}
    return BodyTable([(row[0], row[1], row[2]) for row in found], each), found


def spawned_of(rows: Sequence[Any]) -> list[Row]:
    """Return the rows of a record `spawned`: a position, then what a record `bodies` has."""
    for row in rows:
        if type(row) not in (list, tuple) or not row or type(row[0]) is not int or row[0] >> PAIR_BITS < 1:
            raise StoreError(f"record spawned: expected rows that begin with a position, found {row!r:.100}")
    return [(row[0], *known) for row, known in zip(rows, table_of([row[1:] for row in rows])[1], strict=True)]


class Columns:
    """Read the joined blocks of many bodies as value lists, by what was declared."""

    def __init__(self, declared: Sequence[Declared]) -> None:
        import numpy as np  # late: readers of results do without

        self._np, self._declared = np, list(declared)
        try:
            sizes = [(one.dtype, math.prod(one.shape) * np.dtype(one.dtype).itemsize) for one in declared]
        except TypeError as error:
            raise StoreError(f"expected dtypes of what was declared, found {declared!r:.200}") from error
        runs = groupby(sizes, lambda pair: np.dtype(pair[0]))
        self._sizes = [sum(size for _, size in run) for _, run in runs]
        self.width = sum(self._sizes)

    def matrix(self, blob: Any, count: int, what: str) -> Any:
        """Return the bytes of each body, `[bodies, bytes]`."""
        if type(blob) is not bytes or len(blob) != count * self.width:
            found = len(blob) if type(blob) is bytes else type(blob).__name__
            raise StoreError(f"{what}: expected {count * self.width} bytes of {count} bodies, found {found}")
        np = self._np
        flat = np.frombuffer(blob, np.uint8)
        if len(self._sizes) == 1:
            return flat.reshape(count, self.width)
        parts, begin = [], 0
        for size in self._sizes:
            parts.append(flat[begin : begin + count * size].reshape(count, size))
            begin += count * size
        return np.hstack(parts) if parts else np.zeros((count, 0), np.uint8)

    def lists(self, blobs: Sequence[Any], counts: Sequence[int], what: str) -> list[bytes]:
        """Return the value list of each body of each entry, one behind the other."""
        if not blobs:
            return []
        matrices = [self.matrix(blob, count, what) for blob, count in zip(blobs, counts, strict=True)]
        whole = matrices[0] if len(matrices) == 1 else self._np.concatenate(matrices)
        return lists_of_matrix(whole, self._declared)

    def joined(self, lists: Sequence[bytes]) -> bytes:
        """Return the value lists of several bodies as one."""
        packer = msgpack.Packer()
        begin = len(packer.pack_array_header(len(self._declared)))
        header = msgpack.Packer().pack_array_header(len(self._declared) * len(lists))
        return bytes(header) + b"".join(one[begin:] for one in lists)


def _numbers(column: Any, kind: str, count: int, what: str) -> list[int]:
    import numpy as np

    if type(column) is not bytes or len(column) != count * np.dtype(kind).itemsize:
        raise StoreError(f"{what}: expected {count} numbers of {kind}, found {column!r:.40}")
    found: list[int] = np.frombuffer(column, kind).tolist()
    return found


def _seats(column: Any, count: int, known: int, what: str, owner: str) -> list[int]:
    """Return numbers of bodies, checked: of these that are known, in ascending order, none of them twice."""
    found = _numbers(column, "<u2", count, f"{what}, bodies")
    if any(map(ge, found, found[1:])):
        raise StoreError(f"{what}: expected numbers of bodies in ascending order, found {found!r:.60}")
    if found and found[-1] >= known:
        raise StoreError(f"{what}: {owner} has {known} bodies, found number {found[-1]}")
    return found


def _counts(entries: Sequence[Any], width: int, what: str, place: int = 0) -> list[int]:
    for entry in entries:
        if type(entry) not in (list, tuple) or len(entry) < width:
            raise StoreError(f"{what}: expected entries of {width} fields, found {entry!r:.60}")
        if type(entry[place]) is not bytes or len(entry[place]) % 2:
            raise StoreError(f"{what}: expected numbers of bodies of two bytes, found {entry[place]!r:.40}")
    return [len(entry[place]) // 2 for entry in entries]


def step_rows(
    entries: Sequence[Any], table: BodyTable, environment: str, declared: Mapping[str, Sequence[Declared]]
) -> Iterator[tuple[int, str, Row]]:
    """Yield episode, timeline and row of each step in a record `body_steps`.

    The timeline is the environment, or with an episode of each body `<environment>[<agent>/<b>]`.
    """
    counts = _counts(entries, 13, "record body_steps", 5)
    seats = table.seats(environment)
    columns = [Columns(declared[kind]) for kind in ("sensor", "actuator", "reward")]
    names = ("sensors", "setpoints", "rewards")
    lists = [
        iter(one.lists([entry[6 + i] for entry in entries], counts, f"record body_steps, {name}"))
        for i, (one, name) in enumerate(zip(columns, names, strict=True))
    ]
    for entry, count in zip(entries, counts, strict=True):
        episode, step, tick, ticks, timestamp, bodies, *_, flags, terminated, truncated, state = entry[:13]
        taken = [[next(one) for _ in range(count)] for one in lists]
        whose, positions = _whose(entry, 5, 13, count, table, seats, ("record body_steps", environment))
        own = environment in table.each
        if type(episode) is not (bytes if own else int):
            what = "an episode of each body" if own else "one episode"
            raise StoreError(f"record body_steps: expected {what} of {environment}, found {episode!r:.40}")
        marks = _numbers(flags, "u1", count, "record body_steps, flags")
        if type(episode) is int:
            if positions is not None:
                order = table.view(positions)
                taken = [[found[i] for i in order] for found in taken]
                bodies = _written([positions[i] for i in order])
            values = [one.joined(found) for one, found in zip(columns, taken, strict=True)]
            yield (episode, environment, (step, tick, ticks, timestamp, *values, terminated, truncated, state, bodies))
            continue
        episodes = _numbers(episode, "<i4", count, "record body_steps, episode")
        steps = _numbers(step, "<i4", count, "record body_steps, step")
        for i, (name, _, b) in enumerate(whose):
            over = [bool(marks[i] & flag) for flag in _FLAGS]
            values = [found[i] for found in taken]
            row = (steps[i], tick, ticks, timestamp, *values, *over, state, _one(bodies, positions, i))
            yield episodes[i], f"{environment}[{name}/{b}]", row


def _whose(
    entry: Sequence[Any],
    at: int,
    behind: int,
    count: int,
    table: BodyTable,
    known: Sequence[tuple[str, str, int]],
    who: tuple[str, str],
) -> tuple[list[tuple[str, str, int]], list[int] | None]:
    """Return the bodies of an entry, and their positions if it has these, as one of a spawned body has."""
    if len(entry) > behind and entry[behind] is not None:
        positions = _numbers(entry[behind], "<i8", count, f"{who[0]}, positions")
        return [table.body(position) for position in positions], positions
    return [known[seat] for seat in _seats(entry[at], count, len(known), *who)], None


def _written(positions: Sequence[int]) -> bytes:
    """Return positions as they rest."""
    return SPAWNED + b"".join(position.to_bytes(8, "big") for position in positions)


def _one(bodies: bytes, positions: Sequence[int] | None, i: int) -> bytes:
    """Return one body of several as it rests."""
    if positions is not None and positions[i] >> PAIR_BITS:
        return _written([positions[i]])
    return bodies[2 * i : 2 * i + 2]


def read(bodies: bytes) -> tuple[list[int], bool]:
    """Return the bodies of a step as they rest, and whether they are positions: else seats in their environment."""
    if bodies[:2] == SPAWNED and len(bodies) % 8 == 2:
        return [int.from_bytes(bodies[at : at + 8], "big") for at in range(2, len(bodies), 8)], True
    return [int.from_bytes(bodies[at : at + 2], "little") for at in range(0, len(bodies), 2)], False


def reset_rows(
    entries: Sequence[Any], table: BodyTable | None, environment: str, declared: Sequence[Declared]
) -> Iterator[tuple[int, str, Row]]:
    """Yield episode, timeline and row of first readings; there is no table where a phase has no bodies."""
    for entry in entries:
        if type(entry) not in (list, tuple) or len(entry) < 7:
            raise StoreError(f"record resets: expected entries of 7 fields, found {entry!r:.60}")
        episode, step, tick, ticks, timestamp, bodies, readings = entry[:7]
        if bodies is None:
            if type(episode) is not int:
                raise StoreError(f"record resets: expected one episode, found {episode!r:.40}")
            yield episode, "", (step, tick, ticks, timestamp, *value_lists([readings], declared), None)
            continue
        if table is None:
            raise StoreError("record resets: expected a record `bodies` of the phase before")
        (count,), seats = _counts([entry], 7, "record resets", 5), table.seats(environment)
        whose, positions = _whose(entry, 5, 7, count, table, seats, ("record resets", environment))
        columns = Columns(declared)
        lists = columns.lists([readings], [count], "record resets, sensors")
        if environment not in table.each:
            if positions is not None:
                order = table.view(positions)
                lists, bodies = [lists[i] for i in order], _written([positions[i] for i in order])
            yield episode, environment, (step, tick, ticks, timestamp, columns.joined(lists), bodies)
            continue
        episodes = _numbers(episode, "<i4", count, "record resets, episode")
        for i, (name, _, b) in enumerate(whose):
            row = (step, tick, ticks, timestamp, lists[i], _one(bodies, positions, i))
            yield episodes[i], f"{environment}[{name}/{b}]", row


def action_rows(
    entries: Sequence[Any], table: BodyTable, agent: str, declared: Callable[[str], Mapping[str, Sequence[Declared]]]
) -> Iterator[tuple[int, str, int, Row]]:
    """Yield episode, timeline, body and row of each decision in a record `body_actions`.

    `declared` gives what an agent's bodies in an environment declare; those of one entry declare alike.
    """
    places, first = table.places(agent), 0
    counts = _counts(entries, 11, "record body_actions")
    uids = [_place(entry, places, table) for entry in entries]
    known = {uid: declared(uid) for uid in {*uids}}
    for kinds, group in groupby(uids, known.__getitem__):  # equal ones of several environments together
        end = first + len(list(group))
        yield from _action_rows(entries[first:end], counts[first:end], table, agent, kinds)
        first = end


def _place(entry: Sequence[Any], places: Sequence[tuple[str, str, int]], table: BodyTable) -> str:
    """Return the environment of the first body of an entry; empty if there is none."""
    if len(entry) > 14 and type(entry[14]) is bytes and entry[14]:
        return table.body(int.from_bytes(entry[14][:8], "little"))[1]
    numbers, number = entry[0], int.from_bytes(entry[0][:2], "little")
    return places[number][1] if numbers and number < len(places) else ""


def _action_rows(
    entries: Sequence[Any],
    counts: Sequence[int],
    table: BodyTable,
    agent: str,
    declared: Mapping[str, Sequence[Declared]],
) -> Iterator[tuple[int, str, int, Row]]:
    places = table.places(agent)
    columns = (("sensors", 4, "sensor"), ("setpoints", 5, "actuator"), ("rewards", 7, "reward"))
    found = {
        name: iter(Columns(declared[kind]).lists([e[place] for e in entries], counts, f"record body_actions, {name}"))
        for name, place, kind in columns
    }
    for entry, count in zip(entries, counts, strict=True):
        whose, _ = _whose(entry, 0, 14, count, table, places, ("record body_actions", agent))
        episodes, steps, ticks = (
            _numbers(column, "<i4", count, f"record body_actions, {name}")
            for column, name in zip(entry[1:4], ("episodes", "steps", "ticks"), strict=True)
        )
        proposed: list[Any] = [None] * count
        if entry[6] is not None:
            proposed = Columns(declared["actuator"]).lists([entry[6]], [count], "record body_actions, proposed")
        objectives = _numbers(entry[8], "<f8", count, "record body_actions, objectives")
        marks = _numbers(entry[9], "u1", count, "record body_actions, flags")
        noted = [None] * count if entry[10] is None else entry[10]
        if type(noted) not in (list, tuple) or len(noted) != count:
            raise StoreError(f"record body_actions, statistics: expected {count} entries, found {noted!r:.60}")
        policies, versions = _policies(entry, count)
        late: list[Any] = [None] * count
        if len(entry) > 13 and entry[13] is not None:
            given = _numbers(entry[13], "<f8", count, "record body_actions, late rewards")
            late = [None if value != value else value for value in given]
        for i, (_, environment, body) in enumerate(whose):
            objective = None if objectives[i] != objectives[i] else objectives[i]
            statistics = None if not noted[i] else msgpack.packb(noted[i])
            values = (next(found["sensors"]), next(found["setpoints"]), proposed[i], next(found["rewards"]))
            over = [bool(marks[i] & flag) for flag in _FLAGS]
            by = (policies[i], versions[i], late[i])
            row = (body, steps[i], ticks[i], *values, objective, *over, statistics, *by)
            yield episodes[i], table.timeline(agent, environment, body), body, row


def _policies(entry: Sequence[Any], count: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return by which model each body decided: where it comes from, and its number; None where that is not told."""
    policy, version = entry[11:13] if len(entry) >= 13 else (None, None)
    policies: Sequence[Any] = policy if isinstance(policy, list | tuple) else [policy] * count
    if len(policies) != count or not {*map(type, policies)} <= {str, type(None)}:
        raise StoreError(f"record body_actions, policy: expected text, or {count} texts, found {policy!r:.60}")
    if version is None:
        return policies, [None] * count
    return policies, _numbers(version, "<i8", count, "record body_actions, policy_version")


def timelines_of(kind: str, entries: Sequence[Any], table: BodyTable | None, name: str) -> set[tuple[str, int]]:
    """Return timeline and episode of all rows in a record of columns that was taken before."""
    if table is None:
        return {("", entry[0]) for entry in entries}
    if kind != "body_actions" and name not in table.each:
        return {(name, entry[0]) for entry in entries}
    known = table.seats(name) if kind != "body_actions" else table.places(name)
    at, of, behind = (5, 0, 13 if kind == "body_steps" else 7) if kind != "body_actions" else (0, 1, 14)
    found: set[tuple[str, int]] = set()
    for entry in entries:
        count = len(entry[at]) // 2
        whose, _ = _whose(entry, at, behind, count, table, known, (kind, name))
        timelines = [table.timeline(*body) for body in whose]
        found.update(zip(timelines, _numbers(entry[of], "<i4", count, kind), strict=True))
    return found
