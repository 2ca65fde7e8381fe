from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from fakepeer import MemoryReel

from ganglion.errors import DiskError
from ganglion.limits import EXIT_DIFFERS
from ganglion.peer import journal as module
from ganglion.peer.journal import FileReel, Tape, TapeDiffers
from ganglion.wire.tape import Kind, frames_of, read_records


@pytest.fixture(params=["memory", "file"])
def reel(request: Any, tmp_path: Path) -> Any:
    """Return a reel of each kind."""
    return MemoryReel() if request.param == "memory" else FileReel(tmp_path / "a.tape")


def played(reel: Any) -> list[Any]:
    """Return the payloads on a reel, as frames where they are a message."""
    return [frames_of(r.payload) if r.kind is Kind.HEARD else r.payload for r in read_records(reel.read())]


def test_nothing_is_written_behind_its_end(reel: Any) -> None:
    """Who has lost his place for good leaves his tape as it was then, also where he would begin it anew."""
    tape = Tape(reel)
    tape.note((Kind.HEARD, 1.0, [b"a"]))
    tape.say()
    tape.end()
    tape.note((Kind.HEARD, 3.0, [b"b"]))

    assert tape.say()
    tape.begin_anew([(Kind.BASE, 4.0, (1, None, []))])
    assert [[b"a"]] == played(reel)
    assert Tape(reel).playing


def test_torn_end_is_cut_off(reel: Any) -> None:
    """What follows the last whole record is gone once the successor writes."""
    first = Tape(reel)
    first.note((Kind.HEARD, 1.0, [b"a"]))
    first.say()
    reel.append(b"\x05\x00")
    second = Tape(reel)
    second.take()
    second.finish()
    second.note((Kind.HEARD, 2.0, [b"b"]))
    second.say()

    assert [[b"a"], [b"b"]] == played(reel)


def test_damage_ends_the_process_by_its_status(reel: Any) -> None:
    """A tape that cannot be played ends its process with the status that makes the run begin its phase again."""
    first = Tape(reel)
    for word in (b"aaaa", b"bbbb"):
        first.note((Kind.HEARD, 1.0, [word]))
    first.say()
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
    tape.note((Kind.HEARD, 1.0, [b"x" * 150]))
    assert tape.say()
    tape.note((Kind.HEARD, 1.0, [b"y" * 150]))
    tape.say()
    assert tape.given_up
    tape.note((Kind.HEARD, 1.0, [b"z"]))
    tape.say()

    with pytest.raises(TapeDiffers, match="given up"):
        Tape(reel)


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
