from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import PeerLost, RemoteProtocolError, UsageError
from ganglion.limits import RECONNECT_S
from ganglion.peer import main as program
from ganglion.peer.participant import Participant, insist
from ganglion.transport.curve import ClientKeys
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.messages import Bye, Done, Failure, MuscleReset, Nothing, Think
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


# -- welcome ----------------------------------------------------------------------------------------------------------
def refusal(kind: str) -> list[bytes]:
    """Return the frames with which a kernel refuses somebody."""
    return [b"", encode_head(Head(Verb.ERROR, 1)), codec_of(Failure).encode(Failure(kind, "it is taken"))]


def test_a_broker_that_does_not_come_back_is_given_up(clock: Any) -> None:
    """After half a minute, or when we have closed, it is lost for good; a refusal is its last word at once."""
    began_s = clock()

    def lose() -> None:
        raise PeerLost("broker", "nobody listens")

    def refuse() -> None:
        raise RemoteProtocolError("stale")

    def pause(span_s: float) -> None:
        clock.now_s += span_s

    with pytest.raises(PeerLost, match=r"did not come back within 30 s: .*nobody listens"):
        insist(lose, clock, pause, lambda: False)
    assert RECONNECT_S <= clock() - began_s < RECONNECT_S + 1.0
    with pytest.raises(PeerLost, match="did not come back"):
        insist(lose, clock, pytest.fail, lambda: True)
    with pytest.raises(RemoteProtocolError, match="stale"):
        insist(refuse, clock, pytest.fail, lambda: False)


# -- main -------------------------------------------------------------------------------------------------------------
VARIABLES = {
    "GANGLION_ENDPOINT": "ipc:///nowhere",
    "GANGLION_NAME": "a",
    "GANGLION_ROLE": "muscle",
    "GANGLION_TOKEN": "t0ken",
    "GANGLION_INCARNATION": "2",
}


@pytest.fixture
def bus(link: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the fake link that every connection gets; signals of this process stay as they are."""
    monkeypatch.setattr("ganglion.transport.blocking.connect_blocking", lambda endpoint, keys: link)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr("faulthandler.enable", lambda: None)
    return link


def leave(bus: Any, reason: str = "done") -> None:
    """Let the kernel say BYE when the peer is idle."""
    body = codec_of(Bye).encode(Bye(reason))
    bus.idle.append(lambda: bus.deliver("", Head(Verb.BYE, 5), body))


def test_keys_go_to_the_link(bus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With keys among its variables a participant connects by them; a broken one is named and nothing is sent."""
    keys = ClientKeys("s" * 40, "p" * 40, "k" * 40)
    given: list[ClientKeys | None] = []
    monkeypatch.setattr(
        "ganglion.transport.blocking.connect_blocking", lambda endpoint, keys: given.append(keys) or bus
    )
    leave(bus)

    assert 0 == program.main({**VARIABLES, **keys.variables()})
    assert 2 == program.main({**VARIABLES, **keys.variables(), "GANGLION_PUBLIC_KEY": "short"})
    assert [keys] == given


@pytest.mark.parametrize("name", ["GANGLION_ENDPOINT", "GANGLION_NAME", "GANGLION_ROLE"])
def test_a_missing_variable_is_named(name: str) -> None:
    """Nothing is joined without knowing where, as whom, as what."""
    with pytest.raises(UsageError, match=f"expected the variable {name}, found nothing"):
        program.serve({key: value for key, value in VARIABLES.items() if key != name})


def test_usage_ends_with_two(bus: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What was never started ends with 2, and says why where the supervisor keeps last words."""
    status = program.main({**VARIABLES, "GANGLION_ROLE": "supervisor"})

    assert (2, "a: GANGLION_ROLE: expected the role of a participant, found 'supervisor'\n") == (
        status,
        capsys.readouterr().err,
    )


def test_a_lost_broker_ends_with_one(bus: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A participant does not outlive its bus."""
    bus.idle.append(lambda: setattr(bus, "lost", "it closed the connection"))
    status = program.main(VARIABLES)

    assert (1, "a: broker is gone: it closed the connection\n") == (status, capsys.readouterr().err)


def test_a_connection_that_the_kernel_ends_ends_with_one(bus: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """ERROR about the connection itself is said, and is no orderly end."""
    failure = codec_of(Failure).encode(Failure("protocol", "too deep"))
    bus.idle.append(lambda: bus.deliver("", Head(Verb.ERROR, 0), failure))
    status = program.main(VARIABLES)

    assert (1, True) == (status, "ended the connection: protocol: too deep" in capsys.readouterr().err)


def test_a_log_says_when_it_came_and_went(bus: Any, tmp_path: Path) -> None:
    """With a file for it, joining and leaving are logged."""
    leave(bus)
    path = tmp_path / "peer.jsonl"
    program.main({**VARIABLES, "GANGLION_LOG": str(path)})

    assert [True, True] == [event in path.read_text() for event in ("peer.joined", "peer.left")]


@pytest.mark.parametrize(
    ("role", "more"),
    [
        ("environment", {}),
        ("muscle", {}),
        ("brain", {}),
        ("controller", {}),
        ("governor", {"GANGLION_RESULTS": "/tmp", "GANGLION_RUN": "r"}),
    ],
)
def test_each_role_has_its_host(bus: Any, role: str, more: dict[str, str]) -> None:
    """A participant of each role joins as what it is and answers the calls of that role."""
    bus.idle.append(lambda: bus.request("somebody", "kernel.info", Nothing(), 5))
    leave(bus)
    status = program.main({**VARIABLES, **more, "GANGLION_ROLE": role})
    failure = bus.replied(5, "kernel.info")

    assert (0, "unknown_call", True) == (status, failure.kind, f"{role}." in failure.message)


def test_the_store_writes_where_its_uri_says(bus: Any, tmp_path: Path) -> None:
    """The store's host opens the database before it joins, watches the governor and closes at the end."""
    pytest.importorskip("ganglion_store")

    bus.answers["kernel.watch"] = lambda peer, message: Done()
    leave(bus)
    uri = f"sqlite:///{tmp_path}/ganglion.db"
    own = {"GANGLION_ROLE": "store", "GANGLION_STORE": uri, "GANGLION_RUN": "r", "GANGLION_RESULTS": str(tmp_path)}
    (tmp_path / "r").mkdir()
    status = program.main({**VARIABLES, **own})

    assert (0, True) == (status, (tmp_path / "ganglion.db").is_file())
    assert [["r/governor"]] == [message.peers for _, message in bus.asked("kernel.watch")]
