"""Deposit: gives a store the bytes of models together with the records that tell of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ganglion.errors import StoreError
from ganglion.limits import MODEL_PIECE_BYTES
from ganglion.sdk.store import StoreWriter, model_file_bytes

__all__ = ["apply", "pieces_of"]

_FIELDS = 10  # of a record `brain` without its mark


def apply(writer: StoreWriter, peer: str, records: Sequence[Sequence[Any]], trusted: bool) -> None:
    """Give records to a writer, and before them the files of models that they ask it to keep.

    Args:
        writer: Of a store that keeps models, where a record asks for that.
        peer: Who says the records.
        records: As `StoreWriter.apply` takes them.
        trusted: Whether who says them may name files of this machine: nobody but the governor.

    Raises:
        StoreError: As `StoreWriter.apply`.
    """
    begin = 0
    for position, record in enumerate(records if trusted else ()):
        if record[:1] == ["brain"] and len(record) > _FIELDS and record[_FIELDS] is True:
            if position > begin:  # the begin of the run may be among them
                writer.apply(peer, records[begin:position])
                begin = position
            size_bytes, sha256, path = record[7:_FIELDS]
            writer.put_model(sha256, size_bytes, partial(pieces_of, Path(path)))
    writer.apply(peer, records[begin:] if begin else records)


def pieces_of(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a model's file; no link is followed, and nothing but a regular file is read.

    Raises:
        StoreError: It cannot be read, or is too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            found, most = os.fstat(descriptor), model_file_bytes()
            if not stat.S_ISREG(found.st_mode):
                raise StoreError(f"model {path}: expected a file, found something else")
            if found.st_size > most:
                raise StoreError(
                    f"model {path}: expected at most {most} bytes (model_bytes), found {found.st_size}"
                )
            while piece := file.read(MODEL_PIECE_BYTES):
                yield piece
    except OSError as error:
        raise StoreError(f"model {path}: cannot be read for the store: {error.strerror}") from error
