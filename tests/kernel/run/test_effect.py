from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import StoreError
from ganglion.run.effect import checkpoint_text, placed, read_checkpoint, record_of
from ganglion.wire.messages import Failure, WorkerFailed

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["run", "phase", "models", "rows"]), PLAIN))
def test_what_is_written_is_read(checkpoint: dict[str, Any]) -> None:
    """A checkpoint of plain values comes back as it was."""
    assert checkpoint == read_checkpoint(checkpoint_text(checkpoint), "here")


def test_every_damaged_byte_is_found() -> None:
    """Whatever byte of a value or a name is another, the file is named as damaged."""
    text = checkpoint_text({"run": "farm-1", "phase": 3, "models": [[0, "ada", "/a"]]})
    for place, letter in enumerate(text):
        if letter.isalnum() or letter == "/":
            broken = text[:place] + chr(ord(letter) ^ 1) + text[place + 1 :]
            with pytest.raises(StoreError, match=r"checkpoint x\.json: the file is damaged"):
                read_checkpoint(broken, "x.json")


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", '{"sha256": 1}', "[" * 100_000, checkpoint_text({})[:-9]])
def test_what_is_no_cut_is_refused(text: str) -> None:
    """Text of any other kind is named as damaged, and nothing else is raised."""
    with pytest.raises(StoreError, match="the file is damaged"):
        read_checkpoint(text, "x.json")


def test_an_excuse_is_a_row_of_signals() -> None:
    """It is a CONTINUE of the part, with the exception as its reason; the hook is beside it."""
    excuse = {"issuer": "muscle:a", "hook": "update", "reason": "ValueError: no"}

    assert ["signal", 2, 1, 3, 4, "CONTINUE", "muscle:a", "ValueError: no", {"hook": "update"}, 7, 0] == record_of(
        excuse, 2, (1, 3, 4), (7, 0)
    )
    assert {"hook": "update", "mode": "evaluate"} == record_of(excuse, 2, (1, 3, 4), (7, 0), "evaluate")[8]


def test_a_failure_of_a_worker_says_where() -> None:
    """Worker, episode and step stand behind the place that the failure names itself."""
    report = WorkerFailed(1, 2, 3, Failure("author", "it broke", "plant.py:4", "Traceback", data={"n": 1}))
    found = placed(report)

    assert ("author", "it broke", "plant.py:4 (worker 1, episode 2, step 3)") == (
        found.kind,
        found.message,
        found.where,
    )
    assert ("Traceback", {"n": 1}) == (found.traceback, found.data)
    assert (
        "evaluation worker 1, episode 2, step 3"
        == placed(WorkerFailed(1, 2, 3, Failure("author", "it broke"), evaluation=True)).where
    )
