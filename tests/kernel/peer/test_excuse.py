from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.errors import AuthorError, PeerLost, RemoteProtocolError
from ganglion.peer.excuse import EXCUSED, Excuses, Pardoned, continues
from ganglion.peer.hooks import Hooks
from ganglion.sdk import ActuatorInformation, Discrete
from ganglion.supervisor import event


class FakeParticipant:
    """Be who tells the supervisor."""

    def __init__(self, playing: bool = False) -> None:
        self.playing = playing
        self.logged: list[Any] = []
        self.told: list[Any] = []
        self.on_excuse: Callable[[Any], None] | None = self.logged.append

    def tell(self, peer: str, name: str, message: Any) -> None:
        self.told.append((peer, name, message.event, message.fields))


def fail() -> None:
    """Raise what an author's code may raise."""
    raise ValueError("no")


def refused() -> None:
    """Raise an error of the contract."""
    ActuatorInformation(11, Discrete(3), "e.a")


def lenient(participant: Any = None) -> tuple[Hooks, Excuses]:
    """Return hooks that are excused."""
    excuses = Excuses(lambda: participant, "r")
    return Hooks("muscle a", excuses, "muscle:a"), excuses


def test_what_is_excused_is_logged_counted_and_kept() -> None:
    """The log has its traceback, the supervisor the count, and the next answer the exception; each once."""
    participant = FakeParticipant()
    hooks, excuses = lenient(participant)

    assert [3, 4] == [hooks.excused(value, "update", fail) for value in (3, 4)]
    assert 5 == hooks.excused(None, "update", lambda: 5)
    assert "ValueError: no" in participant.logged[0].traceback
    assert "muscle a, hook update" in participant.logged[0].where
    topic = "@r/events"
    assert [(topic, "event", EXCUSED, {"count": 1}), (topic, "event", EXCUSED, {"count": 2})] == participant.told
    assert [{"issuer": "muscle:a", "hook": "update", "reason": "ValueError: no"}] * 2 == excuses.pop()
    assert excuses.pop() is None


def test_the_name_of_the_event_is_the_supervisors() -> None:
    """Two rooms that do not know each other use one word."""
    assert event.EXCUSED == EXCUSED


def test_a_successor_that_hears_its_tape_says_nothing() -> None:
    """Its predecessor has said so; it goes on counting where that one stood."""
    participant = FakeParticipant(playing=True)
    hooks, excuses = lenient(participant)
    hooks.excused(None, "update", fail)
    participant.playing = False
    hooks.excused(None, "update", fail)

    assert [{"count": 2}] == [fields for *_, fields in participant.told]
    assert 1 == len(participant.logged)
    assert 2 == len(excuses.pop() or [])


def test_without_a_log_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Its traceback stands where the process's last words are kept."""
    participant = FakeParticipant()
    participant.on_excuse = None
    lenient(participant)[0].excused(None, "update", fail)

    assert "raise ValueError" in capsys.readouterr().err


def test_errors_of_the_contract_have_their_class() -> None:
    """What the sdk refuses is excused with its name."""
    hooks, excuses = lenient()
    with pytest.raises(Pardoned):
        hooks.pardon("propose_actions", refused)
    (excuse,) = excuses.pop() or []

    assert excuse["reason"].startswith("OutOfActionSpaceError: setpoint e.a")


@pytest.mark.parametrize("error", [RemoteProtocolError("bad"), PeerLost("b", "gone")])
def test_what_is_no_authors_error_is_not_excused(error: Exception) -> None:
    """A protocol error, or a loss, in the midst of a hook is the run's business."""
    hooks, excuses = lenient()

    def ask() -> None:
        raise error

    with pytest.raises(AuthorError) as found:
        hooks.excused(None, "update", ask)
    assert (error, None) == (found.value.__cause__, excuses.pop())


def test_nothing_is_excused_without_excuses() -> None:
    """A part whose document says nothing fails."""
    with pytest.raises(AuthorError, match="ValueError: no"):
        Hooks("muscle a").excused(3, "update", fail)


def test_what_ends_the_process_ends_it() -> None:
    """Ctrl-C and a demand to exit are no exceptions of an author."""
    hooks, _ = lenient()

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hooks.excused(None, "update", stop)


@pytest.mark.parametrize(
    ("plugin", "found"), [(None, False), ({}, False), ({"on_error": "fail"}, False), ({"on_error": "continue"}, True)]
)
def test_the_document_says_what_is_excused(plugin: Any, found: bool) -> None:
    """Only `continue` does."""
    assert found is continues(plugin)
