"""Depot: the models of one run in a database of their own, with the rows by which `load` finds them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ganglion.errors import GanglionError, StoreError, StoreUnavailable
from ganglion.peer.address import store_class
from ganglion.peer.deposit import apply
from ganglion.sdk.models import tag_file
from ganglion.sdk.store import Store

__all__ = ["Depot", "kind_of", "marked", "place_of"]

_WRITER = "governor"
_RUN = ("uid", "experiment", "seed", "started")  # what a run is found by; its document is in its own store
_AGAIN_S = 0.5
_PATIENCE_S = 20.0  # for other runs that write models into the same database, at some 200 MB/s


def kind_of(uri: str) -> type[Store]:
    """Return the kind of store that a URI names.

    Raises:
        PluginInvalid: There is none. StoreError: It keeps no models.
    """
    kind = store_class(uri)
    if not kind.keeps_models:
        name = uri.partition(":")[0]
        raise StoreError(f"expected a store that keeps the bytes of models; the kind `{name}` does not")
    return kind


def place_of(folder: Path, record: Sequence[Any], name: str) -> Path:
    """Return the one place where the file of a record `brain` may lie: that which its brain was told.

    Args:
        folder: Of the run's models.
        record: As a brain's answer made it.
        name: Of the agent, as a name of a folder.

    Raises:
        StoreError: The record names another place.
    """
    place = folder / str(record[1]) / name / tag_file(record[3])
    if Path(record[9]).absolute() != place.absolute():
        raise StoreError(
            f"model of agent `{record[2]}`: expected it in {place}, its brain says {record[9]!r:.200}"
        )
    return place


def marked(record: Sequence[Any], place: Path) -> list[Any]:
    """Return a record `brain` whose file the store shall keep, too."""
    return [*record[:-1], str(place.absolute()), True]


class Depot:
    """Take the records that go to the run's store, and keep of them runs, phases and models, these with their bytes.

    It is what an `Index` is for a folder. What it has taken is written by `flush`, in the process that calls it.

    Args:
        uri: Of the store.
        run: Id of the run.
        again: Whether the run may be there already: it goes on, or who wrote it was lost.
        warn: Tells a sentence to who looks on.
        sleep: Waits for some seconds.

    Raises:
        GanglionError: It cannot be opened, keeps no models, or has a run of that id.
    """

    def __init__(
        self,
        uri: str,
        run: str,
        again: bool = False,
        warn: Callable[[str], None] = lambda text: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._writer = kind_of(uri).writer(uri, run, resume=again)
        self._new: list[list[Any]] = []
        self._warn, self._sleep = warn, sleep
        self.is_empty = not again

    def take(self, record: Sequence[Any]) -> None:
        """Take a record; those of no use here are skipped."""
        if record[0] == "run":
            head: Mapping[str, Any] = record[1]
            self._new.append(["run", {key: str(head[key]) for key in _RUN if key in head}])
        elif record[0] in ("phase", "brain", "end"):
            self._new.append(list(record))
            self.is_empty = self.is_empty and record[0] != "brain"

    def flush(self) -> None:
        """Make durable what was taken, if there is news; other writers of the database are waited for.

        Raises:
            StoreError: It cannot be written.
        """
        if not self._new:
            return
        # Who goes on may have heard of models before it hears of its run.
        new, self._new = sorted(self._new, key=lambda record: record[0] != "run"), []
        try:
            apply(self._writer, _WRITER, new, trusted=True)
            self._commit()
        except StoreError as error:
            raise StoreError(f"models of this run: {error}") from error

    def _commit(self) -> None:
        left_s = _PATIENCE_S
        while True:
            try:
                self._writer.commit()
                return
            except StoreUnavailable as error:
                if left_s <= 0:
                    raise
                if left_s == _PATIENCE_S:
                    self._warn(f"models of this run wait for their store: {error}; gives up in {left_s:g} s")
            self._sleep(_AGAIN_S)
            left_s -= _AGAIN_S

    def close(self) -> None:
        """Let go of the database; what could not be written was told by `flush`."""
        try:
            self._writer.close()
        except GanglionError:
            return
