from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from fakepeer import MemoryJournalFile

from ganglion.errors import AuthorError, DiskError, RemoteProtocolError
from ganglion.limits import EXIT_DIFFERS
from ganglion.peer.agent.decision import Notes
from ganglion.peer.author import ToleratedErrors
from ganglion.peer.journal import write as module
from ganglion.peer.journal.write import Journal, JournalDiffers, JournalFile, Recorded
from ganglion.sdk import Brain
from ganglion.wire.conversation import Request
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.journal import Kind, frames_of, large_name, read_records
from ganglion.wire.verb import Verb


@pytest.fixture(params=["memory", "file"])
def storage(request: Any, tmp_path: Path) -> Any:
    """Return a storage of each kind."""
    return MemoryJournalFile() if request.param == "memory" else JournalFile(tmp_path / "a.journal")


def played(storage: Any) -> list[Any]:
    """Return the payloads on a storage, as frames where they are a message."""
    return [frames_of(r.payload) if r.kind is Kind.HEARD else r.payload for r in read_records(storage.read())]


def test_nothing_is_written_behind_its_end(storage: Any) -> None:
    """Who has lost his place for good leaves his journal as it was then, also where he would begin it anew."""
    journal = Journal(storage)
    journal.note((Kind.HEARD, 1.0, [b"a"]))
    journal.say()
    journal.end()
    journal.note((Kind.HEARD, 3.0, [b"b"]))

    assert journal.say()
    journal.begin_anew([(Kind.BASE, 4.0, (1, None, []))])
    assert [[b"a"]] == played(storage)
    assert Journal(storage).playing


def test_a_replay_has_the_times_at_which_its_predecessor_lived(storage: Any) -> None:
    """It knows the time of the newest record, as who wrote it; the first record of a compacted journal is later."""
    journal, lived = Journal(storage), []
    journal.begin_anew([(Kind.HEARD, 5.0, [b"welcome"])])
    for time_s in (1.0, 2.0):
        journal.note((Kind.HEARD, time_s, [b"a"]))
        lived.append(journal.newest_s)
        journal.say()
        lived.append(journal.newest_s)
    successor = Journal(storage)
    replayed = [(successor.take(), successor.newest_s)[1] for _ in range(3)]

    assert ([1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0]) == (lived, replayed)


def test_a_part_of_the_first_block_is_cut_off(storage: Any) -> None:
    """A process that was killed in its first write leaves a journal without records, which its successor begins."""
    Journal(storage)
    storage.append(b"\x05\x00")
    second = Journal(storage)
    assert not second.playing
    second.note((Kind.HEARD, 2.0, [b"b"]))
    second.say()

    assert [[b"b"]] == played(storage)


def test_torn_end_is_cut_off(storage: Any) -> None:
    """What follows the last whole record is gone once the successor writes."""
    first = Journal(storage)
    first.note((Kind.HEARD, 1.0, [b"a"]))
    first.say()
    storage.append(b"\x05\x00")
    second = Journal(storage)
    second.take()
    second.finish()
    second.note((Kind.HEARD, 2.0, [b"b"]))
    second.say()

    assert [[b"a"], [b"b"]] == played(storage)


def test_damage_ends_the_process_by_its_status(storage: Any) -> None:
    """A journal that cannot be replayed ends its process with the status that makes the run begin its phase again."""
    first = Journal(storage)
    for word in (b"aaaa", b"bbbb"):
        first.note((Kind.HEARD, 1.0, [word]))
    first.say()
    data = bytearray(storage.read())
    data[data.index(b"aaaa")] ^= 1
    storage.replace(bytes(data))

    with pytest.raises(JournalDiffers, match="damaged") as caught:
        Journal(storage)
    assert EXIT_DIFFERS == caught.value.code


