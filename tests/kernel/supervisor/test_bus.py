from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.broker.core import Broker
from ganglion.errors import DeadlineExceeded, PeerLost, RemoteProtocolError
from ganglion.limits import ANSWERS_PER_CALLER, PEERS, QUEUE_MARK_BYTES
from ganglion.supervisor.bus import Answers, Bus, Handler, Listener
from ganglion.transport.asynclink import AsyncLink
from ganglion.transport.exchange import Exchange
from ganglion.transport.native import NativeFront
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import Admit, Hello, Info, Joined, Lost, Need, Nothing, RunEvent, RunRequest
from ganglion.wire.verb import Verb

TOKEN = "t" * 43


class Heard(Listener):
    """Take down what is heard."""

    def __init__(self) -> None:
        self.joined: list[str] = []
        self.lost: list[str] = []
        self.events: list[tuple[str, str]] = []
        self.closed: list[str] = []
        self.holds = False

    def peer_joined(self, joined: Joined) -> None:
        self.joined.append(joined.peer)

    def peer_lost(self, lost: Lost) -> None:
        self.lost.append(lost.peer)

    def told(self, peer: str, event: RunEvent) -> None:
        self.events.append((peer, event.event))

    def bus_closed(self, reason: str) -> bool:
        self.closed.append(reason)
        return self.holds


def _on_a_bus(
    body: Callable[[Bus, Heard, NativeFront], Awaitable[Any]],
    token: str = TOKEN,
    handlers: dict[str, Handler] | None = None,
) -> Any:
    """Run `body` with a supervisor's bus on a real broker in this process."""

    async def run() -> Any:
        loop = asyncio.get_running_loop()
        broker = Broker(hashlib.sha256(TOKEN.encode()).digest(), "0", os.getpid(), loop.time())
        exchange = Exchange(broker, lambda note: None, loop.time, loop.call_later)
        front = NativeFront(exchange)
        heard = Heard()
        bus = Bus(handlers or {}, heard)
        try:
            endpoint = await front.listen(f"ipc://{folder}/bus")
            await bus.join(endpoint, token)
            return await body(bus, heard, front)
        finally:
            bus.close()
            front.close()
            await asyncio.sleep(0)

    with tempfile.TemporaryDirectory(prefix="gb-", dir="/tmp") as folder:
        return asyncio.run(run())


def test_question_gets_its_answer() -> None:
    """Questions asked at once are answered each by its own reply."""

    async def body(bus: Bus, heard: Heard, front: NativeFront) -> list[Info]:
        admit = [Admit(f"r/muscle/{i}", "muscle", "r", b"x" * 32) for i in range(20)]
        await bus.ask_all("kernel.admit", admit)
        return await asyncio.gather(*(bus.ask("", "kernel.info", Nothing()) for _ in range(5)))

    assert [os.getpid()] * 5 == [info.pid for info in _on_a_bus(body)]


def test_a_busy_broker_is_asked_again() -> None:
    """A question to a peer for which too much waits is repeated until there is room, and then answered once."""

    async def body(bus: Bus, heard: Heard, front: NativeFront) -> int:
        await bus.ask("", "kernel.admit", Admit("r/governor", "governor", "r", hashlib.sha256(b"g").digest()))
        serials: list[int] = []
        welcomed = asyncio.Event()

        def receive(frames: list[bytes]) -> None:
            head = decode_head(frames[1])
            if head.verb is Verb.WELCOME:
                welcomed.set()
            if head.verb is Verb.CALL:
                serials.append(head.serial)
                governor.send([frames[0], encode_head(Head(Verb.REPLY, head.serial)), b""])

        endpoint = front._bound[0].endpoint
        governor = await AsyncLink.connect(endpoint, receive, lambda reason: None)
        hello = Hello(1, "governor", "r/governor", "g")
        governor.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
        joined = front._exchange.broker.joined
        await welcomed.wait()
        joined["r/governor"].queued_bytes = QUEUE_MARK_BYTES + 1
        asked = asyncio.create_task(bus.ask("r/governor", "governor.stop", RunRequest("r")))
        with pytest.raises(DeadlineExceeded):
            await bus.ask("r/governor", "governor.stop", RunRequest("r"), 0.08)
        assert ([], False) == (serials, asked.done())
        joined["r/governor"].queued_bytes = 0
        await asked
        governor.close()
        return serials.count(min(serials))

    assert 1 == _on_a_bus(body)


def test_wrong_token_is_refused_with_the_reason() -> None:
    """A supervisor whose token is wrong is told so."""

    async def body(bus: Bus, heard: Heard, front: NativeFront) -> None:
        raise AssertionError("it may not join")

    with pytest.raises(RemoteProtocolError, match="token: it admits nobody"):
        _on_a_bus(body, token="w" * 43)


def test_silence_ends_at_the_deadline() -> None:
    """A question that nobody answers ends with the name of who was asked."""

    async def body(bus: Bus, heard: Heard, front: NativeFront) -> None:
        bus._link.send = lambda frames: None  # type: ignore[union-attr, method-assign] - what is sent is lost
        with pytest.raises(DeadlineExceeded, match=r"the broker did not answer kernel.info within 0.01 s"):
            await bus.ask("", "kernel.info", Nothing(), 0.01)

    _on_a_bus(body)


