"""Rows of episodes that are not over, read from the journal of the store's process."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion.cli.settings import Settings
from ganglion.cli.stores import default_uri, open_reader, store_class
from ganglion.errors import UsageError
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import decode_head
from ganglion.wire.journal import Kind, frames_of, read_records
from ganglion.wire.messages import RecordBatch
from ganglion.wire.name import Role, peer_name
from ganglion.wire.parcel import attach

if TYPE_CHECKING:
    from ganglion.sdk.store import StoreReader

_BATCH = "record.batch"
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
                heard = _batches(_journal(settings.results, run))
                with store_class(uri).writer(uri, run) as writer:
                    writer.apply("", [*_declared(stored, run), *_open(heard)])
        with store_class(uri).reader(uri) as reader:
            yield reader


def _journal(results: Path, run: str) -> bytes:
    from ganglion.run.plan import Process
    from ganglion.supervisor.folder import RunFolder

    path = RunFolder(run, results / run).journal(Process(peer_name(run, Role.STORE), Role.STORE))
    try:
        return path.read_bytes()
    except OSError as error:
        what = "the journal of the store, which a run with `recovery` has until it ends"
        raise UsageError(f"{path}: expected {what}: {error.strerror}") from error


def _batches(journal: bytes) -> Iterator[RecordBatch]:
    """Yield the batches that the store has heard, each once, those of a writer in its order."""
    kept: list[RecordBatch] = []  # from before the journal was begun anew: without a number
    found: dict[tuple[bytes, int], RecordBatch] = {}
    for record in read_records(journal):
        frames = frames_of(record.payload) if record.kind is Kind.HEARD else []
        if len(frames) > 2 and decode_head(frames[1]).call == _BATCH:
            batch = attach(_BATCH, codec_of(RecordBatch).decode(frames[2]), frames[3:])
            if batch.number:
                found[frames[0], batch.number] = batch
            else:
                kept.append(batch)
    yield from kept
    for place in sorted(found):
        yield found[place]


def _open(batches: Iterator[RecordBatch]) -> Iterator[list[Any]]:
    """Yield the rows of episodes that are not sealed, and then their ends."""
    rows: dict[tuple[Any, ...], list[list[Any]]] = {}
    sealed: set[tuple[Any, ...]] = set()
    for kind, *fields in itertools.chain.from_iterable(batch.records for batch in batches):
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
