"""The journal of one participant: written by it, replayed by its successor, compacted."""

from __future__ import annotations

import contextlib
import mmap
import os
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from pathlib import Path
from typing import Any, Protocol

import msgpack

from ganglion.errors import DiskError, RemoteProtocolError
from ganglion.limits import EXIT_DIFFERS, JOURNAL_BYTES
from ganglion.wire import journal as wire
from ganglion.wire.conversation import Conversation, Incoming, Notice, Request
from ganglion.wire.envelope import Position, decode_head, encode_head
from ganglion.wire.journal import Entry, Kind, Record
from ganglion.wire.verb import Verb

_HEARD, _SAID = int(Kind.HEARD), int(Kind.SAID)  # of each message: an enum member costs more than an int
_FRAMES = 3  # of a message without blobs
_HANDED_ON = (Verb.CALL, Verb.REPLY)  # verbs whose large blobs other processes receive, too
_mix = zlib.crc32


class JournalDiffers(SystemExit):
    """End a process whose replay differs from its journal; the exit status tells the supervisor."""

    def __init__(self, text: str) -> None:
        super().__init__(EXIT_DIFFERS)
        self.text = text

    def __str__(self) -> str:
        return self.text


class JournalStorage(Protocol):
    """The storage of a journal's bytes."""

    def read(self) -> Any:
        """Return all bytes, as an object that can be sliced and has a length."""

    def cut(self, size: int) -> None:
        """Remove what is behind `size` bytes."""

    def append(self, *pieces: bytes | memoryview) -> None:
        """Append; what is written outlives the process."""

    def replace(self, *pieces: bytes | memoryview) -> None:
        """Replace the journal atomically: a reader finds the old one or the new one."""

    def keep(self, name: str, blob: bytes) -> bool:
        """Keep a large blob, once for all journals; False if another blob has this name."""

    def large(self, name: str) -> bytes:
        """Return a kept blob; RemoteProtocolError: there is none."""

    def forget(self, names: AbstractSet[str]) -> None:
        """Remove all blobs of this journal except these."""


class JournalFile:
    """Keep a journal in a file, which outlives a killed process and is not synced.

    A large blob is a file in the folder `large` beside the journal. Each journal that names the blob has a hard link
    `name.owner`. The next compaction removes a file without further links.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = path.parent / wire.LARGE_FOLDER
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
        """Truncate the file to `size` bytes."""
        os.ftruncate(self._file, size)

    def append(self, *pieces: bytes | memoryview) -> None:
        """Append to the file."""
        try:
            for data in pieces:
                written = os.write(self._file, data)
                while written < len(data):  # a short write is rare
                    written += os.write(self._file, memoryview(data)[written:])
        except OSError as error:
            raise DiskError(self._path, error) from error

    def replace(self, *pieces: bytes | memoryview) -> None:
        """Replace the file atomically."""
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

    def keep(self, name: str, blob: bytes) -> bool:
        """Keep a large blob; the file exists already if another process has received it."""
        shared, own = self._folder / name, self._owned(name)
        try:
            if self._take(shared, own):
                return own.read_bytes() == blob
            fresh = own.with_name(f"{own.name}.new")
            self._folder.mkdir(mode=0o700, exist_ok=True)
            fresh.write_bytes(blob)
            fresh.rename(own)
            with contextlib.suppress(FileExistsError):
                os.link(own, shared)
        except OSError as error:
            raise DiskError(own, error) from error
        return True

    def large(self, name: str) -> bytes:
        """Return a blob, read by this journal's link or from the common file."""
        own = self._owned(name)
        try:
            self._take(self._folder / name, own)
            found = own.read_bytes()
        except OSError as error:
            raise RemoteProtocolError(f"journal: {own}: {error.strerror}") from error
        if wire.large_name(found) != name:
            raise RemoteProtocolError(f"journal: {own}: the blob is damaged")
        return found

    def forget(self, names: AbstractSet[str]) -> None:
        """Remove this journal's links except these, and files without links."""
        ours = {self._owned(name).name for name in names}
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as found:
            files = sorted(found, key=lambda file: "." not in file.name)  # a common file sorts behind the links to it
            for file in files:
                mine = file.name.partition(".")[2] in (self._path.stem, f"{self._path.stem}.new")
                mine = mine and file.name not in ours
                if mine or ("." not in file.name and os.lstat(file.path).st_nlink == 1):
                    Path(file.path).unlink(missing_ok=True)

    def _owned(self, name: str) -> Path:
        return self._folder / f"{name}.{self._path.stem}"

    @staticmethod
    def _take(shared: Path, own: Path) -> bool:
        """Link a blob for this journal; False if the common file is missing."""
        try:
            os.link(shared, own, follow_symlinks=False)
        except FileExistsError:
            return True
        except FileNotFoundError:
            return own.exists()
        return True


