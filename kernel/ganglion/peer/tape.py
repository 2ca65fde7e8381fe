"""The tape of one participant: a file that it writes while it lives, and from which its successor begins."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from ganglion.errors import DiskError, RemoteProtocolError
from ganglion.limits import EXIT_DIFFERS, TAPE_BYTES
from ganglion.wire import tape as wire
from ganglion.wire.tape import Entry, Kind, Record

_HEARD, _SAID = int(Kind.HEARD), int(Kind.SAID)  # they are noted for each message


class TapeDiffers(SystemExit):
    """End a process that does not do again what its predecessor did; the exit status says so to the supervisor."""

    def __init__(self, text: str) -> None:
        super().__init__(EXIT_DIFFERS)
        self.text = text

    def __str__(self) -> str:
        return self.text


class Reel(Protocol):
    """Where a tape's bytes are."""

    def read(self) -> Any:
        """Return all of it: something with slices and a length."""

    def cut(self, size: int) -> None:
        """Forget what is behind `size`."""

    def append(self, *pieces: bytes | memoryview) -> None:
        """Write at its end; what is written survives the process."""

    def replace(self, *pieces: bytes | memoryview) -> None:
        """Begin it anew, at once: there is the old one or the new one, never a part."""


class FileReel:
    """Keep a tape in a file, which outlives a process that is killed; not synced to the disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._open(path, 0)

    @staticmethod
    def _open(path: Path, flags: int) -> int:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
        except OSError as error:
            raise DiskError(path, error) from error

    def read(self) -> Any:
        """Return the file's bytes, mapped."""
        size = os.fstat(self._file).st_size
        return mmap.mmap(self._file, size, access=mmap.ACCESS_READ) if size else b""

    def cut(self, size: int) -> None:
        """Forget what is behind `size`."""
        os.ftruncate(self._file, size)

    def append(self, *pieces: bytes | memoryview) -> None:
        """Write at the end."""
        try:
            for data in pieces:
                written = os.write(self._file, data)
                while written < len(data):  # the system takes all of it but in rare cases
                    written += os.write(self._file, memoryview(data)[written:])
        except OSError as error:
            raise DiskError(self._path, error) from error

    def replace(self, *pieces: bytes | memoryview) -> None:
        """Begin a new file in the place of this one."""
        fresh = self._path.with_suffix(".new")
        try:
            fresh.unlink(missing_ok=True)
            file = self._open(fresh, os.O_EXCL)
            former, self._file = self._file, file
            self.append(*pieces)
            fresh.rename(self._path)
            os.close(former)
        except OSError as error:
            raise DiskError(fresh, error) from error


class Tape:
    """Write down what one participant hears and says; first, play what a predecessor wrote.

    While `playing` the caller takes the records by `peek` and `take`; behind the last one it writes.
    """

    def __init__(self, reel: Reel) -> None:
        self._reel = reel
        self._waiting: list[Entry] = []
        self._given_up = self._ended = False
        data = reel.read()
        self._size = len(wire.MAGIC)
        self._records: Iterator[Record] = wire.read_records(data)
        self._next: Record | None = None
        self.time_s = 0.0  # of the last record that was taken
        self.where = "its beginning"  # what was heard last, in words
        if len(data) < len(wire.MAGIC):
            reel.replace(wire.MAGIC)
        self._advance()
        self.playing = self._next is not None

    # -- playing ------------------------------------------------------------------------------------------------------
    def peek(self) -> Kind | None:
        """Return the kind of the next record, None behind the last one."""
        return None if self._next is None else self._next.kind

    def take(self) -> Record:
        """Take the next record; there is one."""
        found = self._next
        assert found is not None
        self.time_s = max(self.time_s, found.time_s)
        self._size = found.end
        self._advance()
        return found

    def finish(self) -> None:
        """Go over to writing, behind the last whole record."""
        assert self._next is None
        self.playing = False
        self._records = iter(())
        self._reel.cut(self._size)

    def differs(self, text: str) -> TapeDiffers:
        """Return what ends a process that does otherwise than is on its tape."""
        return TapeDiffers(f"nondeterministic: after {self.where} {text} than before it was lost")

    def _advance(self) -> None:
        try:
            self._next = next(self._records, None)
        except RemoteProtocolError as error:
            raise TapeDiffers(f"its tape cannot be played: {error}") from error
        if self._next is not None and self._next.kind is Kind.GIVEN_UP:
            raise TapeDiffers(f"its tape was given up: more than {TAPE_BYTES} bytes (tape_bytes)")

    def place(self) -> int | None:
        """Return how long it is up to here; None where it cannot be parted here, or was given up."""
        if self.playing:
            return None if self._next is not None and self._next.end == self._size else self._size
        return None if self._waiting or self._given_up else self._size

    # -- writing ------------------------------------------------------------------------------------------------------
    @property
    def given_up(self) -> bool:
        """Say whether it became too long, and is not written any more."""
        return self._given_up

    @property
    def size_bytes(self) -> int:
        """Return how long it is."""
        return self._size

    def records(self) -> Iterator[Record]:
        """Yield what is on it, while nothing is being written."""
        self.flush()
        return wire.read_records(self._reel.read())

    def heard(self, time_s: float, frames: Sequence[bytes]) -> None:
        """Note a message that is going to be acted on."""
        self._waiting.append((_HEARD, time_s, frames))

    def tick(self, time_s: float) -> None:
        """Note that the clock was looked at."""
        self._waiting.append(wire.record(Kind.TICK, time_s))

    def late(self, time_s: float, serials: Sequence[int]) -> None:
        """Note calls whose deadline has passed."""
        self._waiting.append(wire.late_record(time_s, serials))

    def said(self, time_s: float, digest: bytes) -> None:
        """Note a message that is going to be sent."""
        self._waiting.append((_SAID, time_s, digest))

    def flush(self) -> bool:
        """Write what was noted, so that what follows from it may leave; False if that was too much for a tape."""
        if not self._waiting:
            return True
        at_once = self._size > len(wire.MAGIC)  # the first record is one that can be read without the others
        data = wire.block(self._waiting) if at_once else _each(self._waiting)
        self._waiting.clear()
        if self._given_up or self._ended:
            return True
        self._size += sum(map(len, data))
        if self._size > TAPE_BYTES:
            self._given_up = True
            self._reel.replace(wire.MAGIC, *wire.block([wire.record(Kind.GIVEN_UP, 0.0)]))
            return False
        self._reel.append(*data)
        return True

    def end(self) -> None:
        """Write no more: what its writer does from now on is how it ends, and nothing that is to be done again."""
        self._ended = True

    def beginning(self, place: int) -> bytes:
        """Return what is on it up to a place."""
        return bytes(self._reel.read()[:place])

    def begin_anew(self, records: Sequence[Entry], kept: bytes = wire.MAGIC) -> None:
        """Write a new tape with these records, behind what is kept, in the place of what was noted so far."""
        self._waiting.clear()
        if self._ended:
            return
        data = [kept, *_each(records)]
        self._given_up = False
        self._size = sum(map(len, data))
        self._reel.replace(*data)


def _each(records: Sequence[Entry]) -> list[bytes | memoryview]:
    """Return these records in a block each: so they can be read one by one, however large they are."""
    return [piece for one in records for piece in wire.block([one])]