def test_end_of_the_broker_answers_everything() -> None:
    """When the broker goes, open questions fail, later ones too, and the listener hears of it once."""

    async def body(bus: Bus, heard: Heard, front: NativeFront) -> list[str]:
        asked = asyncio.create_task(bus.ask("", "kernel.info", Nothing()))
        await asyncio.sleep(0)
        bus.lose("it has gone")
        with pytest.raises(PeerLost, match="it has gone"):
            await asked
        with pytest.raises(PeerLost, match="it has gone"):
            await bus.ask("", "kernel.info", Nothing())
        bus.tell("@r/events", RunEvent("run.ended", {}))
        return heard.closed

    assert ["it has gone"] == _on_a_bus(body)


@pytest.mark.parametrize(
    ("call", "said"), [("kernel.need", "RuntimeError: boom"), ("kernel.ended", "the supervisor knows no call")]
)
def test_caller_is_always_answered(call: str, said: str) -> None:
    """A handler that raises, and a call that there is not, are answered with ERROR."""

    async def boom(peer: str, request: Any) -> Any:
        raise RuntimeError("boom")

    async def body(bus: Bus, heard: Heard, front: NativeFront) -> list[bytes]:
        from ganglion.wire.codec import codec_of
        from ganglion.wire.envelope import Head
        from ganglion.wire.verb import Verb

        sent: list[list[bytes]] = []
        bus._link.send = sent.append  # type: ignore[union-attr, method-assign, assignment]
        await bus._answer("r/governor", Head(Verb.CALL, 9, call), codec_of(Need).encode(Need("r", 0)), None)
        return sent[0]

    frames = _on_a_bus(body, handlers={"kernel.need": boom})
    assert b"r/governor" == frames[0]
    assert said.encode() in frames[2]


def test_who_is_absent_is_waited_for() -> None:
    """A question to somebody who is lost and will return is said again, whatever its time, and answered once."""

    async def body(bus: Bus, heard: Heard, front: NativeFront) -> list[tuple[int, str]]:
        admit = Admit("r/governor", "governor", "r", hashlib.sha256(b"g").digest(), returns=True)
        await bus.ask("", "kernel.admit", admit)
        asked = asyncio.create_task(bus.ask("r/governor", "governor.stop", RunRequest("r"), 0.2))
        heard_calls: list[tuple[int, str]] = []
        for number in range(2):
            joined, called = asyncio.Event(), asyncio.Event()
            if number:  # it was away for longer than an answer may take
                await asyncio.wait([asked], timeout=0.5)
                assert not asked.done()

            def receive(frames: list[bytes], joined: asyncio.Event = joined, called: asyncio.Event = called) -> None:
                head = decode_head(frames[1])
                if head.verb is Verb.WELCOME:
                    joined.set()
                if head.verb is Verb.CALL:
                    heard_calls.append((head.serial, head.call))
                    called.set()

            link = await AsyncLink.connect(front._bound[0].endpoint, receive, lambda reason: None)
            hello = codec_of(Hello).encode(Hello(1, "governor", "r/governor", "g"))
            link.send([b"", encode_head(Head(Verb.HELLO, 1)), hello])
            await joined.wait()
            await called.wait()
            if number:
                link.send([b"supervisor", encode_head(Head(Verb.REPLY, heard_calls[-1][0])), b""])
                await asked
            link.close()
        return heard_calls

    calls = _on_a_bus(body)
    assert 2 == len(calls)
    assert 1 == len(set(calls))


def test_a_question_is_carried_out_once() -> None:
    """A question that comes again while it is carried out is dropped; later it is answered from memory."""
    answers = Answers()

    assert answers.begin("r/governor", 7, "kernel.need") is None
    assert [] == answers.begin("r/governor", 7, "kernel.need")
    assert answers.begin("r/governor", 7, "kernel.ended") is None
    assert answers.begin("r2/governor", 7, "kernel.need") is None
    answers.end("r/governor", 7, "kernel.need", [b"done"])
    assert [b"done"] == answers.begin("r/governor", 7, "kernel.need")
    assert [] == answers.begin("r2/governor", 7, "kernel.need")


def test_numbers_that_others_get_are_forgotten() -> None:
    """Whoever bears an operator's number next is not answered what the first one asked, not even later."""
    answers = Answers()
    for caller in ("operator/1", "operator/2", "r/governor"):
        answers.begin(caller, 2, "kernel.stop")
    answers.end("operator/1", 2, "kernel.stop", [b"1"])
    answers.forget(("operator/", "observer/"))
    answers.end("operator/2", 2, "kernel.stop", [b"2"])
    answers.end("r/governor", 2, "kernel.stop", [b"3"])

    assert [None, None, [b"3"]] == [
        answers.begin(caller, 2, "kernel.stop") for caller in ("operator/1", "operator/2", "r/governor")
    ]


@given(st.lists(st.tuples(st.integers(0, 2 * PEERS), st.integers(1, 9)), max_size=60))
def test_the_last_answers_are_remembered(asked: list[tuple[int, int]]) -> None:
    """The last four answers of each caller are known; memory has a bound in callers, too."""
    answers, last = Answers(), dict[str, list[int]]()
    for number, serial in asked:
        caller = f"r{number}/governor"
        if answers.begin(caller, serial, "c") is None:
            answers.end(caller, serial, "c", [bytes([serial])])
            last[caller] = [*last.get(caller, []), serial][-ANSWERS_PER_CALLER:]
    for caller, serials in last.items():
        assert [[bytes([serial])] for serial in serials] == [answers.begin(caller, s, "c") for s in serials]
