"""The load generator: prebuilt ZMTP bytes over raw sockets, the same for every broker."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from bus import PEERS, RUN, hello

from ganglion.transport.zmtp import GREETING, encode, encode_command
from ganglion.wire.envelope import Envelope, Head
from ganglion.wire.envelope import encode as encode_envelope
from ganglion.wire.verb import Verb

BODY = bytes(range(128))  # about what a step of a small environment needs
POSITION = (0, 0, 3, 1, 250, 0)
WINDOW = 64
READ_BYTES = 262_144
Meter = Callable[["Target", float], float]


def wire(to: str, verb: Verb, call: str = "") -> bytes:
    """Return one message as bytes."""
    return b"".join(encode(encode_envelope(Envelope(to, Head(verb, 250, call, POSITION), BODY))))


@dataclass(frozen=True, slots=True)
class Target:
    """Say where a broker is, and whether one has to join it.

    A broker that does not ask for HELLO routes by the identity of the connection. ROUTER refuses an identity that it
    still holds for a connection that has just ended, so there each round has names of its own, as long as ours.
    """

    path: str
    joins: bool
    round: Iterator[int] = field(default_factory=count)

    def names(self) -> tuple[str, str, str]:
        """Return the names of controller, environment and store for one round."""
        found = [PEERS[peer][0] for peer in ("controller", "environment", "store")]
        if not self.joins:
            prefix = f"{next(self.round):0{len(RUN)}d}"
            found = [prefix + name.removeprefix(RUN) for name in found]
        return found[0], found[1], found[2]


def attach(target: Target, peer: str, name: str) -> socket.socket:
    """Connect and shake hands as a DEALER whose identity is the peer's name; join where the broker wants it."""
    role, path, joins = PEERS[peer][1], target.path, target.joins
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.settimeout(10.0)
    connected.connect(path)
    identity = name.encode()
    ready = b"\x0bSocket-Type\0\0\0\x06DEALER\x08Identity" + len(identity).to_bytes(4, "big") + identity
    connected.sendall(GREETING + encode_command(b"READY", ready))
    _until(connected, b"ROUTER")
    if joins:
        connected.sendall(b"".join(encode(hello(peer, name, role.value))))
        _until(connected, b"limits")
    return connected


def _until(connected: socket.socket, word: bytes) -> None:
    """Read until `word` has come, and what came with it."""
    got = b""
    while word not in got:
        data = connected.recv(READ_BYTES)
        if not data:
            raise RuntimeError(f"the broker closed the connection before {word!r}")
        got += data
    connected.settimeout(0.02)  # the rest of the same message
    try:
        while connected.recv(READ_BYTES):
            pass
    except TimeoutError:
        connected.settimeout(10.0)


def single(target: Target, seconds: float) -> float:
    """Return round trips per second with one CALL outstanding."""
    a, b, _ = target.names()
    with attach(target, "controller", a) as asks, attach(target, "environment", b) as answers:
        call, reply = wire(b, Verb.CALL, "environment.update"), wire(a, Verb.REPLY)
        # The name in front changes from destination to source; nothing else does.
        call_in, reply_in = len(call) + len(a) - len(b), len(reply) + len(b) - len(a)
        done, begin_s, now_s = 0, time.perf_counter(), 0.0
        while now_s - begin_s < seconds:
            for _ in range(50):
                asks.sendall(call)
                _exactly(answers, call_in)
                answers.sendall(reply)
                _exactly(asks, reply_in)
            done += 50
            now_s = time.perf_counter()
        return done / (now_s - begin_s)


def _exactly(connected: socket.socket, size: int) -> None:
    got = len(connected.recv(READ_BYTES))
    while got < size:
        data = connected.recv(READ_BYTES)
        assert data, "the broker closed the connection"
        got += len(data)
    assert got == size, f"expected {size} bytes, found {got}"


def window(target: Target, seconds: float) -> float:
    """Return round trips per second with 64 CALLs outstanding."""
    a, b, _ = target.names()
    with attach(target, "controller", a) as asks, attach(target, "environment", b) as answers:
        call, reply = wire(b, Verb.CALL, "environment.update"), wire(a, Verb.REPLY)
        call_in, reply_in = len(call) + len(a) - len(b), len(reply) + len(b) - len(a)
        sides = {
            answers.fileno(): (answers, call_in, reply * WINDOW, len(reply)),
            asks.fileno(): (asks, reply_in, call * WINDOW, len(call)),
        }
        left = dict.fromkeys(sides, 0)
        waiting = select.epoll()
        for descriptor in sides:
            waiting.register(descriptor, select.EPOLLIN)
        asks.sendall(call * WINDOW)
        done, begin_s, now_s = 0, time.perf_counter(), 0.0
        while now_s - begin_s < seconds:
            for _ in range(20):
                for descriptor, _event in waiting.poll(10.0):
                    side, size_in, blob, size_out = sides[descriptor]
                    data = side.recv(READ_BYTES)
                    assert data, "the broker closed the connection"
                    whole, left[descriptor] = divmod(left[descriptor] + len(data), size_in)
                    if whole:
                        side.sendall(memoryview(blob)[: whole * size_out])
                        if side is asks:
                            done += whole
            now_s = time.perf_counter()
        waiting.close()
        return done / (now_s - begin_s)


def one_way(target: Target, seconds: float) -> float:
    """Return TELLs per second from one peer to another."""
    a, _, c = target.names()
    with attach(target, "controller", a) as tells, attach(target, "store", c) as takes:
        tell = wire(c, Verb.TELL, "record.batch")
        blob = memoryview(tell * 512)
        size_in = len(tell) + len(a) - len(c)
        tells.setblocking(False)
        takes.setblocking(False)
        waiting = select.poll()
        waiting.register(tells, select.POLLOUT)
        waiting.register(takes, select.POLLIN)
        sent, got, begin_s, now_s = 0, 0, time.perf_counter(), 0.0
        while now_s - begin_s < seconds:
            for descriptor, _event in waiting.poll(10_000):
                if descriptor == takes.fileno():
                    data = takes.recv(READ_BYTES)
                    assert data, "the broker closed the connection"
                    got += len(data)
                else:
                    sent = (sent + tells.send(blob[sent:])) % len(blob)
            now_s = time.perf_counter()
        return got / size_in / (now_s - begin_s)


METERS: dict[str, Meter] = {"1 outstanding": single, "64 outstanding": window, "one-way": one_way}
