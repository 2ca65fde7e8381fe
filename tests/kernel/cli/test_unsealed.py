from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.journal import MAGIC, Kind, block
from ganglion.wire.messages import RecordBatch
from ganglion.wire.verb import Verb

Command = Callable[..., tuple[int, str, str]]
pack = msgpack.packb
HEAD = encode_head(Head(Verb.TELL, 0, "record.batch"))
WRITER = b"demo-1/controller/0"


def _rows(episode: int, *steps: int) -> list[Any]:
    rows = [[n, n, n, None, pack([n / 2]), pack([n]), pack([1.0]), False, False] for n in steps]
    return ["steps", 0, "train", 0, "grid", episode, rows]


def _heard(number: int, *records: list[Any]) -> Any:
    """Return a batch as it is in a journal."""
    body = codec_of(RecordBatch).encode(RecordBatch(number, list(records)))
    return (Kind.HEARD, float(number), [WRITER, HEAD, body])


@pytest.fixture
def journal(tmp_path: Path, write_run: Callable[..., str]) -> Path:
    """Return the journal of the store of a run with one whole episode and one that is open, said partly twice."""
    write_run("demo-1", status="running")
    end = ["episode", 0, "train", 0, None, 0, 3, True, False, "environment", 0]
    said = [_heard(2, _rows(0, 3), end, _rows(1, 1, 2)), _heard(1, _rows(0, 1, 2)), _heard(3, _rows(1, 3))]
    path = tmp_path / "demo-1" / "journals" / "store.journal"
    path.parent.mkdir()
    path.write_bytes(MAGIC + b"".join(piece for one in [*said, said[-1]] for piece in block([one])))
    return path


def test_rows_of_an_open_episode_are_shown(journal: Path, ganglion: Command) -> None:
    """They are those that the store has heard of, each once; rows of whole episodes are not among them."""
    status, out, err = ganglion("results", "steps", "--open", "--json", "--where", "step > 1")

    assert (0, "") == (status, err)
    found = [(row["run"], row["episode"], row["step"], row["sensors"]) for row in json.loads(out)]
    assert [("demo-1", 1, 2, {"grid.a": 1.0}), ("demo-1", 1, 3, {"grid.a": 1.5})] == found


def test_a_run_without_a_journal_is_refused(journal: Path, ganglion: Command) -> None:
    """It says where a journal was looked for."""
    journal.unlink()
    status, _, err = ganglion("results", "steps", "--open")

    assert 2 == status
    assert f"{journal}: expected the journal of the store" in err
