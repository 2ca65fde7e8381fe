from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import threading
from collections.abc import Iterator

import pytest

from ganglion.broker.core import Broker
from ganglion.broker.link import Admission
from ganglion.errors import DeadlineExceeded
from ganglion.supervisor.connection import Connection, Operator
from ganglion.transport.blocking import BlockingLink
from ganglion.transport.exchange import Exchange
from ganglion.transport.native import NativeFront
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import Hello, RunEvent, RunRequest, Runs
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb


@pytest.fixture
def connection() -> Iterator[Connection]:
    """Yield the connection of a broker that runs in a thread and admits operators."""
    with tempfile.TemporaryDirectory(prefix="go-", dir="/tmp") as folder:
        ready, endpoint, loop = threading.Event(), f"ipc://{folder}/bus", asyncio.new_event_loop()
        ended = asyncio.Event()

        async def serve() -> None:
            broker = Broker(hashlib.sha256(b"boss").digest(), "0", os.getpid(), loop.time())
            digest = hashlib.sha256(b"operator's").digest()
            broker.admit(Admission("operator/*", Role.OPERATOR, "", digest))
            front = NativeFront(Exchange(broker, lambda note: None, loop.time, loop.call_later))
            await front.listen(endpoint)
            ready.set()
            await ended.wait()
            front.close()
            await asyncio.sleep(0)

        def body() -> None:
            loop.run_until_complete(serve())
            loop.close()

        thread = threading.Thread(target=body)
        thread.start()
        assert ready.wait(5)
        yield Connection(1, os.getpid(), endpoint, None, "operator's", "", "", None, "", None)
        loop.call_soon_threadsafe(ended.set)
        thread.join()


def test_refusal_is_raised(connection: Connection) -> None:
    """What only a supervisor could answer is asked until the time is over, then refused with the kernel's words."""
    with Operator(connection) as operator, pytest.raises(DeadlineExceeded, match="supervisor is absent"):
        operator.ask("kernel.runs", RunRequest(), 0.2)


def test_supervisor_that_comes_again_is_asked_again(connection: Connection) -> None:
    """A supervisor that is lost before it has answered, and comes again, hears the question once more."""
    serials: list[int] = []

    def supervise() -> None:
        for number in range(2):
            link = BlockingLink.connect(connection.endpoint)
            hello = codec_of(Hello).encode(Hello(1, "supervisor", "supervisor", "boss"))
            link.send([b"", encode_head(Head(Verb.HELLO, 1)), hello])
            while True:
                frames = link.receive(5.0)
                assert frames is not None
                head = decode_head(frames[1])
                if head.verb is Verb.CALL:
                    serials.append(head.serial)
                    break
            if number:
                link.send([frames[0], encode_head(Head(Verb.REPLY, head.serial)), codec_of(Runs).encode(Runs([]))])
                link.receive(0.1)
            link.close()

    thread = threading.Thread(target=supervise)
    thread.start()
    with Operator(connection) as operator:
        assert [] == operator.ask("kernel.runs", RunRequest(), 10.0).rows
    thread.join()

    assert [1, 1] == serials


@pytest.mark.parametrize(("kept", "missed"), [(10, 0), (2, 2)])
def test_every_event_of_a_run_is_shown_or_counted(
    connection: Connection, kept: int, missed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that come while the kernel is called are shown in their order, up to the last; a warning counts others."""
    monkeypatch.setattr("ganglion.supervisor.connection.KEPT", kept)
    events = [RunEvent("signal", {"number": n}, 1.0) for n in range(5)]
    told = [(Head(Verb.TELL, 0, "event"), codec_of(RunEvent).encode(event)) for event in events]

    def supervise() -> None:
        link = BlockingLink.connect(connection.endpoint)
        hello = codec_of(Hello).encode(Hello(1, "supervisor", "supervisor", "boss"))
        link.send([b"", encode_head(Head(Verb.HELLO, 1)), hello])
        asked = 0
        while asked < 2 and (frames := link.receive(5.0)) is not None:
            head = decode_head(frames[1])
            if head.verb is not Verb.CALL:
                continue
            asked += 1  # the first time all but the last event comes before the reply, the second time that one
            for one, body in told[:-1] if asked == 1 else told[-1:]:
                link.send([b"@show-1/events", encode_head(one), body])
            link.send([frames[0], encode_head(Head(Verb.REPLY, head.serial)), codec_of(Runs).encode(Runs([]))])
        link.receive(0.2)
        link.close()

    thread = threading.Thread(target=supervise)
    thread.start()
    shown: list[RunEvent] = []
    asked: list[object] = []

    def over() -> bool:
        asked.append(operator.ask("kernel.runs", RunRequest(), 10.0))
        return len(asked) == 2

    with Operator(connection) as operator:
        operator.follow("show-1", shown.append, over)
    thread.join()

    text = f"{missed} events were missed: they came faster than they were read"
    assert [text] * bool(missed) == [one.fields["text"] for one in shown if one.event == "warning"]
    assert events[missed:] == [one for one in shown if one.event == "signal"]
