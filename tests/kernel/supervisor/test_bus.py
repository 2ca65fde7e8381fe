from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.broker.core import Broker
from ganglion.errors import DeadlineExceeded, PeerLost, RemoteProtocolError
from ganglion.limits import QUEUE_MARK_BYTES, RESTARTS_PER_NAME, RESTARTS_WITHIN_S
from ganglion.supervisor.connection import Access
from ganglion.supervisor.hub import Bus, Handler, Hub
from ganglion.supervisor.launch.local import Local
from ganglion.transport.asynclink import AsyncLink
from ganglion.transport.exchange import Exchange
from ganglion.transport.native import NativeFront
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import Admit, Done, Hello, Joined, Need, Nothing, RunEvent, RunRequest
from ganglion.wire.verb import Verb

TOKEN = "t" * 43
WAIT_S = 20.0  # nothing here takes so long unless it is broken
TABLE = [
    Admit("r/governor", "governor", "r", hashlib.sha256(b"g").digest(), 3, returns=True),
    Admit("r/muscle/ada/0", "muscle", "r", hashlib.sha256(b"m").digest(), 1, "ada", 0, returns=True),
]
GOVERNOR = Hello(1, "governor", "r/governor", "g")
MUSCLE = Hello(1, "muscle", "r/muscle/ada/0", "m")


class Home:
    """Own a broker, admit two participants, and record what is heard."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.wants = True
        self.losses: list[tuple[str, bool]] = []
        self.returned, self.failed = asyncio.Event(), asyncio.Event()
        self.joined: list[str] = []
        self.closed: list[str] = []
        self.at_loss: Callable[[], None] = lambda: None
        self.hub: Hub | None = None

    def wants_broker(self) -> bool:
        return self.wants

    def admissions(self) -> list[Admit]:
        return [*self.access.admissions(), *TABLE]

    def interests(self) -> tuple[list[str], list[str]]:
        return ["@r/events"], [admit.name for admit in TABLE]

    def broker_lost(self, how: str, words: list[str], returns: bool) -> None:
        self.losses.append((how, returns))
        if not returns:
            self.failed.set()
        self.at_loss()

    def broker_back(self, took_s: float) -> None:
        assert took_s > 0.0
        self.returned.set()

    def peer_joined(self, joined: Joined) -> None:
        self.joined.append(joined.peer)

    def peer_lost(self, lost: Any) -> None:
        pass

    def told(self, peer: str, event: RunEvent) -> None:
        pass

    def bus_closed(self, reason: str) -> bool:
        self.closed.append(reason)
        return self.hub is not None and self.hub.bus_closed()


class Peer:
    """Be a participant that a test drives by hand."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[Head, list[bytes]]] = asyncio.Queue()
        self.ended = asyncio.Event()
        self.link: Any = None

    async def join(self, endpoint: str, hello: Hello) -> Head:
        """Connect, say HELLO and return the head of the answer."""
        self.ended.clear()
        self.link = await AsyncLink.connect(endpoint, self._hear, lambda reason: self.ended.set(), WAIT_S)
        self.link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
        return (await self.next())[0]

    def _hear(self, frames: list[bytes]) -> None:
        head = decode_head(frames[1])
        if head.verb is Verb.BEAT:
            self.link.send([b"", encode_head(Head(Verb.BEAT, 0, "here")), b""])
        else:
            self.heard.put_nowait((head, frames))

    async def next(self) -> tuple[Head, list[bytes]]:
        """Return the next message that is no beat."""
        async with asyncio.timeout(WAIT_S):
            return await self.heard.get()

    async def reply(self) -> Head:
        """Answer the next call with nothing; return its head."""
        head, frames = await self.next()
        self.link.send([frames[0], encode_head(Head(Verb.REPLY, head.serial)), b""])
        return head


