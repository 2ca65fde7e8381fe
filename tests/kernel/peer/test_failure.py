from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ganglion.errors import (
    AuthorError,
    CallFailed,
    DeadlineExceeded,
    GanglionError,
    LimitExceeded,
    PeerLost,
    RemoteProtocolError,
    StoreError,
)
from ganglion.limits import BODY_BYTES
from ganglion.peer.failure import failure_of, hook_failed, show_failure
from ganglion.peer.hooks import Hooks
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import Failure, WorkerFailed


def boom() -> None:
    """Raise as an author's helper would."""
    raise ValueError("boom")


def caught(function: Any, *args: Any) -> BaseException:
    """Return what a function raises."""
    try:
        function(*args)
    except BaseException as error:  # noqa: BLE001 - the test looks at whatever it is
        return error
    raise AssertionError("nothing was raised")


def first_frame(failure: Failure) -> str:
    """Return the first frame that a traceback shows."""
    assert failure.traceback is not None
    lines = failure.traceback.splitlines()
    assert "Traceback (most recent call last):" == lines[0]
    return lines[1]


def test_author_is_blamed_with_place_and_own_traceback() -> None:
    """What a hook raises names exception, place and step; its traceback begins in the author's file."""
    hooks = Hooks("environment grid (worker 1), class Grid of farm 0.3")
    hooks.step = 7
    failure = failure_of(caught(hooks, "update", boom))

    assert ("author", "ValueError: boom") == (failure.kind, failure.message)
    assert "environment grid (worker 1), class Grid of farm 0.3, step 7, hook update" == failure.where
    assert "test_failure.py" in first_frame(failure)
    assert failure.traceback is not None
    assert failure.traceback.endswith("ValueError: boom\n")
    assert "hooks.py" not in failure.traceback


def test_async_hook_s_traceback_begins_in_the_author_s_file() -> None:
    """The loop that runs an async hook is not shown either."""

    async def hook() -> None:
        await asyncio.sleep(0)
        boom()

    hooks = Hooks("brain ada")
    failure = failure_of(caught(hooks, "think", hook))
    hooks.close()

    assert "test_failure.py" in first_frame(failure)
    assert "asyncio" not in (failure.traceback or "")


def test_notes_of_all_levels_are_told() -> None:
    """An author's error that passes through two hooks says both places."""
    inner, outer = Hooks("objective"), Hooks("muscle ada")
    failure = failure_of(caught(outer, "propose", lambda: inner("internal_reward", boom)))

    assert "objective, hook internal_reward; muscle ada, hook propose" == failure.where


@pytest.mark.parametrize(
    ("error", "kind", "data"),
    [
        (PeerLost("farm/brain/ada", "killed"), "lost", {"peer": "farm/brain/ada"}),
        (DeadlineExceeded("waited", "farm/brain/ada"), "deadline", {"peer": "farm/brain/ada"}),
        (StoreError("full"), "store", None),
        (LimitExceeded("much"), "limit", None),
        (RemoteProtocolError("odd"), "protocol", None),
    ],
)
def test_our_own_errors_keep_their_kind(error: Exception, kind: str, data: Any) -> None:
    """Errors of ours are told by kind and message, without a traceback; who is to blame is named."""
    failure = failure_of(error)

    assert (kind, str(error), None, data) == (failure.kind, failure.message, failure.traceback, data or failure.data)


def test_a_mistake_of_ours_shows_its_traceback() -> None:
    """Any other exception is internal: class, text and traceback."""
    failure = failure_of(caught(boom))

    assert ("internal", "ValueError: boom") == (failure.kind, failure.message)
    assert "test_failure.py" in first_frame(failure)


def test_failure_of_somebody_behind_us_is_handed_on() -> None:
    """What a peer said is told as it said it, with who it was, also through several hands."""
    said = {"kind": "author", "message": "ValueError: boom", "where": "hook think", "traceback": "Traceback"}
    first = failure_of(CallFailed("farm/brain/ada", "brain.think", said))
    body = codec_of(Failure).to_map(first)
    second = failure_of(CallFailed("farm/muscle/ada/0", "muscle.act", body))

    for failure in (first, second):
        assert ("author", "ValueError: boom", "hook think") == (failure.kind, failure.message, failure.where)
        assert "Traceback" == failure.traceback
        assert {"peer": "farm/brain/ada"} == failure.data


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"kind": 5, "message": [1], "where": {"a": 1}, "traceback": 7, "data": "x"},
        {"message": "m" * 900_000, "traceback": "t" * 900_000},
        {"data": {"peer": 5}},
    ],
)
def test_whatever_a_foreign_program_says_can_be_told(said: dict[str, Any]) -> None:
    """An ERROR of any fields and size can be handed on, inside another message too."""
    failure = failure_of(CallFailed("farm/environment/hill/0", "environment.update", said))
    report = WorkerFailed(0, 0, 1, failure, "farm/environment/hill/0")
    body = codec_of(WorkerFailed).encode(report)

    assert report == codec_of(WorkerFailed).decode(body)
    assert len(body) < BODY_BYTES / 10


def test_long_texts_are_cut() -> None:
    """Message and traceback are cut: the beginning of the one, the end of the other."""

    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        raise ValueError("x" * 100_000)

    failure = failure_of(caught(deep, 300))

    assert len(failure.message) < 5_000
    assert failure.traceback is not None
    assert len(failure.traceback) <= 16_000


def test_wrapped_error_keeps_its_cause() -> None:
    """The error that stands for an author's exception is an author's error, with the exception as its cause."""
    cause = ValueError("boom")
    error = hook_failed(cause, "here")

    assert isinstance(error, AuthorError)
    assert error.__cause__ is cause
    assert ["here"] == error.__notes__


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (CallFailed("r/muscle/a/0", "muscle.act", {"kind": "author"}), ""),
        (PeerLost("r/muscle/a/0", "exit 1"), ""),
        (DeadlineExceeded("late", "r/muscle/a/0"), ""),
        (RemoteProtocolError("too deep"), "RemoteProtocolError: too deep\n"),
        (hook_failed(ValueError("no"), "muscle a, hook setup"), "no traceback here\nmuscle a, hook setup\n"),
    ],
)
def test_only_own_failures_are_shown(error: GanglionError, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What somebody else answered, or failed to answer, is his to print; the place stands behind a traceback."""
    traceback = "no traceback here\n" if "traceback" in shown else None
    where = "muscle a, hook setup" if traceback else None
    show_failure(error, Failure(error.kind, str(error), where, traceback))

    assert shown == capsys.readouterr().err
