from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ganglion.supervisor.checkpoints import journal_age_s, journal_place, journal_position
from ganglion.wire.envelope import Head, Position, encode_head
from ganglion.wire.tape import MAGIC, Kind, block
from ganglion.wire.verb import Verb


def act(episode: int, step: int) -> list[bytes]:
    """Return a CALL of a controller."""
    where: Position = (0, 0, episode, 0, step, 0)
    return [b"r/controller/0", encode_head(Head(Verb.CALL, 1, "muscle.act", where, 1000)), b""]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Return the tape of a muscle that began a hundred seconds ago, and has heard two calls."""
    path = tmp_path / "muscle.tape"
    begun_s = time.monotonic() - 100.0
    records = [(Kind.HEARD, begun_s + n, act(7, 117 + n)) for n in range(2)]
    records.append((Kind.SAID, begun_s + 2, bytes(16)))
    path.write_bytes(MAGIC + b"".join(piece for one in records for piece in block([one])))
    return path


@pytest.mark.parametrize("data", [None, b"", MAGIC, b"something else, and more of it", MAGIC + b"\xff" * 40])
def test_without_a_tape_nothing_is_known(tmp_path: Path, data: bytes | None) -> None:
    """No file, an empty one and one that is no tape have no age and no position."""
    path = tmp_path / "x.tape"
    if data is not None:
        path.write_bytes(data)

    assert (0.0, None) == (journal_age_s(path), journal_position(path))
    assert (0.0, None, (0, 0)) == (journal_age_s(None), journal_position(None), journal_place(None))


@pytest.mark.parametrize("planted", ["link", "pipe", "folder"])
def test_what_lies_in_the_place_of_a_tape_is_neither_followed_nor_waited_for(tape: Path, planted: str) -> None:
    """Another user may have planted it: nothing is known then, at once."""
    path = tape.with_name("planted.tape")
    if planted == "link":
        path.symlink_to(tape)
    elif planted == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()

    assert (0.0, None) == (journal_age_s(path), journal_position(path))
