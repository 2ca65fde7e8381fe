from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from fakepeer import MemoryReel

from ganglion.errors import DiskError
from ganglion.limits import EXIT_DIFFERS
from ganglion.peer import tape as module
from ganglion.peer.tape import FileReel, Tape, TapeDiffers
from ganglion.wire.tape import MAGIC, Kind, base_record, frames_of, read_records


@pytest.fixture(params=["memory", "file"])
def reel(request: Any, tmp_path: Path) -> Any:
    """Return a reel of each kind."""
    return MemoryReel() if request.param == "memory" else FileReel(tmp_path / "a.tape")


def played(reel: Any) -> list[Any]:
    """Return the payloads on a reel, as frames where they are a message."""
    return [frames_of(r.payload) if r.kind is Kind.HEARD else r.payload for r in read_records(reel.read())]


def test_new_tape_is_not_played(reel: Any) -> None:
    """Where there was nothing a process begins, and writes."""
    tape = Tape(reel)

    assert not tape.playing
    assert tape.peek() is None


def test_nothing_is_written_before_it_is_flushed(reel: Any) -> None:
    """What was noted is there after `flush`, all of it at once."""
    tape = Tape(reel)
    tape.heard(1.0, [b"a", b"b"])
    tape.said(2.0, b"d" * 16)
    assert not played(reel)
    tape.flush()

    assert [[b"a", b"b"], b"d" * 16] == played(reel)


def test_nothing_is_written_behind_its_end(reel: Any) -> None:
    """Who has lost his place for good leaves his tape as it was then, also where he would begin it anew."""
    tape = Tape(reel)
    tape.said(1.0, b"d" * 16)
    tape.flush()
    tape.end()
    tape.said(2.0, b"e" * 16)
    tape.heard(3.0, [b"a"])

    assert tape.flush()
    tape.begin_anew([base_record(4.0, 1, None, [])])
    assert [b"d" * 16] == played(reel)
    assert Tape(reel).playing


def test_the_first_record_can_be_read_alone(reel: Any) -> None:
    """Who only wants to know when a tape was begun needs not read the large message behind the first one."""
    tape = Tape(reel)
    tape.heard(1.0, [b"a"])
    tape.heard(2.0, [bytes(100_000)])
    tape.flush()

    assert [1.0] == [record.time_s for record in read_records(reel.read()[:1000])]


def test_successor_plays_then_writes_behind(reel: Any) -> None:
    """A second tape on the reel gives the records one by one, then goes on writing behind them."""
    first = Tape(reel)
    first.heard(1.0, [b"a"])
    first.flush()
    second = Tape(reel)
    assert second.playing
    assert Kind.HEARD is second.peek()
    assert [b"a"] == frames_of(second.take().payload)
    assert 1.0 == second.time_s
    second.finish()
    second.heard(2.0, [b"b"])
    second.flush()

    assert not second.playing
    assert [[b"a"], [b"b"]] == played(reel)


def test_torn_end_is_cut_off(reel: Any) -> None:
    """What follows the last whole record is gone once the successor writes."""
    first = Tape(reel)
    first.heard(1.0, [b"a"])
    first.flush()
    reel.append(b"\x05\x00")
    second = Tape(reel)
    second.take()
    second.finish()
    second.heard(2.0, [b"b"])
    second.flush()

    assert [[b"a"], [b"b"]] == played(reel)


def test_begun_anew(reel: Any) -> None:
    """A tape that is begun anew holds these records and none from before, noted or written."""
    tape = Tape(reel)
    tape.heard(1.0, [b"a"])
    tape.flush()
    tape.heard(2.0, [b"b"])
    tape.begin_anew([base_record(3.0, 7, None)])
    tape.heard(4.0, [b"c"])
    tape.flush()

    assert [Kind.BASE, Kind.HEARD] == [record.kind for record in read_records(reel.read())]
    assert len(bytes(reel.read())) == tape.size_bytes


def test_damage_ends_the_process_by_its_status(reel: Any) -> None:
    """A tape that cannot be played ends its process with the status that makes the run begin its phase again."""
    first = Tape(reel)
    for word in (b"aaaa", b"bbbb"):
        first.heard(1.0, [word])
    first.flush()
    data = bytearray(reel.read())
    data[data.index(b"aaaa")] ^= 1
    reel.replace(bytes(data))

    with pytest.raises(TapeDiffers, match="damaged") as caught:
        Tape(reel)
    assert EXIT_DIFFERS == caught.value.code


def test_too_long_a_tape_is_given_up(reel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above its bound a tape tells so once, nothing more is written, and a successor is told."""
    monkeypatch.setattr(module, "TAPE_BYTES", 200)
    tape = Tape(reel)
    tape.heard(1.0, [b"x" * 150])
    assert tape.flush()
    tape.heard(1.0, [b"y" * 150])
    assert not tape.flush()
    tape.heard(1.0, [b"z"])
    assert tape.flush()

    with pytest.raises(TapeDiffers, match="given up"):
        Tape(reel)


def test_given_up_tape_may_be_begun_anew(reel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the next beginning a tape that was given up is written again."""
    monkeypatch.setattr(module, "TAPE_BYTES", 100)
    tape = Tape(reel)
    tape.heard(1.0, [b"x" * 150])
    tape.flush()
    tape.begin_anew([base_record(3.0, 7, None)])

    assert Tape(reel).playing


def test_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """A tape holds what one agent saw: nobody else may read the file, also after it was begun anew."""
    path = tmp_path / "a.tape"
    tape = Tape(FileReel(path))
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    tape.begin_anew([])

    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert MAGIC == path.read_bytes()


def test_link_is_no_tape(tmp_path: Path) -> None:
    """A link in the place of the file is not followed."""
    (tmp_path / "a.tape").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(DiskError, match=r"a\.tape: cannot be written: .*symbolic link"):
        FileReel(tmp_path / "a.tape")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_disk_is_named_with_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """What cannot be written is told by file, cause, free space and cure, not as an exception of an author."""
    reel = FileReel(tmp_path / "a.tape")

    def full(file: int, data: bytes) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(module.os, "write", full)
    text = rf"a\.tape: cannot be written: {os.strerror(code)} \(.* are free\); .*, then `ganglion resume`"
    with pytest.raises(DiskError, match=text):
        reel.append(b"abc")
    with pytest.raises(DiskError, match=text):
        reel.replace(b"abc")


def test_what_is_written_can_be_read(reel: Any) -> None:
    """Who writes a tape reads what is on it, also what was only noted; then it goes on."""
    tape = Tape(reel)
    tape.heard(1.0, [b"a"])
    found = [record.kind for record in tape.records()]
    tape.tick(2.0)

    assert ([Kind.HEARD], [Kind.HEARD, Kind.TICK]) == (found, [record.kind for record in tape.records()])
