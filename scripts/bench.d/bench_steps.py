"""The bare step loop over the bus, against what a unix socket on uvloop can do at all."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgpack
from bus import PEERS, broker, join
from measure import Options, Row, compare, interleave, placed, process, python

from ganglion.errors import PeerLost
from ganglion.transport.blocking import BlockingLink
from ganglion.wire.verb import Verb

GATE = 0.09  # a step is two routed round trips, eight hops; the reference is one direct round trip of two
BODY = msgpack.packb({"readings": [[0.5] * 8], "rewards": [[1.0]], "terminated": False})
CALL, REPLY, BEAT = int(Verb.CALL), int(Verb.REPLY), int(Verb.BEAT)
pack = msgpack.Packer(autoreset=True).pack
POSITION = (0, 0, 3, 1, 250, 0)


def rows(options: Options) -> list[Row]:
    """Measure the loop and the reference in turns, pinned and free."""
    return [row for pinned in (True, False) for row in _measure(options, pinned)]


@contextmanager
def bare_loop(folder: Path) -> Iterator[Callable[[float], float]]:
    """Give the meter of the bare step loop: a broker, two echoing peers, and a caller."""
    with ExitStack() as stack:
        endpoint = stack.enter_context(broker(f"ipc://{folder}/broker.sock"))
        for peer in ("muscle", "environment"):
            stack.enter_context(_echo(endpoint, peer))
        yield lambda seconds: _steps_of_a_guest(endpoint, seconds)


def _steps_of_a_guest(endpoint: str, seconds: float) -> float:
    """Join for one round only: between rounds nobody here would answer the broker's question whether we are there."""
    link = BlockingLink.connect(endpoint)
    try:
        join(link, "controller", PEERS["controller"][0], "controller")
        return _steps(link, seconds)
    finally:
        link.close()


def _measure(options: Options, pinned: bool) -> list[Row]:
    place = "pinned" if pinned else "free"
    with placed(pinned), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ganglion-bench-")))
        bare = stack.enter_context(bare_loop(folder))
        stack.enter_context(process(python("reference_uvloop.py", f"{folder}/raw.sock")))
        raw = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        raw.connect(f"{folder}/raw.sock")
        rates = interleave(
            {"steps": lambda: bare(options.round_s), "raw": lambda: _ping(raw, options.round_s)}, options.rounds
        )
        name = f"steps, {place}, x uvloop unix-socket ping-pong"
        return [compare(name, rates["steps"], rates["raw"], GATE if pinned else None)]


def _steps(link: BlockingLink, seconds: float) -> float:
    """Return steps per second: ask the muscle, then the environment."""
    calls = ((PEERS["muscle"][0].encode(), "muscle.act"), (PEERS["environment"][0].encode(), "environment.update"))
    serial, count, begin_s, now_s = 1, 0, time.perf_counter(), 0.0
    while now_s - begin_s < seconds:
        for _ in range(20):
            for to, call in calls:
                serial += 1
                link.send((to, pack([CALL, serial, call, POSITION]), BODY))
                while not _is_reply(link, serial):
                    pass
        count += 20
        now_s = time.perf_counter()
    return count / (now_s - begin_s)


def _is_reply(link: BlockingLink, serial: int) -> bool:
    frames = link.receive()
    assert frames is not None
    head = msgpack.unpackb(frames[1])
    if head[0] == REPLY:
        assert head[1] == serial, f"expected the answer to {serial}, found {head}"
        return True
    assert head[0] == BEAT, f"expected a reply, found {head} {frames[2]!r}"
    link.send((b"", pack([BEAT, head[1], "here"]), b""))
    return False


@contextmanager
def _echo(endpoint: str, peer: str) -> Iterator[None]:
    """Run a peer that answers every CALL with a fixed body, in a process of its own."""
    joined, told = os.pipe()
    child = os.fork()
    if not child:
        try:
            _answer_all(endpoint, peer, told)
        finally:
            os._exit(0)
    os.close(told)
    try:
        assert os.read(joined, 1), f"the {peer} ended before it had joined"
        yield
    finally:
        os.close(joined)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _answer_all(endpoint: str, peer: str, told: int) -> None:
    name, role, _ = PEERS[peer]
    link = BlockingLink.connect(endpoint)
    join(link, peer, name, role.value)
    os.write(told, b"j")
    os.close(told)
    try:
        while True:
            frames = link.receive()
            assert frames is not None
            head = msgpack.unpackb(frames[1])
            if head[0] == CALL:
                link.send((frames[0], pack([REPLY, head[1], "", POSITION]), BODY))
            elif head[0] == BEAT:
                link.send((b"", pack([BEAT, head[1], "here"]), b""))
    except PeerLost:
        return


def _ping(raw: socket.socket, seconds: float) -> float:
    """Return direct round trips per second of the same body."""
    count, begin_s, now_s = 0, time.perf_counter(), 0.0
    while now_s - begin_s < seconds:
        for _ in range(50):
            raw.sendall(BODY)
            raw.recv(65_536)
        count += 50
        now_s = time.perf_counter()
    return count / (now_s - begin_s)
