from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ganglion.errors import AuthorError, PeerLost, RemoteProtocolError
from ganglion.peer.author import EXCUSED, Hooks, ToleratedErrors, failure_of
from ganglion.supervisor import event


class FakeParticipant:
    """Be who tells the supervisor."""

    def __init__(self, playing: bool = False) -> None:
        self.playing = playing
        self.logged: list[Any] = []
        self.told: list[Any] = []
        self.on_tolerated: Callable[[Any], None] | None = self.logged.append

    def tell(self, peer: str, name: str, message: Any) -> None:
        self.told.append((peer, name, message.event, message.fields))


def fail() -> None:
    """Raise what an author's code may raise."""
    raise ValueError("no")


def lenient(participant: Any = None) -> tuple[Hooks, ToleratedErrors]:
    """Return hooks that are excused."""
    tolerated_errors = ToleratedErrors(lambda: participant, "r")
    return Hooks("muscle a", tolerated_errors, "muscle:a"), tolerated_errors


def test_the_name_of_the_event_is_the_supervisors() -> None:
    """Two rooms that do not know each other use one word."""
    assert event.EXCUSED == EXCUSED


def test_a_successor_that_hears_its_journal_says_nothing() -> None:
    """Its predecessor has said so; it goes on counting where that one stood."""
    participant = FakeParticipant(playing=True)
    hooks, tolerated_errors = lenient(participant)
    hooks.excused(None, "update", fail)
    participant.playing = False
    hooks.excused(None, "update", fail)

    assert [{"count": 2}] == [fields for *_, fields in participant.told]
    assert 1 == len(participant.logged)
    assert 2 == len(tolerated_errors.pop() or [])


@pytest.mark.parametrize("error", [RemoteProtocolError("bad"), PeerLost("b", "gone")])
def test_what_is_no_authors_error_is_not_excused(error: Exception) -> None:
    """A protocol error, or a loss, in the midst of a hook is the run's business."""
    hooks, tolerated_errors = lenient()

    def ask() -> None:
        raise error

    with pytest.raises(AuthorError) as found:
        hooks.excused(None, "update", ask)
    assert (error, None) == (found.value.__cause__, tolerated_errors.pop())


@contextmanager
def handled_by(handler: Any) -> Iterator[None]:
    """Set what SIGINT does, which may be ignored where tests run."""
    former = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def test_what_ends_the_process_ends_it() -> None:
    """Ctrl-C, where it is not ignored, is no exception of an author."""
    hooks, _ = lenient()

    def stop() -> None:
        raise KeyboardInterrupt

    with handled_by(signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        hooks.excused(None, "update", stop)


@pytest.mark.parametrize("error", [KeyboardInterrupt("no"), SystemExit(3)])
def test_an_end_that_an_author_raises_is_told_with_its_hook(error: BaseException) -> None:
    """Where SIGINT is ignored, both are an author's: told with hook, step and traceback, and never tolerated."""

    def update() -> None:
        raise error

    hooks, _ = lenient()
    hooks.step = 7
    with handled_by(signal.SIG_IGN), pytest.raises(AuthorError) as found:
        hooks.excused(None, "update", update)
    told = failure_of(found.value)

    assert (f"{type(error).__name__}: {error}", "muscle a, step 7, hook update") == (told.message, told.where)
    assert __file__ in (told.traceback or "")


def test_async_hook_s_traceback_begins_in_the_author_s_file() -> None:
    """The loop that runs an async hook is not shown either."""

    async def hook() -> None:
        await asyncio.sleep(0)
        fail()

    hooks = Hooks("brain ada")
    with pytest.raises(AuthorError) as caught:
        hooks("think", hook)
    hooks.close()
    head, first, *_ = (failure_of(caught.value).traceback or "").splitlines()

    assert ("Traceback (most recent call last):", True) == (head, __file__ in first)
    assert "asyncio" not in (failure_of(caught.value).traceback or "")
