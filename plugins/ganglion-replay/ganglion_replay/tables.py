"""Tables that begin with recorded sessions: found by the document's source, copied, read by the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ganglion.errors import DocumentError, StoreError
from ganglion.run.plan import PhasePlan
from ganglion.sdk.information import Information
from ganglion.sdk.pool import columns
from ganglion.sdk.session import Session
from ganglion.sdk.spaces import parse_space
from ganglion_replay.sources import Finder, Recorded, given_of
from ganglion_replay.spool import Source, read_index
from ganglion_replay.spooled import Kin, Sessions

__all__ = ["Filled", "filled", "filled_of", "find", "misfits"]

SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Filled:
    """A table of a document with recorded sessions: its source, the place of the source, and its capacity."""

    at: str
    source: Mapping[str, Any]
    capacity: Mapping[str, int]
    agents: Sequence[str]


def filled_of(phase: PhasePlan) -> dict[str, Filled]:
    """Return the tables of a phase with recorded sessions, by uid.

    Raises:
        DocumentError: A source is no map, or an agent of the table has filters.
    """
    found = {}
    for table in phase.pools:
        if table.plugin is None or table.plugin.params.get(SOURCE) is None:
            continue
        at, source = f"{table.plugin.at.removesuffix('.name')}.params.{SOURCE}", table.plugin.params[SOURCE]
        given = given_of(at, source)
        capacity = table.plugin.params.get("capacity")
        bounds = capacity if isinstance(capacity, Mapping) else {} if capacity is None else {"sessions": capacity}
        agents = list(dict.fromkeys([*table.feed, *table.serve]))
        filtered = next((one.name for one in phase.agents if one.name in agents and one.filters), None)
        if filtered is not None:
            text = f"agent `{filtered}` has filters, and what they would have made of recorded sessions is not known"
            raise DocumentError(f"{at}: {text}: a table with a `source` needs agents without")
        found[table.uid] = Filled(at, given, bounds, agents)
    return found


def find(finder: Finder, at: str, source: Mapping[str, Any]) -> Recorded:
    """Return the sessions that a table of the phase begins with: the newest complete ones within its capacity.

    Raises:
        DocumentError: There is no such table, it has no source, or the source has no sessions.
    """
    uid, tables = str(source["table"]), finder.tables
    if uid not in tables:
        known = ", ".join(f"`{name}`" for name in tables) or "none"
        raise DocumentError(
            f"{at}: expected a table of this phase that begins with a `source` ({known}), found `{uid}`"
        )
    table = tables[uid]
    others = {name: one for name, one in tables.items() if name != uid}  # no table begins with itself
    inner = replace(finder, tables=others).find(table.at, table.source, table.source.get("agent") or table.agents[0])

    def kept() -> Iterator[Session]:
        lengths = [len(session) for session in inner.sessions()]
        sessions = steps = 0
        for length in reversed(lengths):
            if sessions + 1 > table.capacity.get("sessions", sessions + 1):
                break
            if steps + length > table.capacity.get("steps", steps + length):
                break
            sessions, steps = sessions + 1, steps + length
        return islice(inner.sessions(), len(lengths) - sessions, None)

    told = f"table `{uid}`: {inner.told}"
    return Recorded(told, inner.where, kept, inner.flaws, environments=inner.environments)


def equal_columns(at: str, sources: Sequence[Source]) -> None:
    """Refuse sessions of unequal columns, which one table cannot hold."""
    for source in sources[1:]:
        for kind in ("sensors", "actuators", "rewards"):
            first, other = getattr(sources[0], kind), getattr(source, kind)
            if first != other:
                text = f"expected equal {kind} of all sessions of a table, found {first} and {other}"
                raise DocumentError(f"{at}: {text:.600}; `agent` and `environment` narrow the source")


def misfits(
    uid: str, source: Source, at: str, agent: str, declared: Mapping[str, Sequence[Information]]
) -> Iterator[str]:
    """Yield the differences of the recorded columns from the sensors and actuators of the table's agents, in order."""
    for kind, recorded in (("sensors", source.sensors), ("actuators", source.actuators)):
        own = [[_local(it.uid), it.space.to_string()] for it in declared[kind]]
        found = [[_local(name), space] for name, space in recorded]
        if own != found:
            text = f"table `{uid}`: expected the {kind} of agent `{agent}`, {own}, found {found}"
            yield f"{at}: {text:.600}"


def _local(uid: str) -> str:
    return uid.partition(".")[2] or uid


def filled(folder: str, sha256: str) -> Iterator[dict[str, Any]]:
    """Yield the decisions of each session of a copy, as columns of `ganglion.sdk.Pool.insert`.

    An episode without an end is truncated; an unknown number of an update is -1.

    Raises:
        StoreError: The copy is missing or damaged.
    """
    found = read_index(Path(folder), sha256)
    if found is None:
        raise StoreError(f"recorded episodes: there is no index in {folder}")
    first = found[1][0]
    sensors, actuators = (
        [Information(None, parse_space(text), uid) for uid, text in pairs] for pairs in (first.sensors, first.actuators)
    )
    for number, session in enumerate(Sessions(Path(folder), sha256, [Kin((), sensors, actuators)])):
        batch = session.transitions()
        if not len(batch):
            continue
        if not (batch.terminated[-1] or batch.truncated[-1]):
            batch.truncated = batch.truncated.copy()
            batch.truncated[-1] = True
        versions = [-1] * len(batch) if session.policy_version is None else session.policy_version[: len(batch)]
        given = columns(batch, np.asarray(versions, np.int64).tolist())
        yield {**given, "streams": [f"recorded {number}"] * len(batch)}
