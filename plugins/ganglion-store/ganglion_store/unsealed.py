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
                heard = records_heard(settings.results, run)
                with store_class(uri).writer(uri, run) as writer:
                    writer.apply("", [*_declared(stored, run), *_open(heard)])
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
        steps = max((row[0] for kind, *_, found in rows[place] if kind == "steps" for row in found), default=0)
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