class Journal:
    """Record what one participant receives and sends; first replay what a predecessor recorded.

    While `playing` the caller takes records by `peek` and `take`; after the last record the journal writes. Before the
    first message that follows a received one, the digest of the messages sent earlier is recorded.

    Attributes:
        given_up: Whether the journal became too long and is no longer written.
        size_bytes: The length of the journal.
        large_bytes: The length of the large blobs that the journal names.
        note: Take a record of a received message; it is written before the next message is sent.
    """

    def __init__(self, storage: JournalStorage) -> None:
        self._storage = storage
        self._waiting: list[Entry] = []
        self.note = self._waiting.append
        self.given_up = self._ended = False
        self._digest, self._owes = 0, False  # of messages sent; whether the next one records it
        self.large_bytes = 0
        self._large: dict[str, int] = {}  # name -> length
        self._pack, self._append = msgpack.Packer().pack, storage.append
        data = storage.read()
        self.size_bytes = len(wire.MAGIC)
        self._records: Iterator[Record] = wire.read_records(data)
        self._next: Record | None = None
        self.time_s = 0.0  # time of the last record
        self.where = "its beginning"  # the last received request, for errors
        if len(data) < len(wire.MAGIC):
            storage.replace(wire.MAGIC)
            storage.forget(frozenset())
        self._advance()
        self.playing = self._next is not None
        if not self.playing and len(data) > self.size_bytes:  # a part of its first block
            storage.cut(self.size_bytes)

    # -- playing -----------------------------------------------------------------------------------------------------
    def peek(self) -> Kind | None:
        """Return the kind of the next record, None behind the last one."""
        return None if self._next is None else self._next.kind

    def take(self) -> Record:
        """Return the next record, which must exist."""
        found = self._next
        assert found is not None
        self.size_bytes = found.end
        self._owes = found.kind is not Kind.SAID
        if found.kind is Kind.BASE:
            self._digest = 0
        elif found.kind is Kind.HEARD and (names := wire.large_names(found.payload)):
            self._large.update(names)
            self.large_bytes = sum(self._large.values())
        self._advance()
        time_s = found.time_s
        if not self.time_s and self._next is not None:  # WELCOME may be later than the records a compaction kept
            time_s = min(time_s, self._next.time_s)
        self.time_s = max(self.time_s, time_s)
        return found

    def finish(self) -> None:
        """End the replay; write behind the last whole record."""
        assert self._next is None
        self.playing = False
        self._records = iter(())
        self._storage.cut(self.size_bytes)

    def differs(self, text: str) -> JournalDiffers:
        """Return what ends a process that does otherwise than is on its journal."""
        return JournalDiffers(f"nondeterministic: after {self.where} {text} than before it was lost")

    def _advance(self) -> None:
        try:
            self._next = next(self._records, None)
        except RemoteProtocolError as error:
            raise JournalDiffers(f"its journal cannot be replayed: {error}") from error
        if self._next is not None and self._next.kind is Kind.GIVEN_UP:
            raise JournalDiffers(f"its journal was given up: more than {JOURNAL_BYTES} bytes (journal_bytes)")

    @property
    def newest_s(self) -> float:
        """Return the time of the newest record."""
        return self._waiting[-1][1] if self._waiting else self.time_s

    def place(self) -> int | None:
        """Return the journal's length up to here; None if it cannot be split here or was given up."""
        if self.playing:
            return None if self._next is not None and self._next.end == self.size_bytes else self.size_bytes
        return None if self._waiting or self.given_up else self.size_bytes

    # -- writing -----------------------------------------------------------------------------------------------------
    def records(self) -> Iterator[Record]:
        """Yield all records; write nothing meanwhile."""
        self.say()
        return wire.read_records(self._storage.read())

    def say(self, frames: Sequence[bytes] = (), call: str = "") -> bool:
        """Write the noted records, and the digest of a message about to be sent, if given.

        A replay compares the message instead and returns False. A journal that is too long is given up.
        """
        waiting = self._waiting
        if waiting:
            kind, self.time_s, _ = waiting[-1]
            self._owes = self._owes or kind != _SAID
        if frames:
            digest = self._digest
            for frame in frames:
                digest = _mix(frame, digest)
            if not self._owes:
                self._digest = digest
            elif self._next is None:
                self._owes, self._digest = False, 0
                waiting.append((_SAID, self.time_s, digest))
            else:
                if self._next.kind is not Kind.SAID:
                    raise self.differs(f"it says {call}, and says or waits for something else")
                if self.take().payload != digest:
                    raise self.differs(f"it says {call} otherwise")
                self._digest = 0
        if self.playing:
            return False
        if not waiting:
            return True
        usual = self.size_bytes > len(wire.MAGIC)  # the first record is readable without the others
        for kind, _, what in waiting:
            if kind == _HEARD and len(what) > _FRAMES:
                usual = False
        if self.given_up or self._ended:
            waiting.clear()
            return True
        if usual:
            payload = self._pack(waiting)
            size, check = len(payload), zlib.crc32(payload)
            data: list[bytes | memoryview] = [wire.HEAD.pack(size, check, size ^ check ^ wire.ONES) + payload]
        else:
            data = self._each(waiting)
        waiting.clear()
        self.size_bytes += sum(map(len, data))
        if self.size_bytes + self.large_bytes <= JOURNAL_BYTES:
            self._append(*data)
        else:
            self._give_up()
        return True

    def _give_up(self) -> None:
        """Replace all records by one: the journal was given up."""
        self.given_up, self.large_bytes = True, 0
        self._large.clear()
        self._storage.replace(wire.MAGIC, *wire.block([(Kind.GIVEN_UP, 0.0, None)]))
        self._storage.forget(frozenset())

    def end(self) -> None:
        """Stop writing: no successor repeats how the process ends."""
        self._ended = True

    def beginning(self, place: int) -> bytes:
        """Return the journal's bytes up to a place."""
        return bytes(self._storage.read()[:place])

    def begin_anew(self, records: Sequence[Entry], kept: bytes = wire.MAGIC) -> None:
        """Replace the journal by the kept begin and these records; noted records are dropped."""
        self._waiting.clear()
        if self._ended:
            return
        self._large.clear()
        for one in wire.read_records(kept):
            if one.kind is Kind.HEARD:
                self._large.update(wire.large_names(one.payload))
        data = [kept, *self._each(records)]
        self.given_up, self._owes, self._digest = False, True, 0
        self.size_bytes = sum(map(len, data))
        self._storage.replace(*data)
        self._storage.forget(self._large.keys())

    def frames(self, payload: Any) -> list[bytes]:
        """Return the frames of a received message; JournalDiffers: a blob is missing."""
        try:
            return wire.frames_of(payload, self._storage.large)
        except RemoteProtocolError as error:
            raise JournalDiffers(f"its journal cannot be replayed: {error}") from error

    def _each(self, records: Sequence[Entry]) -> list[bytes | memoryview]:
        """Return a block for each record, so that records can be read one by one.

        Large blobs of calls and replies are kept as files, since other processes receive them too.
        """
        data: list[bytes | memoryview] = []
        for kind, time_s, what in records:
            if kind == _HEARD and len(what) > _FRAMES and what[1][1] in _HANDED_ON:
                what = [*map(self._kept, what)]
            data += wire.block([(kind, time_s, what)])
        self.large_bytes = sum(self._large.values())
        return data

    def _kept(self, frame: bytes) -> bytes | str:
        if len(frame) <= wire.LARGE_BYTES:
            return frame
        name = wire.large_name(frame)
        if not self._storage.keep(name, frame):
            return frame
        self._large[name] = len(frame)
        return name


