"""Stores and folders of runs: resolves which ones a command refers to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion.cli.settings import Settings
from ganglion.errors import UsageError
from ganglion.supervisor.output import without_password

if TYPE_CHECKING:
    from ganglion.sdk.store import Store, StoreReader


FILE = "ganglion.db"
"""The store of a results folder, unless another one was named."""


def default_uri(results: Path) -> str:
    """Return the URI of the default store in a results folder."""
    return f"sqlite:///{results.absolute() / FILE}"


def store_of(settings: Settings) -> str | None:
    """Return the URI of the store for rows, None for `--store none`; UsageError: no plugin opens such a store."""
    if settings.store is None or settings.store == "none":
        return None if settings.store else default_uri(settings.results)
    from ganglion import registry  # late: reads the tables of all distributions

    registry.find("store", _scheme(settings.store))
    return settings.store


def store_uri(settings: Settings) -> str:
    """Return the URI of the store that a command reads."""
    uri = store_of(settings)
    if uri is None:
        raise UsageError("expected a store to read from, found --store none, which keeps nothing")
    return uri


def store_class(uri: str) -> type[Store]:
    """Return the plugin that opens a store: its name is the scheme of the URI."""
    from ganglion import registry  # late: reads the tables of all distributions

    loaded: type[Store] = registry.load("store", _scheme(uri))
    return loaded


def _scheme(uri: str) -> str:
    scheme, colon, _ = uri.partition("://")
    if not colon:
        raise UsageError(f"expected a store URI such as sqlite:///results/{FILE}, found {without_password(uri)!r}")
    return scheme


def open_reader(settings: Settings) -> StoreReader:
    """Open the store of a command for reading."""
    uri = store_uri(settings)
    return store_class(uri).reader(uri)


def newest_folder(results: Path, run: str) -> Path | None:
    """Return a run's folder by its id, else the newest with that uid, or of all for `last`; None if there is none."""
    from ganglion.supervisor.folder import MANIFEST, read_manifest

    if Path(run).name == run and (results / run / MANIFEST).is_file():
        return results / run
    told = {path.parent: read_manifest(path.parent)[0] for path in results.glob(f"*/{MANIFEST}")}
    own = {folder: row for folder, row in told.items() if row.get("run") == folder.name}
    meant = [folder for folder, row in own.items() if run in (row.get("uid"), "last")]
    return max(meant, key=lambda folder: str(told[folder].get("started")), default=None)


def records_heard(results: Path, run: str) -> Iterator[list[Any]]:
    """Yield the records that a run's store has received since its journal began, those of each writer in order.

    UsageError if there is no such journal.
    """
    from ganglion.run.plan import Process
    from ganglion.supervisor.folder import RunFolder
    from ganglion.wire.codec import codec_of
    from ganglion.wire.envelope import decode_head
    from ganglion.wire.journal import Kind, frames_of, read_records
    from ganglion.wire.messages import RecordBatch
    from ganglion.wire.name import Role, peer_name
    from ganglion.wire.parcel import attach

    path = RunFolder(run, results / run).journal(Process(peer_name(run, Role.STORE), Role.STORE))
    try:
        journal = path.read_bytes()
    except OSError as error:
        what = "the journal of the store, which a run with `recovery` has until it ends"
        raise UsageError(f"{path}: expected {what}: {error.strerror}") from error
    kept: list[RecordBatch] = []  # from before the compaction of the journal: without a number
    found: dict[tuple[bytes, int], RecordBatch] = {}
    for record in read_records(journal):
        frames = frames_of(record.payload) if record.kind is Kind.HEARD else []
        if len(frames) > 2 and decode_head(frames[1]).call == "record.batch":
            batch = attach("record.batch", codec_of(RecordBatch).decode(frames[2]), frames[3:])
            if batch.number:
                found[frames[0], batch.number] = batch
            else:
                kept.append(batch)
    for batch in (*kept, *(found[place] for place in sorted(found))):
        yield from batch.records
