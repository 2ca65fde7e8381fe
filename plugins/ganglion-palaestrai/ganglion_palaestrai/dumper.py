"""Dumper: the old way to keep what a brain has learnt, as bytes that nobody looks into."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, BinaryIO, Protocol

import numpy as np

from ganglion.sdk import Models

__all__ = ["BrainDumper", "NoBrainFoundError", "dump_of"]

DUMP = "dump"  # the one array of a model that holds a dump


class NoBrainFoundError(RuntimeError):
    """Say that there is no dump under a tag."""


class Reader(Protocol):
    """Read what was saved under a tag."""

    def load(self, tag: str = "") -> Any:
        """Return it, None if nothing was."""


def dump_of(model: Any) -> io.BytesIO | None:
    """Return the dump that a model holds, None for a model of another form and for none at all."""
    if isinstance(model, dict) and list(model) == [DUMP] and getattr(model[DUMP], "dtype", None) == np.uint8:
        return io.BytesIO(model[DUMP].tobytes())
    return None


class BrainDumper:
    """Keep dumps among the models of a brain, or read them for a muscle.

    A dump is kept as an array of its bytes: reading one executes nothing here, what an author makes of the bytes is his
    own risk.

    Args:
        reader: Where dumps are read.
        models: Where they are kept; None for a muscle, which keeps none.
    """

    def __init__(self, reader: Reader, models: Models | None = None) -> None:
        self._reader = reader
        self._models = models

    def save(self, brain_state: BinaryIO, tag: str | None = None) -> None:
        """Keep a dump under a tag, from where the file stands.

        Raises:
            RuntimeError: A muscle keeps nothing.
        """
        if self._models is None:
            raise RuntimeError("a muscle reads dumps; its brain keeps them")
        self._models.save({DUMP: np.frombuffer(brain_state.read(), dtype=np.uint8)}, tag or "")

    def load(self, tag: str | None = None) -> BinaryIO:
        """Return a dump as a file that stands at its beginning.

        Raises:
            NoBrainFoundError: There is none under this tag.
        """
        found = dump_of(self._reader.load(tag or ""))
        if found is None:
            raise NoBrainFoundError(f"there is no dump under the tag {tag!r}")
        return found

    @staticmethod
    def store_brain_dump(brain_state: BinaryIO, dumpers: Sequence[BrainDumper], tag: str | None = None) -> None:
        """Keep a dump in all dumpers, whole."""
        for dumper in dumpers:
            brain_state.seek(0)
            dumper.save(brain_state, tag)

    @staticmethod
    def load_brain_dump(loaders: Sequence[BrainDumper], tag: str | None = None) -> BinaryIO | None:
        """Return the first dump under a tag that a dumper has, None if none has one.

        A damaged file is not passed over in silence: StoreError.
        """
        for loader in loaders:
            try:
                return loader.load(tag)
            except NoBrainFoundError:
                continue
        return None