@contextlib.asynccontextmanager
async def _on_a_bus(
    token: str = TOKEN, handlers: dict[str, Handler] | None = None
) -> AsyncIterator[tuple[Bus, Home, NativeFront, str]]:
    """Yield a supervisor's bus that has joined a broker in this process, its listener, the broker's front and place."""
    loop = asyncio.get_running_loop()
    broker = Broker(hashlib.sha256(TOKEN.encode()).digest(), "0", os.getpid(), loop.time())
    front = NativeFront(Exchange(broker, lambda note: None, loop.time, loop.call_later))
    home = Home(Access())
    bus = Bus(handlers or {}, home)
    with tempfile.TemporaryDirectory(prefix="gb-", dir="/tmp") as folder:
        try:
            endpoint = await front.listen(f"ipc://{folder}/bus")
            await bus.join(endpoint, token)
            await bus.ask_all("kernel.admit", TABLE)
            yield bus, home, front, endpoint
        finally:
            bus.close()
            front.close()
            await asyncio.sleep(0)


async def test_a_busy_broker_is_asked_again() -> None:
    """A call to a peer for which too much waits is repeated until there is room, and then answered once."""
    async with _on_a_bus() as (bus, _, front, endpoint):
        governor = Peer()
        await governor.join(endpoint, GOVERNOR)
        joined = front._exchange.broker.joined
        joined["r/governor"].queued_bytes = QUEUE_MARK_BYTES + 1
        asked = asyncio.create_task(bus.ask("r/governor", "governor.stop", RunRequest("r")))
        with pytest.raises(DeadlineExceeded):
            await bus.ask("r/governor", "governor.stop", RunRequest("r"), 0.08)
        assert not asked.done()
        joined["r/governor"].queued_bytes = 0
        await governor.reply()
        await asked
        assert governor.heard.empty()
        governor.link.close()


async def test_a_wrong_token_is_refused_with_the_reason() -> None:
    """A supervisor whose token is wrong is told so."""
    with pytest.raises(RemoteProtocolError, match="token: no participant is expected with it"):
        async with _on_a_bus("w" * 43):
            raise AssertionError("it may not join")


async def test_the_end_of_the_broker_answers_everything() -> None:
    """When the broker goes, open calls fail, later ones too, and the listener hears of it once."""
    async with _on_a_bus() as (bus, home, _, _):
        asked = asyncio.create_task(bus.ask("", "kernel.info", Nothing()))
        await asyncio.sleep(0)
        bus.lose("it has gone")
        with pytest.raises(PeerLost, match="it has gone"):
            await asked
        with pytest.raises(PeerLost, match="it has gone"):
            await bus.ask("", "kernel.info", Nothing())
        bus.tell("@r/events", RunEvent("run.ended", {}))

    assert ["it has gone"] == home.closed


@pytest.mark.parametrize(
    ("call", "said"), [("kernel.need", b"RuntimeError: boom"), ("kernel.ended", b"the supervisor knows no call")]
)
async def test_a_caller_is_always_answered(call: str, said: bytes) -> None:
    """A handler that raises, and an unknown call, are answered with ERROR."""

    async def boom(peer: str, request: Any) -> Any:
        raise RuntimeError("boom")

    async with _on_a_bus(handlers={"kernel.need": boom}) as (_, _, _, endpoint):
        governor = Peer()
        await governor.join(endpoint, GOVERNOR)
        governor.link.send([b"", encode_head(Head(Verb.CALL, 9, call)), codec_of(Need).encode(Need("r", 0))])
        head, frames = await governor.next()
        assert (Verb.ERROR, 9) == (head.verb, head.serial)
        assert said in frames[2]
        governor.link.close()


async def test_an_absent_peer_is_waited_for() -> None:
    """A call to a peer that is lost and will return is repeated, whatever its time, and answered once."""
    async with _on_a_bus() as (bus, _, _, endpoint):
        governor = Peer()
        await governor.join(endpoint, GOVERNOR)
        asked = asyncio.create_task(bus.ask("r/governor", "governor.stop", RunRequest("r"), 0.2))
        first, _ = await governor.next()
        governor.link.close()
        await asyncio.wait([asked], timeout=0.5)  # it is away for longer than an answer may take
        assert not asked.done()
        await governor.join(endpoint, GOVERNOR)
        again = await governor.reply()
        assert (first.serial, first.call) == (again.serial, again.call)
        await asked
        governor.link.close()


