from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.cli.stores import store_class
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.journal import MAGIC, Kind, block
from ganglion.wire.messages import RecordBatch
from ganglion.wire.verb import Verb

Command = Callable[..., tuple[int, str, str]]
HEAD = encode_head(Head(Verb.TELL, 0, "record.batch"))
WRITER = b"demo-1/controller/0"


def _rows(episode: int, *steps: int) -> list[Any]:
    blocks = [(_numbers(n / 2, kind="<f8"), _numbers(n, kind="<i8"), _numbers(1.0, kind="<f8")) for n in steps]
    rows = [[n, n, n, None, *values, False, False, None] for n, values in zip(steps, blocks, strict=True)]
    return ["steps", 0, "train", 0, "grid", episode, rows, True]  # as a controller sends it


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


def _numbers(*values: float, kind: str = "<i4") -> bytes:
    return np.array(values, kind).tobytes()


@pytest.mark.parametrize(
    ("own", "expected", "steps"),
    [
        (False, {("lake", 1, 0): 2, ("lake", 1, 1): 2}, {("lake", 1): 2}),
        (True, {("lake", 0, 1): 2}, {("lake[ada/1]", 0): 2}),
    ],
    ids=["together", "each"],
)
def test_rows_of_open_episodes_of_bodies_are_shown(
    tmp_path: Path, ganglion: Command, own: bool, expected: Any, steps: Any
) -> None:
    """Also of bodies: of an environment whose episode is not over, or of those bodies whose own is not."""
    rows = [["ada", "lake", b, None, None, None, True, own] for b in (0, 1)]
    kinds = ("sensor", "actuator", "reward")
    declared = [["x", "Box", None, "<f8", []]]
    run = {"uid": "demo", "experiment": "e", "seed": "42", "document": "", "started": "2030-01-01T00:00:00Z"}
    begin = [["run", run], *(["declare", 0, *of, k, declared] for of in (("lake", None), (None, "ada")) for k in kinds)]
    begin += [["phase", 0, "first", "train", "running", None], ["bodies", 0, rows]]
    uri = f"sqlite:///{tmp_path}/ganglion.db"
    with store_class(uri).writer(uri, "demo-1") as writer:
        writer.apply("g", begin)
        writer.commit()
    value = _numbers(0.5, 0.25, kind="<f8")
    both, flags = _numbers(0, 1, kind="<u2"), bytes(2)
    # Together: episode 0 is over, and two steps of 1 are made. Each: the first body has ended two, the other none.
    episodes = [(0, 0), (1, 0)] if own else [(1, 1), (1, 1)]
    values, end = [value, value, value, flags], [False, False, None]
    made = [
        [_numbers(*pair) if own else 1, _numbers(n, n) if own else n, n, n, None, both, *values, *end]
        for n, pair in enumerate(episodes, 1)
    ]
    acted = [
        [both, _numbers(*pair), _numbers(n, n), _numbers(n, n), value, value, None, value, value, flags, None]
        for n, pair in enumerate(episodes)
    ]
    over = [("lake[ada/0]", 0), ("lake[ada/0]", 1)] if own else [("lake", 0)]
    records: list[Any] = [["body_steps", 0, "train", 0, "lake", made], ["body_actions", 0, "train", 0, "ada", acted]]
    records += [["episode", 0, "train", 0, *place, 1, True, False, "terminated", 0, 0] for place in over]
    journal = tmp_path / "demo-1" / "journals" / "store.journal"
    journal.parent.mkdir(parents=True)
    journal.write_bytes(MAGIC + b"".join(block([_heard(1, *records)])))

    found = json.loads(ganglion("results", "actions", "demo-1", "--open", "--json")[1])
    keys = [(row["environment"], row["episode"], row["body"]) for row in found]
    assert expected == {key: keys.count(key) for key in keys}
    ends = json.loads(ganglion("results", "episodes", "demo-1", "--open", "--json")[1])
    assert steps == {(row["environment"], row["episode"]): row["steps"] for row in ends}
