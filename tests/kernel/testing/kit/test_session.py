from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgpack
import pytest

from ganglion.errors import PeerLost
from ganglion.testing.kit.case import Miss
from ganglion.testing.kit.peer import End, Place
from ganglion.testing.kit.session import CALLER, Session
from ganglion.wire.verb import Verb


class Scripted:
    """Say what was written down, whatever is heard."""

    def __init__(self, *said: list[bytes]) -> None:
        self.said = deque(said)
        self.heard: list[list[bytes]] = []

    def receive(self, span_s: float) -> list[bytes] | None:
        if not self.said:
            raise PeerLost("the peer", "it closed the connection")
        found = self.said.popleft()
        return found or None

    def send(self, frames: Sequence[bytes]) -> None:
        self.heard.append(list(frames))

    def ended(self, span_s: float) -> End:
        return End(3, "some words\nthe last words\n")

    cut = terminate = stop = lambda self: None


def _message(to: str, head: list[Any], body: Any) -> list[bytes]:
    return [to.encode(), msgpack.packb(head), body if isinstance(body, bytes) else msgpack.packb(body)]


def _session(*said: list[bytes]) -> Session:
    return Session(Scripted(*said), Place("environment", "kit/environment/a/0", "t"), 0.01)


def test_answer_is_found_by_its_serial() -> None:
    """What else the peer says meanwhile is passed over, and the answer's fields are decoded."""
    answer = _session(
        _message("", [8, 1], {}),
        _message(CALLER, [4, 7], {"a": 0}),
        _message(CALLER, [4, 1], {"a": 1}),
    ).ask("x", {})

    assert (Verb.REPLY, {"a": 1}, False) == (answer.verb, answer.fields, answer.failed)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            [],
            r"x: the program ended: it closed the connection \(exit status 3; its last words: the last words\)",
        ),
        ([[]], r"x: expected an answer within 0\.01 s, heard none$"),
        ([_message(CALLER, [4, 9], {}), []], "heard none; it said REPLY with serial 9"),
        ([_message("", [4, 1], {})], f"expected the answer to go to {CALLER}, found b''"),
        ([[b"", b"\xc1"]], r"x: head: expected a msgpack array"),
        ([[b"one"]], "expected the frames"),
        ([_message(CALLER, [4, 1], b"\xc1")], "x: body of the answer: "),
    ],
)
def test_answer_that_is_none_is_a_miss(said: list[list[bytes]], text: str) -> None:
    """An end, silence, another serial, another destination and what is no message are told as what they are."""
    with pytest.raises(Miss, match=text):
        _session(*said).ask("x", {})


def test_call_of_the_peer_is_answered_meanwhile() -> None:
    """What the peer asks of others while it works is answered by the kit's own table, or refused."""
    said = [_message("kit/brain/b", [3, 5, "brain.join"], {"worker": 0}), _message(CALLER, [4, 1], {})]
    session = _session(*said)
    session.calls = lambda call, body: ({"asked": call, **body}, [b"blob"])
    session.ask("muscle.setup", {})
    refused = _session(*said)
    refused.ask("muscle.setup", {})

    to, head, body, blob = session.peer.heard[1]  # type: ignore[attr-defined]
    assert (b"kit/brain/b", [4, 5], b"blob") == (to, msgpack.unpackb(head), blob)
    assert {"asked": "brain.join", "worker": 0} == msgpack.unpackb(body)
    assert [5, 5] == msgpack.unpackb(refused.peer.heard[1][1])  # type: ignore[attr-defined]


def test_json_is_spoken_with_who_asked_for_it() -> None:
    """A peer that says `content: json` in HELLO gets its bodies so."""
    session = _session(_message("", [1, 1], {"content": "json"}))
    session.listen(1.0)
    session.welcome()

    assert b'{"version": 1, "name": "kit/environment/a/0"'.replace(b" ", b"") in session.peer.heard[0][
        2
    ].replace(b" ", b"")  # type: ignore[attr-defined]


def test_one_that_attaches_is_told_its_name() -> None:
    """Who asks by a uid gets a place, and hears its whole name in WELCOME."""
    session = Session(Scripted(_message("", [1, 1], {})), Place("environment", "world", "t"), 0.01)
    session.listen(1.0)
    session.welcome()

    assert "kit/environment/world/0" == msgpack.unpackb(session.peer.heard[0][2])["name"]  # type: ignore[attr-defined]


def test_farewell_is_all_that_is_said_until_the_end() -> None:
    """BYE is sent in the supervisor's name, and what comes until the connection ends is returned."""
    session = _session(_message("", [10, 1], {}), _message("", [8, 1], {}))
    heard = session.bye()

    assert [b"\x92\x0a\x01", b"\x92\x08\x01"] == [frames[1] for frames in heard]
    assert [b"supervisor", b""] == [frames[0] for frames in session.peer.heard]  # type: ignore[attr-defined]
    assert session.lost
