from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import LaunchError, PeerLost
from ganglion.limits import RESTARTS_PER_NAME
from ganglion.supervisor.bus import Bus, Hub, Listener
from ganglion.supervisor.child import exit_text
from ganglion.supervisor.connection import Access
from ganglion.supervisor.launcher import Launcher
from ganglion.transport.asynclink import AsyncLink
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import Admit, Done, Hello, Info, Joined, Need, Nothing, RunEvent, RunRequest
from ganglion.wire.verb import Verb

WAIT_S = 20.0  # nothing here takes so long unless it is broken


class Home(Listener):
    """Want a broker, let two participants in, and take down what is heard."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.wants = True
        self.table = [
            Admit("r/governor", "governor", "r", hashlib.sha256(b"g").digest(), 3, returns=True),
            Admit("r/muscle/ada/0", "muscle", "r", hashlib.sha256(b"m").digest(), 1, "ada", 0, returns=True),
        ]
        self.losses: list[tuple[str, bool]] = []
        self.returned, self.failed = asyncio.Event(), asyncio.Event()
        self.joined: list[str] = []
        self.events: list[str] = []
        self.at_loss: Callable[[], None] = lambda: None
        self.hub: Hub

    def wants_broker(self) -> bool:
        return self.wants

    def admissions(self) -> list[Admit]:
        return [*self.access.admissions(), *self.table]

    def interests(self) -> tuple[list[str], list[str]]:
        return ["@r/events"], [admit.name for admit in self.table]

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

    def told(self, peer: str, event: RunEvent) -> None:
        self.events.append(event.event)

    def bus_closed(self, reason: str) -> bool:
        return self.hub.bus_closed()


class Peer:
    """Be a participant that a test drives by hand."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[Head, list[bytes]]] = asyncio.Queue()
        self.ended = asyncio.Event()
        self.link: Any = None

    async def join(self, endpoint: str, hello: Hello) -> tuple[Head, list[bytes]]:
        """Connect, say HELLO and return what is answered."""
        self.ended.clear()
        self.link = await AsyncLink.connect(endpoint, self._hear, lambda reason: self.ended.set(), WAIT_S)
        self.link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
        return await self.next()

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


GOVERNOR = Hello(1, "governor", "r/governor", "g")
MUSCLE = Hello(1, "muscle", "r/muscle/ada/0", "m")


@contextlib.asynccontextmanager
async def _home(remote: bool = False, handlers: Any = None) -> AsyncIterator[tuple[Home, Hub, dict[str, list[str]]]]:
    with tempfile.TemporaryDirectory(prefix="gh-", dir="/tmp") as folder:
        launcher = Launcher({}, preload=())  # nobody is forked
        await launcher.open()
        access = Access(remote)
        home = Home(access)
        bus = Bus(handlers or {}, home)
        hub = home.hub = Hub(
            launcher, access, home, bus, lambda process: exit_text(process.code), Path(folder) / "broker.out"
        )
        try:
            where = ["tcp://127.0.0.1:0"] if remote else []
            bound = await hub.open([f"ipc://{folder}/bus", "tcp://127.0.0.1:0"], where)
            yield home, hub, bound
        finally:
            await hub.close()
            assert [] == await launcher.close()
        assert not (Path(folder) / "bus").exists()


async def _killed(home: Home, hub: Hub, number: int = signal.SIGKILL) -> None:
    assert hub.process is not None
    former = hub.process
    home.returned.clear()
    former.signal(number)
    async with asyncio.timeout(WAIT_S):
        await home.returned.wait()
    assert hub.process is not former


@pytest.mark.parametrize("kills", [1, 3])
def test_a_first_broker_that_is_killed_is_replaced(kills: int) -> None:
    """Whoever opens it finds another one, and nobody hears of a loss: nothing had begun."""

    async def body() -> None:
        with tempfile.TemporaryDirectory(prefix="gh-", dir="/tmp") as folder:
            launcher, killed = Launcher({}, preload=()), set[int]()
            await launcher.open()
            access = Access(False)
            home = Home(access)
            bus = Bus({}, home)
            hub = home.hub = Hub(launcher, access, home, bus, lambda process: exit_text(process.code))

            async def kill() -> None:
                while len(killed) < kills:
                    for process in list(launcher.processes.values()):
                        if process.name == "broker" and process.pid not in killed:
                            killed.add(process.pid)
                            process.signal(signal.SIGKILL)
                    await asyncio.sleep(0.001)

            killing = asyncio.create_task(kill())
            try:
                async with asyncio.timeout(WAIT_S):
                    await hub.open([f"ipc://{folder}/bus"])
                    await killing
                info = await bus.ask("", "kernel.info", Nothing())
                assert info.pid not in killed
                assert [] == home.losses
            finally:
                await hub.close()
                assert [] == await launcher.close()

    asyncio.run(body())


