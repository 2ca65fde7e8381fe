"""Transitions: rows of several muscles as arrays, for brains that learn from arrays."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ganglion.errors import RemoteProtocolError
from ganglion.peer.step.layout import ROW_NUMBER, Array, Field, Groups, Layout, Masks
from ganglion.peer.values import SIMPLE, copied, deserialize
from ganglion.sdk.brain import Transitions
from ganglion.sdk.memory import Memory
from ganglion.wire.messages import TERMINATED, TRUNCATED, Think

_OF_ALL = ("group", "mask_columns")
"""Fields of transitions that are no columns."""
FILTERED = ("proposed", "observations", "next_observations")
"""Fields of `Think` behind filters, None if they equal the others."""


@dataclass(slots=True)
class Row:
    """One completed decision: values in wire form, in declared order, except `data`."""

    muscle: str
    worker: int
    readings: Field
    proposed: Field
    rewards: Field
    objective: float | None
    next_readings: Field
    terminated: bool
    truncated: bool
    decision: int
    episode: int
    data: Any


class RowWriter:
    """Write rows into a memory; the layouts are those of an agent, `applied` that of its actuators behind filters."""

    def __init__(self, memory: Memory, sensors: Layout, actuators: Layout, applied: Layout, rewards: Layout) -> None:
        self._memory = memory
        self._layouts = sensors, actuators, applied, rewards

    def __call__(self, row: Row, think: Think) -> None:
        """Write a row as sent by its muscle."""
        sensors, actuators, behind, reward = self._layouts
        try:  # the usual case: a block of numbers each
            readings, after = (list(sensors.unpack(*row.readings)), list(sensors.unpack(*row.next_readings)))
            applied, rewards = list(behind.unpack(*think.applied)), list(reward.unpack(*row.rewards))
        except (TypeError, struct.error):
            readings = sensors.values(row.readings, "think.readings")
            applied = behind.values(think.applied, "think.applied")
            rewards = reward.values(row.rewards, "think.rewards")
            after = sensors.values(row.next_readings, "think.next_readings")
        proposed = applied if think.proposed is None else actuators.values(row.proposed, "think.proposed")
        data = row.data
        self._memory.append(
            row.muscle,
            sensor_readings=readings,
            actuator_setpoints=proposed,
            applied_setpoints=applied,
            rewards=rewards,
            objective=row.objective,
            next_readings=after,
            dones=row.terminated or row.truncated,
            terminated=row.terminated,
            truncated=row.truncated,
            decision_index=row.decision,
            episode=row.episode,
            additional_data=data if type(data) in SIMPLE else copied(data),  # the brain receives a copy of its own
        )


def joined(thinks: Sequence[Think]) -> list[list[Any]]:
    """Return decisions in blocks, as a later decision carries them; see `Think`."""
    readings, applied, rewards = (
        [b"".join(blocks) for blocks in zip(*fields, strict=True)]
        for fields in ([t.readings for t in thinks], [t.applied for t in thinks], [t.rewards for t in thinks])
    )
    numbers = [think.decision for think in thinks]
    return [numbers, readings, applied, rewards, [t.objective[0] for t in thinks], [t.data for t in thinks]]


def parted(think: Think) -> list[Think]:
    """Return the decisions of a message, the carried ones first, each as if it had been sent alone.

    Raises:
        RemoteProtocolError: The carried entries are no decisions.
    """
    if think.before is None:
        return [think]
    before = think.before
    if len(before) != 6 or not len(before[0]) == len(before[4]) == len(before[5]) > 0:
        raise RemoteProtocolError("think.before: expected six lists of decisions, or nothing")
    count = len(before[0])
    readings, applied, rewards = (_parts(blocks, count) for blocks in before[1:4])
    earlier = [
        Think(
            worker=think.worker,
            episode=think.episode,
            decision=before[0][i],
            readings=readings[i],
            applied=applied[i],
            rewards=rewards[i],
            objective=[before[4][i]],
            next_readings=readings[i + 1] if i + 1 < count else think.readings,
            data=before[5][i],
            reward_ids=think.reward_ids,
        )
        for i in range(count)
    ]
    return [*earlier, think]


def _parts(blocks: list[Any], count: int) -> list[Field]:
    """Return blocks of many decisions as those of each."""
    if any(type(block) is not bytes or len(block) % count for block in blocks):
        raise RemoteProtocolError(f"think.before: expected blocks of {count} decisions, found others")
    sizes = [len(block) // count for block in blocks]
    return [[block[i * s : (i + 1) * s] for block, s in zip(blocks, sizes, strict=True)] for i in range(count)]


class Stack:
    """Stack the rows of an agent into transitions."""

    def __init__(self, agent: str, sensors: Layout, actuators: Layout, group: int = 0) -> None:
        self._body, self._group = (agent, 0), group
        self._sensors, self._actuators = sensors, actuators
        self._rewards: Layout | None = None
        self._mask_columns = Masks(sensors, actuators).columns

    def declare(self, rewards: Layout) -> None:
        """Set the layout of the rewards, which may be declared late."""
        self._rewards = rewards

    def __call__(self, rows: Sequence[Row]) -> Transitions:
        """Return rows, at least one, in their order."""
        assert self._rewards is not None
        objectives = [np.nan if row.objective is None else row.objective for row in rows]
        return Transitions(
            observations=self._sensors.matrix([row.readings for row in rows], "think.readings"),
            actions=self._actuators.matrix([row.proposed for row in rows], "think.proposed"),
            objectives=np.array(objectives, dtype=np.float64),
            rewards=self._rewards.matrix([row.rewards for row in rows], "think.rewards"),
            next_observations=self._sensors.matrix([row.next_readings for row in rows], "think.next_readings"),
            terminated=np.array([row.terminated for row in rows]),
            truncated=np.array([row.truncated for row in rows]),
            muscle=[row.muscle for row in rows],
            body=[self._body] * len(rows),
            episode=np.array([row.episode for row in rows]),
            step=np.array([row.decision for row in rows]),
            data=[row.data for row in rows],
            mask_columns=self._mask_columns,
        )

    def bodies(self, think: Think, bodies: Sequence[Any], blobs: Sequence[bytes]) -> Transitions:
        """Return the decisions of many bodies; `bodies` are the coordinates of rows.

        Raises:
            RemoteProtocolError: Numbers of rows, of bytes or of entries do not fit each other.
        """
        assert self._rewards is not None
        given = [part or b"" for part in (think.rows, think.flags, think.decisions, think.episodes)]
        count, sizes = len(think.objective), [*map(len, given)]
        if not count or sizes != [2 * count, count, 8 * count, 8 * count]:
            text = f"expected rows, flags, decisions and episodes of {count or 'some'} bodies, found {sizes} bytes"
            raise RemoteProtocolError(f"think: {text}")
        kinds = ("<u2", "u1", "<i8", "<i8")
        rows, flags, decisions, episodes = (np.frombuffer(*pair) for pair in zip(given, kinds, strict=True))
        if int(rows.max()) >= len(bodies):
            raise RemoteProtocolError(f"think.rows: expected numbers below {len(bodies)}, found {int(rows.max())}")
        data: Any = [None] * count
        if think.data is not None:
            data = deserialize(think.data, blobs, "think.data")
            if not (isinstance(data, list | np.ndarray) and len(data) == count):
                raise RemoteProtocolError(f"think.data: expected null or {count} values")
        whose = [bodies[row] for row in rows.tolist()]
        if think.numbers is not None:
            if len(think.numbers) != 8 * count:
                raise RemoteProtocolError(f"think.numbers: expected {8 * count} bytes, found {len(think.numbers)}")
            numbers = np.frombuffer(think.numbers, "<i8").tolist()
            whose = [(agent, uid, b) for (agent, uid, _), b in zip(whose, numbers, strict=True)]
        objectives = [np.nan if value is None else value for value in think.objective]
        return Transitions(
            observations=matrix(self._sensors, think.observations or think.readings, count, "readings"),
            actions=matrix(self._actuators, think.proposed or think.applied, count, "applied"),
            objectives=np.array(objectives, np.float64),
            rewards=matrix(self._rewards, think.rewards, count, "rewards"),
            next_observations=matrix(
                self._sensors, think.next_observations or think.next_readings, count, "next_readings"
            ),
            terminated=flags & TERMINATED != 0,
            truncated=flags & TRUNCATED != 0,
            muscle=[f"{self._body[0]}/{think.worker}"] * count,
            body=whose,
            episode=episodes,
            step=decisions,
            data=data,
            group=self._group,
            mask_columns=self._mask_columns,
            tick=_ticks(think, count),
        )


def _ticks(think: Think, count: int) -> Array | None:
    if think.ticks is not None and len(think.ticks) != 8 * count:
        raise RemoteProtocolError(f"think.ticks: expected {8 * count} bytes, found {len(think.ticks)}")
    return None if think.ticks is None else np.frombuffer(think.ticks, "<i8")


def matrix(layout: Layout, field: Field, count: int, what: str) -> Any:
    """Return blocks of many bodies as one matrix; RemoteProtocolError names the blocks that do not fit."""
    if not layout.fits(field, count):
        layout.bodies(field, f"think.{what}", count)  # raises the specific error
        raise RemoteProtocolError(f"think.{what}: expected blocks of {count} bodies")
    return matrix_of(layout, [run.matrix(block, count) for run, block in zip(layout.runs, field, strict=True)], count)


def matrix_of(layout: Layout, runs: Sequence[Any], count: int) -> Any:
    """Return blocks of bodies as one matrix, which has rows even without columns."""
    return layout.side_by_side(runs) if runs else np.empty((count, 0), layout.dtype)


def by_groups(
    think: Think, sensors: Groups, actuators: Groups, rewards: Groups, shown: Groups, moved: Groups
) -> list[Think | None]:
    """Return the decisions of each group as if they had been sent alone; None for a group without decisions.

    `shown` and `moved` are sensors and actuators behind filters.

    Raises:
        RemoteProtocolError: Fields do not fit the rows of these groups.
    """
    assert sensors.of is not None
    places = np.frombuffer(think.rows or b"", ROW_NUMBER)
    if len(places) and int(places.max()) >= len(sensors.of):
        raise RemoteProtocolError(f"think.rows: expected numbers below {len(sensors.of)}, found {int(places.max())}")
    if (np.diff(sensors.of[places]) < 0).any() or type(think.data) is not list:
        raise RemoteProtocolError("think: expected rows of one group after those of another, and data of each")
    layouts = {"readings": sensors, "applied": actuators, "rewards": rewards, "next_readings": sensors}
    behind = zip(FILTERED, (moved, shown, shown), strict=True)
    layouts |= {name: groups for name, groups in behind if getattr(think, name) is not None}
    fields = {name: groups.fields(getattr(think, name), places, f"think.{name}") for name, groups in layouts.items()}
    found: list[Think | None] = []
    for (_, _, span), data, *values in zip(sensors.parts(places), think.data, *fields.values(), strict=True):
        numbers = [
            (part or b"")[span.start * size : span.stop * size]
            for part, size in ((think.rows, 2), (think.flags, 1), (think.decisions, 8), (think.episodes, 8))
        ]
        own = dict(zip(("rows", "flags", "decisions", "episodes"), numbers, strict=True))
        for name in ("numbers", "ticks"):
            if getattr(think, name) is not None:
                own[name] = getattr(think, name)[span.start * 8 : span.stop * 8]
        given: dict[str, Any] = {**dict(zip(fields, values, strict=True)), **own}
        none = span.start == span.stop
        found.append(None if none else replace(think, objective=think.objective[span], data=data, **given))
    return found


def taken(chunk: Transitions, rows: Sequence[int]) -> Transitions:
    """Return these rows in this order."""
    values = {part.name: getattr(chunk, part.name) for part in fields(Transitions)}
    found: dict[str, Any] = {
        name: v[list(rows)]
        if isinstance(v, np.ndarray)
        else v
        if v is None or name in _OF_ALL
        else [v[i] for i in rows]
        for name, v in values.items()
    }
    return Transitions(**found)


def taken_blocks(fields: Sequence[tuple[Field, int]], rows: Array) -> Field:
    """Return fields of several chunks of bodies as one, with these rows in this order."""
    found: Field = []
    for blocks in zip(*(field for field, _ in fields), strict=True):
        parts = [np.frombuffer(block, np.uint8).reshape(fields[i][1], -1) for i, block in enumerate(blocks)]
        found.append(np.concatenate(parts)[rows].tobytes())
    return found


def joined_transitions(chunks: Sequence[Transitions]) -> Transitions:
    """Return the rows of several workers in their order."""
    if len(chunks) == 1:
        return chunks[0]
    found: dict[str, Any] = {}
    for part in fields(Transitions):
        values = [getattr(chunk, part.name) for chunk in chunks]
        if part.name in _OF_ALL or values[0] is None:
            found[part.name] = values[0]
        elif all(isinstance(value, np.ndarray) for value in values):
            found[part.name] = np.concatenate(values)
        else:
            found[part.name] = [one for value in values for one in value]
    return Transitions(**found)