async def test_a_call_is_carried_out_once() -> None:
    """A call that comes again while it is carried out is dropped; later it is answered from memory."""
    begun, go, carried_out = asyncio.Event(), asyncio.Event(), list[Need]()

    async def need(peer: str, request: Need) -> Done:
        carried_out.append(request)
        begun.set()
        await go.wait()
        return Done()

    async with _on_a_bus(handlers={"kernel.need": need}) as (_, _, _, endpoint):
        governor = Peer()
        await governor.join(endpoint, GOVERNOR)
        frames = [b"", encode_head(Head(Verb.CALL, 9, "kernel.need")), codec_of(Need).encode(Need("r", 0))]
        for _ in range(2):
            governor.link.send(frames)
        await begun.wait()
        go.set()
        first, _ = await governor.next()
        governor.link.send(frames)
        again, _ = await governor.next()
        assert governor.heard.empty()
        governor.link.close()

    assert [Need("r", 0)] == carried_out
    assert [(Verb.REPLY, 9)] * 2 == [(first.verb, first.serial), (again.verb, again.serial)]


# -- the broker of a hub -----------------------------------------------------------------------------------------------
@contextlib.asynccontextmanager
async def _hub(handlers: Any = None) -> AsyncIterator[tuple[Home, Hub, Local, list[str]]]:
    """Yield a hub that is not open, what it belongs to, and the endpoints for it."""
    with tempfile.TemporaryDirectory(prefix="gh-", dir="/tmp") as folder:
        launcher = Local({}, preload=())  # nobody is forked
        await launcher.open()
        home = Home(Access(False))
        bus, log = Bus(handlers or {}, home), Path(folder) / "broker.out"
        hub = home.hub = Hub(launcher, home.access, home, bus, log)
        try:
            yield home, hub, launcher, [f"ipc://{folder}/bus", "tcp://127.0.0.1:0"]
        finally:
            await hub.close()
            assert [] == await launcher.close()
        assert not (Path(folder) / "bus").exists()


@contextlib.asynccontextmanager
async def _home(handlers: Any = None) -> AsyncIterator[tuple[Home, Hub, list[str]]]:
    """Yield a hub that is open, with its endpoints as bound."""
    async with _hub(handlers) as (home, hub, _, endpoints):
        yield home, hub, (await hub.open(endpoints))["endpoints"]


async def _kill(home: Home, hub: Hub, number: int = signal.SIGKILL) -> None:
    """Kill the broker and wait for its successor."""
    assert hub.process is not None
    former = hub.process
    home.returned.clear()
    former.signal(number)
    async with asyncio.timeout(WAIT_S):
        await home.returned.wait()
    assert hub.process is not former


@pytest.mark.parametrize("kills", [1, 3])
async def test_a_first_broker_that_is_killed_is_replaced(kills: int) -> None:
    """Whoever opens the hub finds another broker, and hears of no loss: nothing had begun."""
    async with _hub() as (home, hub, launcher, endpoints):
        killed = set[int]()

        async def kill() -> None:
            while len(killed) < kills:
                for process in list(launcher.children.values()):
                    if process.name == "broker" and process.pid not in killed:
                        killed.add(process.pid)
                        process.signal(signal.SIGKILL)
                await asyncio.sleep(0.001)

        killing = asyncio.create_task(kill())
        async with asyncio.timeout(WAIT_S):
            await hub.open(endpoints)
            await killing
        assert (await hub.bus.ask("", "kernel.info", Nothing())).pid not in killed
        assert [] == home.losses


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_lost_broker_is_replaced(number: int) -> None:
    """Another broker serves at the same endpoints; participants join again, and nobody is told of a failure."""
    async with _home() as (home, hub, endpoints):
        governor, muscle = Peer(), Peer()
        assert Verb.WELCOME is (await governor.join(endpoints[0], GOVERNOR)).verb
        begun_s = asyncio.get_running_loop().time()
        assert hub.there_since(begun_s)
        await _kill(home, hub, number)
        await governor.ended.wait()
        assert (False, False) == (hub.there_since(begun_s), hub.bus.closed)
        for peer, hello, endpoint in zip((governor, muscle), (GOVERNOR, MUSCLE), endpoints, strict=True):
            assert Verb.WELCOME is (await peer.join(endpoint, hello)).verb
        info = await hub.bus.ask("", "kernel.info", Nothing())
        assert hub.process is not None
        assert (hub.process.pid, 3) == (info.pid, info.peers)
        assert {"r/governor", "r/muscle/ada/0"} == set(home.joined)
    [(how, returns)] = home.losses
    assert returns
    assert how.startswith("was killed by SIGKILL" if number == signal.SIGKILL else "ended with exit status 0")