def test_a_first_broker_that_is_killed_again_and_again_is_given_up() -> None:
    """As often as a later one is replaced, and no longer."""

    async def body() -> None:
        with tempfile.TemporaryDirectory(prefix="gh-", dir="/tmp") as folder:
            launcher = Launcher({}, preload=())  # nobody is forked
            await launcher.open()
            access = Access(False)
            home = Home(access)
            hub = home.hub = Hub(launcher, access, home, Bus({}, home), lambda process: exit_text(process.code))
            for _ in range(RESTARTS_PER_NAME):  # it was before, just now
                hub._restarts.next_s("broker", asyncio.get_running_loop().time())

            async def kill() -> None:
                while True:
                    for process in list(launcher.processes.values()):
                        if process.name == "broker":
                            process.signal(signal.SIGKILL)
                    await asyncio.sleep(0.001)

            killing = asyncio.create_task(kill())
            try:
                with pytest.raises(LaunchError, match="killed by SIGKILL"):
                    await hub.open([f"ipc://{folder}/bus"])
            finally:
                killing.cancel()
                await hub.close()
                assert [] == await launcher.close()

    asyncio.run(body())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_lost_broker_is_replaced(number: int) -> None:
    """Another broker serves at the same endpoints; participants come again, and nobody is told of a failure."""

    async def body() -> None:
        async with _home() as (home, hub, bound):
            governor, muscle = Peer(), Peer()
            head, _ = await governor.join(bound["endpoints"][0], GOVERNOR)
            assert Verb.WELCOME is head.verb
            assert hub.there_since(asyncio.get_running_loop().time())
            moment_s = asyncio.get_running_loop().time()
            await _killed(home, hub, number)
            await governor.ended.wait()
            assert not hub.there_since(moment_s)
            assert not hub.bus.closed
            for peer, hello, endpoint in zip((governor, muscle), (GOVERNOR, MUSCLE), bound["endpoints"], strict=True):
                head, _ = await peer.join(endpoint, hello)
                assert Verb.WELCOME is head.verb
            info = await hub.bus.ask("", "kernel.info", Nothing())
            assert isinstance(info, Info)
            assert hub.process is not None
            assert (hub.process.pid, 3) == (info.pid, info.peers)
            assert {"r/governor", "r/muscle/ada/0"} == set(home.joined)
        [(how, returns)] = home.losses
        assert returns
        assert how.startswith("was killed by SIGKILL" if number == signal.SIGKILL else "ended with exit status 0")

    asyncio.run(body())


def test_what_was_asked_is_asked_again() -> None:
    """A question that a broker took with it is said again with its serial, and answered once."""

    async def body() -> None:
        async with _home() as (home, hub, bound):
            governor = Peer()
            await governor.join(bound["endpoints"][0], GOVERNOR)
            asked = asyncio.ensure_future(hub.bus.ask("r/governor", "governor.stop", RunRequest("r"), 3.0))
            first, _ = await governor.next()
            await _killed(home, hub)
            await governor.join(bound["endpoints"][0], GOVERNOR)
            again, frames = await governor.next()
            assert (first.serial, "governor.stop") == (again.serial, again.call)
            governor.link.send([frames[0], encode_head(Head(Verb.REPLY, again.serial)), b""])
            assert isinstance(await asked, Done)

    asyncio.run(body())


def test_what_we_are_asked_twice_is_done_once() -> None:
    """A participant that says a question again to another broker gets the answer of the first time."""
    needs: list[Need] = []

    async def need(peer: str, request: Need) -> Done:
        needs.append(request)
        return Done()

    async def body() -> None:
        async with _home(handlers={"kernel.need": need}) as (home, hub, bound):
            governor = Peer()
            question = [b"", encode_head(Head(Verb.CALL, 9, "kernel.need")), codec_of(Need).encode(Need("r", 1))]
            for number in range(2):
                if number:
                    await _killed(home, hub)
                await governor.join(bound["endpoints"][0], GOVERNOR)
                governor.link.send(question)
                head, _ = await governor.next()
                assert (Verb.REPLY, 9) == (head.verb, head.serial)

    asyncio.run(body())
    assert 1 == len(needs)


def test_a_broker_that_nobody_wants_is_not_replaced() -> None:
    """Without anybody who outlives it, questions fail with how it ended, and nobody waits at its endpoints."""

    async def body() -> None:
        async with _home() as (home, hub, bound):
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
                await AsyncLink.connect(bound["endpoints"][1], lambda frames: None, lambda reason: None)

    asyncio.run(body())


@pytest.mark.long
def test_a_broker_that_dies_too_often_is_given_up() -> None:
    """Five brokers within a minute are replaced, the sixth is not."""

    async def body() -> None:
        async with _home() as (home, hub, _):
            for _ in range(RESTARTS_PER_NAME):
                await _killed(home, hub)
            assert hub.process is not None
            hub.process.signal(signal.SIGKILL)
            async with asyncio.timeout(WAIT_S):
                await home.failed.wait()
            assert [True] * RESTARTS_PER_NAME + [False] == [returns for _, returns in home.losses]

    asyncio.run(body())


@pytest.mark.parametrize("when", ["at the loss", "while it comes up"])
def test_the_end_comes_first(when: str) -> None:
    """A hub that is closed while another broker comes up leaves nobody behind."""

    async def body() -> None:
        async with _home() as (home, hub, _):
            lost = asyncio.Event()
            home.at_loss = lost.set
            assert hub.process is not None
            hub.process.signal(signal.SIGKILL)
            await lost.wait()
            for _ in range(0 if when == "at the loss" else 20):
                await asyncio.sleep(0)

    asyncio.run(body())
