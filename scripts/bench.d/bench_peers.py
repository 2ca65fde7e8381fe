"""Many peers at one broker: 2,000 that are idle and 200 that talk, against 8 that talk; memory of each.

A pair is a controller and an environment with one call outstanding, as in lockstep. What counts is the processor time
of the broker for each message, with all that it asks of idle peers meanwhile. The limit of connections is raised.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bus import RUN, broker, hello
from load import BODY, READ_BYTES
from measure import Options, Row, compare, interleave, placed, process, python

from ganglion.transport.zmtp import GREETING, encode, encode_command
from ganglion.wire.envelope import Envelope, Head
from ganglion.wire.envelope import encode as encode_envelope
from ganglion.wire.name import Role, peer_name
from ganglion.wire.verb import Verb

GATE = 1 / 1.3
FEW, MANY, IDLE, MOST = 4, 100, 2000, 4096  # pairs, pairs, peers, connections
JOINED = b"limits"  # a word of WELCOME
_READY = b"\x0bSocket-Type\0\0\0\x06DEALER\x08Identity"


def name_of(role: str, number: int) -> str:
    """Return the name of a peer."""
    return peer_name(RUN, Role(role), "e" if role == "environment" else None, number)


def greeting(name: str, role: str) -> bytes:
    """Return all that a peer says until it has joined; its token is that of its name."""
    ready = _READY + len(name).to_bytes(4, "big") + name.encode()
    return GREETING + encode_command(b"READY", ready) + b"".join(encode(hello(name, name, role)))


def rows(options: Options) -> list[Row]:
    """Measure a broker with few peers and one with many in turns."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, MOST + 256)), hard))
    with placed(False), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ganglion-bench-")))
        few = stack.enter_context(_broker(folder / "few.sock", FEW, 0))
        many = stack.enter_context(_broker(folder / "many.sock", MANY, IDLE))
        rates = interleave({"few": lambda: few(options.round_s), "many": lambda: many(options.round_s)}, options.rounds)
        title = f"peers, {IDLE} idle and {2 * MANY} active, messages per processor second, x {2 * FEW} active"
        return [compare(title, rates["many"], rates["few"], GATE, note=many.note)]


class _Pairs:
    """Let pairs talk, each with one call outstanding; measures messages per second of the broker's processor time."""

    def __init__(self, path: Path, pid: int, pairs: int) -> None:
        self.note = ""
        self._path, self._pid, self._pairs = path, pid, pairs

    def __call__(self, round_s: float) -> float:
        """Return messages per second of processor time; who does not talk would have to answer that it is there."""
        with ExitStack() as stack:
            return self._talk(stack, round_s)

    def _talk(self, stack: ExitStack, round_s: float) -> float:
        waiting, sides = stack.enter_context(select.epoll()), dict[int, tuple[socket.socket, bytes, int]]()
        left: dict[int, int] = {}

        def serve(span_s: float) -> int:
            done = 0
            for descriptor, _ in waiting.poll(span_s):
                end, text, size_in = sides[descriptor]
                data = end.recv(READ_BYTES)
                assert data, "the broker closed the connection"
                left[descriptor] += len(data)
                if left[descriptor] >= size_in:
                    left[descriptor] -= size_in
                    end.sendall(text)
                    done += 1
            return done

        for number in range(self._pairs):
            names = name_of("controller", number), name_of("environment", number)
            roles = ("controller", "environment")
            ends = [stack.enter_context(_attach(self._path, *who)) for who in zip(names, roles, strict=True)]
            says = [_wire(names[1], Verb.CALL, "environment.update"), _wire(names[0], Verb.REPLY)]
            for end, text, other in zip(ends, says, (1, 0), strict=True):
                sides[end.fileno()] = (end, text, len(says[other]) + len(names[other]) - len(names[1 - other]))
                left[end.fileno()] = 0
                waiting.register(end, select.EPOLLIN)
            ends[0].sendall(says[0])
            serve(0.0)
        done, spent_s, begin_s = 0, _spent_s(self._pid), time.perf_counter()
        while time.perf_counter() - begin_s < round_s:
            done += serve(10.0)
        return done / (_spent_s(self._pid) - spent_s)


def _wire(to: str, verb: Verb, call: str = "") -> bytes:
    head = Head(verb, 250, call, (0, 0, 3, 1, 250, 0))
    return b"".join(encode(encode_envelope(Envelope(to, head, BODY))))


def _attach(path: Path, name: str, role: str) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.settimeout(10.0)
    connected.connect(str(path))
    connected.sendall(greeting(name, role))
    got = b""
    while JOINED not in got:
        data = connected.recv(READ_BYTES)
        assert data, f"the broker closed the connection: {got!r:.200}"
        got += data
    return connected


@contextmanager
def _broker(path: Path, pairs: int, idle: int) -> Iterator[_Pairs]:
    """Run a broker with pairs that talk and peers that are idle."""
    roles = [("controller", pairs), ("environment", pairs + idle)]
    peers = {
        name: (name, Role(role), "e" if role == "environment" else None)
        for role, most in roles
        for name in (name_of(role, number) for number in range(most))
    }
    before = _children()
    with ExitStack() as stack:
        stack.enter_context(broker(f"ipc://{path}", peers, MOST))
        (pid,) = _children() - before
        alone = _memory(pid)
        if idle:
            stack.enter_context(process(python("idle_peers.py", str(path), str(idle), str(pairs))))
        each = (_memory(pid) - alone) / max(idle, 1)
        found = _Pairs(path, pid, pairs)
        found.note = f"{each / 1024:.1f} KiB of memory for each idle peer, {alone / 2**20:.0f} MiB without any"
        yield found


def _children() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def _memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _spent_s(pid: int) -> float:
    """Return seconds of processor time, to the nanosecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
