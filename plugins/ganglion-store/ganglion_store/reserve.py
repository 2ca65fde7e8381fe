"""Reserve: space that is kept back while there is some, for the last words of a run whose disk is full."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from pathlib import Path

_PIECE_BYTES = 1024 * 1024


class Reserve:
    """Hold bytes on the disk of a folder in a file without a name: it vanishes with the process, however that ends.

    OSError if there is no room for it.
    """

    def __init__(self, folder: Path, size_bytes: int) -> None:
        descriptor, name = tempfile.mkstemp(prefix=".ganglion-", suffix=".reserve", dir=folder)
        self._close = weakref.finalize(self, os.close, descriptor)
        Path(name).unlink()
        try:
            _fill(descriptor, size_bytes)
        except BaseException:
            self._close()
            raise

    def release(self) -> None:
        """Give the space back; a second call does nothing."""
        self._close()


def _fill(descriptor: int, size_bytes: int) -> None:
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        for _ in range(0, size_bytes, _PIECE_BYTES):  # a file system that cannot promise space: take it
            os.write(descriptor, bytes(_PIECE_BYTES))
