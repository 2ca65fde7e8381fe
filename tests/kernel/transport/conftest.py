"""A broker with all of its fronts in a thread, or in memory, and peers that come to it."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ganglion.broker.core import Broker
from ganglion.broker.link import Admission, Note
from ganglion.broker.relay import Relay
from ganglion.transport import loop
from ganglion.transport.blocking import BlockingLink
from ganglion.transport.curve import ClientKeys, new_pair
from ganglion.transport.exchange import Exchange
from ganglion.transport.memory import MemoryBus
from ganglion.transport.native import NativeFront
from ganglion.transport.relay import Uplink
from ganglion.transport.zmqfront import ZmqFront
from ganglion.transport.zmqlink import ZmqBlockingLink
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode, encode
from ganglion.wire.messages import Failure, Hello
from ganglion.wire.name import Role, peer_name
from ganglion.wire.verb import Verb

T = TypeVar("T")
SERVER, CLIENT, RELAY = new_pair(), new_pair(), new_pair()
KEYS = ClientKeys(SERVER.public, CLIENT.public, CLIENT.secret)
WAIT_S = 10.0  # nothing here takes so long unless it is broken


class Peer:
    """Be a peer that a test drives by hand; BEATs are answered on the way."""

    def __init__(self, link: Any, name: str, role: Role) -> None:
        self.link, self.name, self.role = link, name, role

    def send(self, to: str, head: Head, *frames: bytes) -> None:
        self.link.send([*encode(Envelope(to, head))[:2], *(frames or (b"",))])

    def receive(self) -> Envelope:
        deadline_s = time.monotonic() + WAIT_S
        while True:
            frames = self.link.receive(max(deadline_s - time.monotonic(), 0.0))
            assert frames is not None, f"{self.name} waited for nothing"
            envelope = decode(frames)
            if envelope.head.verb is not Verb.BEAT:
                return envelope
            self.send("", Head(Verb.BEAT, envelope.head.serial, "here"))

    def failure(self) -> str:
        """Return the kind of the ERROR that must come next."""
        envelope = self.receive()
        assert Verb.ERROR is envelope.head.verb
        return codec_of(Failure).decode(envelope.body).kind

    def hello(self) -> Envelope:
        """Say HELLO and return what is answered."""
        body = codec_of(Hello).encode(Hello(1, self.role.value, self.name, self.name))
        self.send("", Head(Verb.HELLO, 1), body)
        return self.receive()


class Bus:
    """Give peers of one run to a test: they connect in the way that `connect` leads."""

    def __init__(self, run: str, admit: Callable[[Admission], None], connect: Callable[[], Any]) -> None:
        self.run, self._admit, self.connect = run, admit, connect
        self.peers: list[Peer] = []

    def admit(self, role: Role, worker: int | None = 0) -> str:
        """Admit a peer and return its name, which is its token too."""
        name = peer_name(self.run, role, None if role is Role.CONTROLLER else "x", worker)
        digest = hashlib.sha256(name.encode()).digest()
        self._admit(Admission(name, role, self.run, digest, uid="x", worker=worker, curve_key=CLIENT.public))
        return name

    def peer(self, role: Role, worker: int | None = 0, connect: Callable[[], Any] | None = None) -> Peer:
        """Return a peer that is connected but has not joined."""
        name = self.admit(role, worker)  # first: an encrypted front asks for the key before anything is said
        peer = Peer((connect or self.connect)(), name, role)
        self.peers.append(peer)
        return peer

    def join(self, role: Role, worker: int | None = 0, connect: Callable[[], Any] | None = None) -> Peer:
        peer = self.peer(role, worker, connect)
        assert Verb.WELCOME is peer.hello().head.verb
        return peer

    def close(self) -> None:
        for peer in self.peers:
            peer.link.close()


class Station:
    """Run one broker with all fronts in a thread; `call` runs a function there."""

    def __init__(self, folder: Path) -> None:
        self.notes: list[Note] = []
        self.keys = KEYS  # of a client of the encrypted front
        self.endpoints: dict[str, str] = {}
        self.exchange: Exchange
        self.relay: Exchange  # of the relay
        self.uplinks: list[Uplink] = []
        self._still_s: float | None = None
        self._offset_s = 0.0
        self._runs = count(1)
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: loop.run(self._serve(folder)), daemon=True)
        self._thread.start()
        self._ready.result(WAIT_S)

    def clock(self) -> float:
        return (time.monotonic() if self._still_s is None else self._still_s) + self._offset_s

    @contextmanager
    def time_stopped(self) -> Iterator[None]:
        """Let the broker's time stand: nobody is silent, however long a busy machine takes."""
        self._still_s = began_s = time.monotonic()
        try:
            yield
        finally:
            self._offset_s -= time.monotonic() - began_s
            self._still_s = None

    async def _serve(self, folder: Path) -> None:
        self.loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        broker = Broker(b"", "test", 0, self.clock())
        self.exchange = Exchange(broker, self.notes.append, self.clock, self.loop.call_later)
        native, other = NativeFront(self.exchange), ZmqFront(self.exchange, SERVER.secret)
        relay = Relay("test", 0, self.clock())
        near = Exchange(relay, self.notes.append, self.clock, self.loop.call_later)
        self.relay, keys = near, ClientKeys(SERVER.public, RELAY.public, RELAY.secret)
        near.climb = lambda link: self.uplinks.append(Uplink(near, relay, link, self.endpoints["zmq"], keys))
        broker.admit(Admission("relay/1", Role.RELAY, "", b"", curve_key=RELAY.public))
        below = NativeFront(near)
        self.zmq_front = other
        try:
            self.endpoints["ipc"] = await native.listen(f"ipc://{folder}/native.sock")
            self.endpoints["tcp"] = await native.listen("tcp://127.0.0.1:0")
            self.endpoints["zmq"] = other.listen("tcp://127.0.0.1:0")
            self.endpoints["relay"] = await below.listen(f"ipc://{folder}/relay.sock")
            self._ready.set_result(None)
            while not self._ended.is_set():
                near.tick()
                self.exchange.tick()
                try:
                    await asyncio.wait_for(self._ended.wait(), 0.25)
                except TimeoutError:
                    continue
        finally:
            below.close()
            for uplink in self.uplinks:
                uplink.finish("the end")
            native.close()
            other.close()
            for _ in range(5):  # who has just been accepted is to be handed over before the loop ends
                await asyncio.sleep(0)

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in the broker's thread and return what it returns."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:  # noqa: BLE001  # handed to who waits
                done.set_exception(error)

        self.loop.call_soon_threadsafe(run)
        return done.result(WAIT_S)

    def pass_time(self, seconds: float) -> None:
        """Let the broker's time go on, in steps so small that it does not take itself for a sleeper."""

        def run() -> None:
            for _ in range(round(seconds / 0.5)):
                self._offset_s += 0.5
                self.relay.tick()
                self.exchange.tick()

        self.call(run)

    def bus(self, front: str) -> Bus:
        """Return a bus of a new run, whose peers come to one front."""
        ways = count()

        def connect() -> Any:
            endpoint = self.endpoints[front if front != "mixed" else ("relay", "ipc")[next(ways) % 2]]
            if front == "zmq":
                return ZmqBlockingLink.connect(endpoint, KEYS, WAIT_S)
            return BlockingLink.connect(endpoint, WAIT_S)

        return Bus(
            f"r{next(self._runs)}", lambda admission: self.call(lambda: self.exchange.broker.admit(admission)), connect
        )

    def close(self) -> None:
        try:
            self.call(self.exchange.broker.check)
            self.call(self.relay.broker.check)
        finally:
            self.loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(WAIT_S)


@pytest.fixture(scope="session")
def station(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Station]:
    """Run one broker for all tests; each has a run of its own."""
    station = Station(tmp_path_factory.mktemp("station"))
    yield station
    station.close()


def memory_bus() -> Bus:
    """Return a bus in memory."""
    memory = MemoryBus()
    return Bus("r", memory.exchange.broker.admit, memory.connect)


@pytest.fixture(params=["ipc", "tcp", "zmq", "memory", "relay", "mixed"])
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    """Return a bus on each transport in turn, through a relay, and between a relay and the broker."""
    bus = memory_bus() if request.param == "memory" else request.getfixturevalue("station").bus(request.param)
    yield bus
    bus.close()


@pytest.fixture
def native(station: Station) -> Iterator[Bus]:
    """Return a bus on the native front."""
    bus = station.bus("ipc")
    yield bus
    bus.close()
