from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import UsageError
from ganglion.peer import main as program
from ganglion.transport.curve import ClientKeys
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head
from ganglion.wire.messages import Bye, Done, Failure, Nothing
from ganglion.wire.verb import Verb

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
    status = program.main({**VARIABLES, "GANGLION_ROLE": "store", "GANGLION_STORE": uri, "GANGLION_RUN": "r"})

    assert (0, True) == (status, (tmp_path / "ganglion.db").is_file())
    assert [["r/governor"]] == [message.peers for _, message in bus.asked("kernel.watch")]
