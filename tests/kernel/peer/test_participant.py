from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.peer.participant import Participant
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head
from ganglion.wire.messages import Bye, Done, Failure, MuscleReset, Think
from ganglion.wire.verb import Verb

A, B = "r/muscle/a/0", "r/muscle/b/0"


@pytest.fixture
def participant(link: Any, clock: Any) -> Iterator[Participant]:
    """Return a participant on the fake link, which has not joined."""
    made = Participant(lambda: link, {}, clock=clock)
    yield made
    made._closed.set()


def leave_when_idle(link: Any) -> None:
    """Let the kernel say BYE as soon as the peer has nothing else to do."""
    link.idle.append(lambda: link.deliver("", Head(Verb.BYE, 5), codec_of(Bye).encode(Bye("done"))))


# -- joining and leaving ----------------------------------------------------------------------------------------------


def test_anything_else_than_a_welcome_is_refused(participant: Participant, link: Any) -> None:
    """An answer to HELLO that is neither WELCOME nor ERROR breaks the protocol."""
    link.send = lambda frames: link.deliver("", Head(Verb.BEAT))
    with pytest.raises(RemoteProtocolError, match="expected WELCOME, found BEAT"):
        participant.join(participant.hello("muscle", "a", "?"))


def test_leaving_a_dead_kernel_only_closes(participant: Participant, link: Any) -> None:
    """Where the broker is gone already, leaving raises nothing."""
    link.lost = "it died"
    participant.leave()

    assert link.closed


# -- asking -----------------------------------------------------------------------------------------------------------


# -- pumping ----------------------------------------------------------------------------------------------------------


# -- serving ----------------------------------------------------------------------------------------------------------


def test_a_body_that_does_not_fit_is_answered(link: Any, clock: Any) -> None:
    """A request whose body is not of its call is answered with the path of what is wrong; nothing is called."""
    called: list[Any] = []
    made = Participant(lambda: link, {"muscle.reset": lambda request, it: called.append(it)}, clock=clock)
    link.deliver("r/controller/0", Head(Verb.CALL, 77, "muscle.reset"), b"\x81\xa7episode\xa1x")
    leave_when_idle(link)
    made.serve()

    assert ("protocol", []) == (link.replied(77, "muscle.reset").kind, called)


def test_what_a_handler_raises_is_answered_and_shown(link: Any, clock: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The caller gets the failure, the process's output the traceback, `on_failure` both."""

    def handle(request: Any, message: Any) -> Done:
        raise ValueError("no such thing")

    noted: list[tuple[str, Failure]] = []
    made = Participant(lambda: link, {"muscle.reset": handle}, clock=clock)
    made.on_failure = lambda call, failure: noted.append((call, failure))
    link.request("r/controller/0", "muscle.reset", MuscleReset(1), 77)
    leave_when_idle(link)
    made.serve()
    failure = link.replied(77)

    assert ("internal", "ValueError: no such thing") == (failure.kind, failure.message)
    assert [("muscle.reset", failure)] == noted
    assert failure.traceback in capsys.readouterr().err


def test_the_loss_of_somebody_else_within_a_handler_is_answered(link: Any, clock: Any) -> None:
    """A handler that waits for a peer which is lost fails its request by that peer's name, and serving goes on."""
    made: Participant

    def handle(request: Any, message: Any) -> Done:
        link.lose("r/brain/a", "exit 1")
        made.call("r/brain/a", "brain.think", Think(0, 0, 0, [], [], [], [], []), 5.0)
        return Done()

    made = Participant(lambda: link, {"muscle.reset": handle}, clock=clock)
    link.request("r/controller/0", "muscle.reset", MuscleReset(1), 77)
    leave_when_idle(link)
    made.serve()

    assert ("lost", {"peer": "r/brain/a"}) == (link.replied(77).kind, link.replied(77).data)