async def test_calls_that_a_broker_took_with_it_are_repeated() -> None:
    """An open call comes again with its serial through the next broker, and is answered once."""
    async with _home() as (home, hub, endpoints):
        governor = Peer()
        await governor.join(endpoints[0], GOVERNOR)
        asked = asyncio.ensure_future(hub.bus.ask("r/governor", "governor.stop", RunRequest("r"), 3.0))
        first, _ = await governor.next()
        await _kill(home, hub)
        await governor.join(endpoints[0], GOVERNOR)
        again = await governor.reply()
        assert (first.serial, "governor.stop") == (again.serial, again.call)
        assert isinstance(await asked, Done)


async def test_a_broker_that_is_not_wanted_is_not_replaced() -> None:
    """Where nothing outlives it, calls fail with how it ended, and nobody waits at its endpoints."""
    async with _home() as (home, hub, endpoints):
        home.wants = False
        asked = asyncio.ensure_future(hub.bus.ask("r/governor", "governor.stop", RunRequest("r"), None))
        assert hub.process is not None
        hub.process.signal(signal.SIGKILL)
        with pytest.raises(PeerLost):
            await asked
        async with asyncio.timeout(WAIT_S):
            await home.failed.wait()
        assert [("was killed by SIGKILL", False)] == home.losses
        with pytest.raises(PeerLost):
            await AsyncLink.connect(endpoints[1], lambda frames: None, lambda reason: None)


@pytest.mark.long
async def test_a_broker_that_dies_too_often_is_given_up() -> None:
    """Five brokers within a minute are replaced, the sixth is not."""
    async with _home() as (home, hub, _):
        for _ in range(RESTARTS_PER_NAME):
            await _kill(home, hub)
        assert hub.process is not None
        hub.process.signal(signal.SIGKILL)
        async with asyncio.timeout(WAIT_S):
            await home.failed.wait()
        assert [True] * RESTARTS_PER_NAME + [False] == [returns for _, returns in home.losses]


@pytest.mark.long
async def test_a_broker_that_does_not_come_up_again_is_given_up() -> None:
    """Brokers that die before they are joined are counted, however long the one before them had lived."""
    async with _hub() as (home, hub, launcher, endpoints):
        await hub.open(endpoints)
        hub.since_s -= 2 * RESTARTS_WITHIN_S
        killed = set[int]()
        async with asyncio.timeout(WAIT_S):
            while not home.failed.is_set():
                for process in list(launcher.children.values()):
                    if process.name == "broker" and process.pid not in killed:
                        killed.add(process.pid)
                        process.signal(signal.SIGKILL)
                await asyncio.sleep(0.001)

    assert 1 + RESTARTS_PER_NAME == len(killed)


@pytest.mark.parametrize("turns", [0, 20])
async def test_a_hub_that_is_closed_at_a_loss_leaves_nothing(turns: int) -> None:
    """A hub that is closed while another broker comes up leaves no process behind."""
    async with _home() as (home, hub, _):
        lost = asyncio.Event()
        home.at_loss = lost.set
        assert hub.process is not None
        hub.process.signal(signal.SIGKILL)
        await lost.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