class Recorded(ABC):
    """Keep the journal of a participant; without a journal the methods do nothing.

    Attributes:
        takes_attributes: Whether snapshots may be taken of objects without `save_state`.
    """

    def __init__(self, journal: Journal | None) -> None:
        self.takes_attributes = True
        self._journal = journal
        self._conversation = Conversation()
        self._inbox: deque[Incoming] = deque()
        self._welcomed: Sequence[bytes] = ()  # the frames of WELCOME, with which every journal begins
        self._base: Any = None
        self._place: int | None = None  # a compacted journal keeps the records up to here before its state
        self._placed_s = 0.0

    @abstractmethod
    def clock(self) -> float:
        """Return monotonic seconds; while a journal is replayed, those of its records."""

    @abstractmethod
    def flush_journal(self) -> None:
        """Write the noted records; a journal that is then too long is given up, with a warning."""

    # -- states ------------------------------------------------------------------------------------------------------
    @property
    def playing(self) -> bool:
        """Return whether the journal of a predecessor is being replayed; nothing is sent then."""
        return self._journal is not None and self._journal.playing

    @property
    def played(self) -> bool:
        """Return whether a journal was replayed to its end, before the participant joins the bus."""
        journal = self._journal
        return journal is not None and journal.playing and journal.peek() is None and not self._inbox

    @property
    def recorded(self) -> bool:
        """Return whether there is a journal."""
        return self._journal is not None

    @property
    def journals(self) -> bool:
        """Return whether a journal is being written."""
        return self._journal is not None and not self._journal.playing

    @property
    def journal_bytes(self) -> int:
        """Return the bytes of the journal being written, with its large blobs; 0 without one."""
        journal = self._journal
        return 0 if journal is None or journal.playing else journal.size_bytes + journal.large_bytes

    def is_short(self, until_bytes: float, until_s: float) -> bool:
        """Return whether the journal needs no compaction: none, or a marked one within these bounds."""
        journal = self._journal
        if journal is None:
            return True
        written = not journal.playing and self._place is not None
        size_bytes = journal.size_bytes + journal.large_bytes
        return written and size_bytes <= until_bytes and journal.time_s < until_s

    @property
    def idle(self) -> bool:
        """Return whether no call is open and at most one request is unanswered."""
        return not self._inbox and self._conversation.idle

    @property
    def calm(self) -> bool:
        """Return whether no call is open and no request is unanswered."""
        return not self._inbox and self._conversation.calm

    def differs(self, text: str) -> JournalDiffers:
        """Return the exception that ends a process whose replay differs from its journal."""
        assert self._journal is not None
        return self._journal.differs(text)

    # -- playing -----------------------------------------------------------------------------------------------------
    def take_base(self) -> Any:
        """Return the state with which a predecessor's compacted journal begins, once; None if there is none."""
        found, self._base = self._base, None
        return found

    def _play(self, journal: Journal, kind: Kind, what: str) -> Record:
        """Take the next record, which must be of this kind."""
        found = journal.peek()
        if found is not kind:
            other = "says less" if found is Kind.SAID else "says or waits for something else"
            raise journal.differs(f"it {what}, and {other}")
        return journal.take()

    def _play_base(self, journal: Journal) -> Any:
        """Take the state that the journal has here; None if it has none."""
        if not journal.playing or journal.peek() is not Kind.BASE:
            return None
        serial, state, answers = wire.read_base(journal.take().payload)
        self._conversation.go_on(serial, answers)
        return state

    def _hear_again(self, journal: Journal, awaited: AbstractSet[int] | None) -> list[Incoming] | None:
        """Return the message that the predecessor received here; None at the end of the journal."""
        kind = journal.peek()
        if kind is None:
            return None
        if kind is Kind.SAID:
            raise journal.differs("it says less")
        if kind is Kind.BASE:
            raise journal.differs("it does more")
        if kind is Kind.TICK and awaited is not None:
            raise journal.differs("it waits for an answer")
        one = journal.take()
        if kind is Kind.TICK:
            return []
        if kind is Kind.LATE:
            late = self._conversation.open(wire.read_serials(one.payload))
            return list(self._conversation.give_up(late, journal.time_s))
        incoming, _ = self._conversation.receive(journal.frames(one.payload), journal.time_s)
        for found in incoming:
            if type(found) is Request:
                place = "" if found.head.position is None else _words(found.head.position)
                journal.where = f"{found.head.call}{place}"
        return incoming

    # -- beginning anew ----------------------------------------------------------------------------------------------
    def state_of_predecessor(self, anew: bool = False) -> Any:
        """Return the state that a predecessor saved here; None without one.

        The first call with nothing open, or a call with `anew`, marks this place: a journal that `begin_journal(None,
        state)` compacts later keeps its records up to here, then the state.
        """
        journal = self._journal
        if journal is None:
            return None
        place, placed_s = journal.place(), journal.time_s
        state = self._play_base(journal)
        if state is not None:
            self._place, self._placed_s = place, placed_s
        elif anew or self._place is None:
            self._place = None
            if self.idle:
                self.flush_journal()
                self._place, self._placed_s = journal.place(), self.clock()
        return state

    def begin_journal(self, heard: Sequence[tuple[Request | Notice, int | None]] | None, state: Any = None) -> bool:
        """Replace the records by a state and these requests, which a successor replays; return whether that was done.

        Each request comes with the digest of its reply, None without a reply; `take_base` returns the state. With
        `heard` None the records up to the place that `state_of_predecessor` marked are kept, and that method
        returns the state. Nothing happens without a journal, or while something else is open.
        """
        journal, conversation = self._journal, self._conversation
        if journal is None or journal.playing or not self.idle:
            return False
        now_s = self.clock()
        again = {(request.peer, request.head.serial, request.head.call) for request, _ in heard or ()}
        answers = [one for one in conversation.remembered() if tuple(one[:3]) not in again]
        base: Entry = (Kind.BASE, now_s, (conversation.serial, state, answers))
        if heard is None:
            if self._place is None or journal.given_up:
                return False
            kept = journal.beginning(self._place)
            first = next(wire.read_records(kept))
            # The time of the first record tells how long the replay of a journal takes.
            welcome: Entry = (Kind.HEARD, now_s - max(0.0, self._placed_s - first.time_s), self._welcomed)
            journal.begin_anew([base], b"".join((wire.MAGIC, *wire.block([welcome]), kept[first.end :])))
            return True
        records: list[Entry] = [(Kind.HEARD, now_s, self._welcomed), base]
        for request, answer in heard:
            frames = [request.peer.encode(), encode_head(request.head), request.body, *request.blobs]
            records.append((Kind.HEARD, now_s, frames))
            if answer is not None:
                records.append((Kind.SAID, now_s, answer))
        self._place = None
        journal.begin_anew(records)
        return True

    def answer_digest(self, request: Request) -> int | None:
        """Return the digest of the reply to a request; None without a reply, or when it is forgotten."""
        answer = None if self._journal is None else self._conversation.answered(request)
        return None if answer is None else reduce(lambda digest, frame: _mix(frame, digest), answer, 0)

    def told_in_journal(self) -> Iterator[Notice]:
        """Yield the notices in the journal, one by one: together they may be larger than memory."""
        if self._journal is None:
            return
        for record in self._journal.records():
            if record.kind is Kind.HEARD:
                peer, head, *rest = self._journal.frames(record.payload)
                found = decode_head(head)
                if found.verb is Verb.TELL:
                    yield Notice(peer.decode(), found, rest[0] if rest else b"", tuple(rest[1:]))


def _words(position: Position) -> str:
    return f" (phase {position[0]}, worker {position[1]}, episode {position[2]}, step {position[4]})"
