"""Rows of episodes that are not over, read from the journal of the store's process."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion.cli.extension import records_heard
from ganglion.cli.settings import Settings
from ganglion.cli.stores import default_uri, open_reader, store_class
from ganglion_store.bodies import PAIR_BITS, BodyTable, spawned_of, table_of, timelines_of

if TYPE_CHECKING:
    from ganglion.sdk import StoreReader

_REASON = "open"


@contextmanager
def open_episodes(settings: Settings, runs: Sequence[str]) -> Iterator[StoreReader]:
    """Yield a reader of the open episodes of these runs, or of the last one, as if they ended now.

    A store shows an episode when it is whole; until then its rows are in the journal of the store's process, from which
    a temporary store is made. UsageError if a run has no journal.
    """
    with tempfile.TemporaryDirectory(prefix="ganglion-open-") as folder:
        uri = default_uri(Path(folder))
        with open_reader(settings) as stored:
            for run in dict.fromkeys(stored.resolve(run) for run in runs or ["last"]):
                heard = list(records_heard(settings.results, run))
                with store_class(uri).writer(uri, run) as writer:
                    bodies = list(_bodies(stored, run, heard))
                    writer.apply("", [*_declared(stored, run), *bodies, *_open(heard), *_open_of_bodies(heard, bodies)])
        with store_class(uri).reader(uri) as reader:
            yield reader


def _open(records: Iterable[Sequence[Any]]) -> Iterator[list[Any]]:
    """Yield the rows of episodes that are not sealed, and then their ends."""
    rows: dict[tuple[Any, ...], list[list[Any]]] = {}
    sealed: set[tuple[Any, ...]] = set()
    for kind, *fields in records:
        phase, mode, worker, _, episode = (*fields, *[None] * 5)[:5]
        if kind in ("steps", "actions"):
            rows.setdefault((phase, mode, worker, episode), []).append([kind, *fields])
        elif kind == "episode":
            sealed.add((phase, mode, worker, episode))
    for place in sorted(rows.keys() - sealed):
        yield from rows[place]
        steps = max((row[0] for record in rows[place] if record[0] == "steps" for row in record[6]), default=0)
        phase, mode, worker, episode = place
        yield ["episode", phase, mode, worker, None, episode, steps, False, False, _REASON, 0]


def _declared(stored: StoreReader, run: str) -> Iterator[list[Any]]:
    """Yield the records by which the store knows a run and what its rows mean."""
    [row] = stored.rows("runs", [run])
    names = ("uid", "experiment", "seed", "started")
    yield ["run", {name: str(row[name]) for name in names}]
    of = ("phase", "environment", "agent", "kind")
    declared = stored.rows("declarations", [run])
    for key, group in itertools.groupby(declared, lambda row: tuple(row[name] for name in of)):
        yield ["declare", *key, [[row[n] for n in ("id", "space", "unit", "dtype", "shape")] for row in group]]


# -- phases with bodies -----------------------------------------------------------------------------------------------
_COLUMNS = ("body_steps", "body_actions", "resets")


def _bodies(stored: StoreReader, run: str, heard: Sequence[Sequence[Any]]) -> Iterator[list[Any]]:
    """Yield the records that name the bodies of a run's phases; those that were spawned behind the others."""
    own: set[tuple[int, str]] = {  # environments in which each body has episodes of its own
        (fields[0], fields[3])
        for kind, *fields in heard
        if kind in ("body_steps", "resets")
        if any(type(entry[0]) is bytes for entry in fields[4])
    }
    names = ("agent", "environment", "body", "role", "team", "group", "learn")
    of_phase = itertools.groupby(stored.rows("bodies", [run]), lambda row: row["phase"])
    for phase, group in of_phase:
        rows = [row for row in group if not row["dynamic"]]
        each = [
            [*(row[name] for name in names), (phase, row["environment"]) in own, str(row["policy"])] for row in rows
        ]
        yield ["bodies", phase, each]
    yield from ([kind, *fields] for kind, *fields in heard if kind == "spawned")


def _open_of_bodies(heard: Sequence[Sequence[Any]], bodies: Sequence[Sequence[Any]]) -> Iterator[list[Any]]:
    """Yield the columns of bodies, and the ends of their episodes that are not sealed."""
    tables: dict[int, BodyTable] = {}
    for kind, phase, rows in bodies:
        if kind == "bodies":
            tables[phase] = table_of(rows)[0]
        else:
            tables[phase].pairs |= {row[0] >> PAIR_BITS: (row[1], row[2]) for row in spawned_of(rows)}
    sealed = {(*fields[:3], fields[3], fields[4]) for kind, *fields in heard if kind == "episode"}
    steps: dict[tuple[Any, ...], int] = {}
    for kind, *fields in heard:
        phase, mode, worker, name, entries = (*fields, *[None] * 5)[:5]
        if kind not in _COLUMNS or phase not in tables:
            continue
        yield [kind, *fields]
        for entry in entries:
            for timeline, episode in timelines_of(kind, [entry], tables[phase], name):
                place = (phase, mode, worker, timeline, episode)
                steps[place] = steps.get(place, 0) + (kind == "body_steps")
    for place in sorted(steps.keys() - sealed):
        yield ["episode", *place, steps[place], False, False, _REASON, 0, 0]