def test_too_long_a_journal_is_given_up(storage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above its bound a journal tells so once, nothing more is written, and a successor is told."""
    monkeypatch.setattr(module, "JOURNAL_BYTES", 200)
    journal = Journal(storage)
    journal.note((Kind.HEARD, 1.0, [b"x" * 150]))
    assert journal.say()
    journal.note((Kind.HEARD, 1.0, [b"y" * 150]))
    journal.say()
    assert journal.given_up
    journal.note((Kind.HEARD, 1.0, [b"z"]))
    journal.say()

    with pytest.raises(JournalDiffers, match="given up"):
        Journal(storage)


def test_link_is_no_journal(tmp_path: Path) -> None:
    """A link in the place of the file is not followed."""
    (tmp_path / "a.journal").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(DiskError, match=r"a\.journal: cannot be written: .*symbolic link"):
        JournalFile(tmp_path / "a.journal")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_disk_is_named_with_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """What cannot be written is told by file, cause, free space and cure, not as an exception of an author."""
    storage = JournalFile(tmp_path / "a.journal")

    def full(file: int, data: bytes) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(module.os, "write", full)
    text = rf"a\.journal: cannot be written: {os.strerror(code)} \(.* are free\); (free|make) "
    with pytest.raises(DiskError, match=text):
        storage.append(b"abc")
    with pytest.raises(DiskError, match=text):
        storage.replace(b"abc")


def names(folder: Path) -> list[str]:
    """Return the files with large blobs."""
    return sorted(file.name for file in (folder / "large").iterdir())


def test_a_large_blob_is_written_once_and_goes_with_the_last_journal_that_names_it(tmp_path: Path) -> None:
    """Journals of one folder share a blob; whoever begins anew forgets his own, and what nobody names is removed."""
    blob, other = bytes(100_000), bytes(70_000)
    call = encode_head(Head(Verb.CALL, 7, "muscle.act"))
    storages = [JournalFile(tmp_path / f"muscle.{name}.journal") for name in "ab"]
    first, second = map(Journal, storages)
    for journal in (first, second):
        journal.note((Kind.HEARD, 1.0, [b"r/x", call, b"body", blob, b"small"]))
        journal.say()
    first.note((Kind.HEARD, 1.0, [b"r/x", call, b"body", other]))
    first.say()
    shared, sizes = large_name(blob), [journal.size_bytes for journal in (first, second)]
    (tmp_path / "large" / f"{shared}.muscle.a.new").touch()  # whose writer was killed
    heir = Journal(JournalFile(tmp_path / "muscle.b.journal"))

    assert 6 == len(names(tmp_path))
    assert max(sizes) < 1000
    assert [len(blob) + len(other), len(blob)] == [first.large_bytes, second.large_bytes]
    assert [b"r/x", call, b"body", blob, b"small"] == heir.frames(heir.take().payload)
    assert len(blob) == heir.large_bytes

    first.begin_anew([(Kind.BASE, 2.0, (1, None, []))])
    assert [shared, f"{shared}.muscle.b"] == names(tmp_path)
    second.begin_anew([(Kind.BASE, 2.0, (1, None, []))])
    assert [] == names(tmp_path)
    with pytest.raises(JournalDiffers, match=r"large/.*\.muscle\.b: No such file"):
        heir.frames([b"r/x", call, b"body", shared])


def test_blobs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """A blob whose name another one has is written into the journal; one that was changed on the disk is refused."""
    storage, blob = JournalFile(tmp_path / "a.journal"), bytes(100_000)
    name = large_name(blob)

    assert storage.keep(name, blob)
    assert not storage.keep(name, blob[:-1] + b"x")
    (tmp_path / "large" / name).write_bytes(b"x")
    with pytest.raises(RemoteProtocolError, match="damaged"):
        storage.large(name)


# -- comparison -------------------------------------------------------------------------------------------------------
HEARD = [b"r/controller/0", encode_head(Head(Verb.CALL, 7, "muscle.act", (0, 1, 2, 0, 4, 0))), b"body"]


class Writer(Recorded):
    """Be who writes on a storage, or plays it."""

    def __init__(self, storage: Any) -> None:
        self.storage, self.journal = storage, Journal(storage)
        super().__init__(self.journal)

    def clock(self) -> float:
        return 0.0

    def flush_journal(self) -> None:
        self.journal.say()

    def hear_again(self, awaited: Any) -> Any:
        return self._hear_again(self.journal, awaited)

    def play(self, kind: Kind, what: str) -> Any:
        return self._play(self.journal, kind, what)


def successors(*said: tuple[Kind, Any, list[list[bytes]]], count: int = 1) -> list[Writer]:
    """Return who plays a journal of one that heard these messages, each with what it said behind it."""
    storage = MemoryJournalFile()
    first = Writer(storage)
    for kind, payload, words in said:
        first.journal.note((kind, 1.0, payload))
        for word in words:
            first.journal.say(word, "muscle.act")
        first.journal.say()
    return [Writer(storage) for _ in range(count)]


def test_a_successor_hears_and_compares() -> None:
    """What was heard comes again as it was; what is said is compared, and is new behind the end."""
    second, third = successors((Kind.HEARD, HEARD, [[b"x", b"said"]]), count=2)
    (heard,) = second.hear_again(None) or [None]

    assert isinstance(heard, Request)
    assert ("muscle.act", b"body") == (heard.head.call, heard.body)
    assert "muscle.act (phase 0, worker 1, episode 2, step 4)" == second.journal.where
    assert not second.journal.say([b"x", b"said"], "muscle.act")
    assert second.hear_again(None) is None
    third.hear_again(None)
    with pytest.raises(JournalDiffers, match=r"it says muscle\.act otherwise"):
        third.journal.say([b"x", b"other"], "muscle.act")


def test_what_is_said_between_two_messages_is_compared_with_the_next() -> None:
    """What was said beside the first word after a message is compared with the first word after the next one."""
    [second] = successors(*((Kind.HEARD, HEARD, [[word], [word, b"too"]]) for word in (b"a", b"b")))
    second.hear_again(None)
    second.journal.say([b"a"], "x")
    second.journal.say([b"a", b"others"], "x")
    second.hear_again(None)

    with pytest.raises(JournalDiffers, match="it says x otherwise"):
        second.journal.say([b"b"], "x")


def test_behind_the_end_nothing_leaves_before_the_bus_is_heard_again() -> None:
    """What is said after the last message that was heard may have left: it is noted, and not sent."""
    [second] = successors((Kind.HEARD, HEARD, []))
    second.hear_again(None)

    assert not second.journal.say([b"x"], "muscle.act")
    second.journal.finish()
    second.journal.say()
    third = Writer(second.storage)
    third.hear_again(None)
    with pytest.raises(JournalDiffers, match="otherwise"):
        third.journal.say([b"y"], "muscle.act")


def test_what_waits_for_something_else_differs() -> None:
    """Who hears where it spoke, or waits for an answer where it was idle, does not do the same again."""
    [second] = successors((Kind.TICK, None, [[b"x"]]))

    with pytest.raises(JournalDiffers, match="it waits for an answer"):
        second.hear_again(frozenset({3}))
    assert [] == second.hear_again(None)
    with pytest.raises(JournalDiffers, match="it says less"):
        second.hear_again(None)
    with pytest.raises(JournalDiffers, match="it hears WELCOME, and says less"):
        second.play(Kind.HEARD, "hears WELCOME")


def test_who_says_more_differs() -> None:
    """Who speaks where its predecessor heard something else first does not do the same again."""
    [second] = successors((Kind.HEARD, HEARD, []), (Kind.HEARD, HEARD, []))
    second.hear_again(None)

    with pytest.raises(JournalDiffers, match="it says x, and says or waits for something else"):
        second.journal.say([b"x"], "x")


# -- notes ------------------------------------------------------------------------------------------------------------
class FakeBrain(Brain):
    """Note what a test says."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Think of nothing."""


def test_a_successor_has_them() -> None:
    """They are part of a checkpoint; what is left at the end is told by itself, once."""
    tolerated_errors = ToleratedErrors(lambda: None, "r")
    notes, brain, other = Notes(tolerated_errors), FakeBrain(), Notes(tolerated_errors)
    brain.add_statistics("loss", 1.0)
    tolerated_errors.take("brain:a", "thinking", AuthorError("no"))
    notes.take(2, brain)
    other.restore(notes.export())

    assert [{"issuer": "brain:a", "hook": "thinking", "reason": "AuthorError: no"}] == other.left()
    assert other.left() is None
    assert (None, {"brain.loss": 1.0}) == other.pop(2)
    assert notes.pop(2)[0] is not None
