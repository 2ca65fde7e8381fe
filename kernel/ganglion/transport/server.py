"""The broker as a process: `python -m ganglion.transport.server`.

The process reads one line of JSON from its input, `{"endpoints": [...], "supervisor_token_sha256": hex}`. It writes one
line to its output: `{"endpoints": [as bound]}`, or `{"error": reason}` and exit status 1. It serves until its input
ends or it receives SIGTERM. Events are logged to its error output, one line of JSON each.

`"remote": [...]` and `"secret_key": Z85` in the order add endpoints with CURVE; the answer then has `"remote"`.
`"listening": [...]` are inherited descriptors of listening sockets, one for each of `endpoints`. `"admissions": [...]`
is the table of names that may join, as in `kernel.admit`: a broker that replaces another one has this table before its
first message.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import json
import math
import os
import resource
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ganglion import __version__
from ganglion.broker.admission import admission_of
from ganglion.broker.core import Broker
from ganglion.broker.link import Admission, Note
from ganglion.errors import GanglionError, LaunchError
from ganglion.limits import ADDRESS_SPACE_BYTES, PEERS
from ganglion.log import Log, set_up
from ganglion.transport import loop
from ganglion.transport.curve import check_key
from ganglion.transport.exchange import Exchange
from ganglion.transport.native import NativeFront
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import Admit

if TYPE_CHECKING:
    from ganglion.transport.zmqfront import ZmqFront

_TICK_S = 0.25
_DESCRIPTORS_SPARE = 64  # for other descriptors: the loop's own, listeners, standard streams
_LINE_BYTES_MAX = 8 * 1024 * 1024  # the largest number of names, each with all its properties
_CHUNK_BYTES = 64 * 1024
_LOG_AFTER_S = 0.3  # after the start of a run's processes, which need the processors
_NOTES_WAITING = 4096


@dataclass(frozen=True, slots=True)
class Order:
    """Hold the settings that a broker gets before it serves."""

    endpoints: list[str]
    supervisor_token_sha256: bytes
    remote: list[str]  # endpoints that are encrypted with `secret_key`
    secret_key: str = field(repr=False)
    listening: list[socket.socket] = field(default_factory=list)  # of `endpoints`; empty: bind them
    admissions: list[Admission] = field(default_factory=list)


class Notes:
    """Keep the broker's log entries until the log is imported, which takes a tenth of a second."""

    def __init__(self) -> None:
        self._log: Log | None = None
        self._waiting: deque[tuple[float, Note]] = deque(maxlen=_NOTES_WAITING)

    def __call__(self, note: Note) -> None:
        """Write a log entry, or keep it."""
        if self._log is None:
            self._waiting.append((time.time(), note))
        else:
            self._log.say(note.level, note.event, **note.fields)

    def open(self) -> None:
        """Import the log if needed, and write the kept entries."""
        if self._log is None:
            self._log = set_up("broker")
        while self._waiting:
            said_s, note = self._waiting.popleft()
            self._log.say(note.level, note.event, said_s=round(said_s, 3), **note.fields)


async def serve(order: Order) -> None:
    """Bind, report the endpoints, and serve until the input ends or SIGTERM; LaunchError if a bind fails."""
    running = asyncio.get_running_loop()
    token, now_s = order.supervisor_token_sha256, running.time()
    broker = Broker(token, __version__, os.getpid(), now_s, peers_max(), order.admissions)
    notes = Notes()
    exchange = Exchange(broker, notes, running.time, running.call_later)
    front = NativeFront(exchange)
    remote = _remote_front(exchange, order)
    ended = ending()
    try:
        for listening in order.listening:
            front.adopt(listening)
        bound = order.endpoints if order.listening else [await front.listen(text) for text in order.endpoints]
        where = {"endpoints": bound}
        if remote is not None:
            where["remote"] = [remote.listen(endpoint) for endpoint in order.remote]
        answer(where)
        running.add_reader(sys.stdin.fileno(), _read_lifeline, ended)
        await attend(exchange.tick, notes, ended)
    finally:
        front.close()
        if remote is not None:
            remote.close()
        exchange.note.tick(math.inf)  # entries that were counted and not logged
        notes.open()


def ending() -> asyncio.Event:
    """Return the event that SIGTERM and SIGINT set."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    return ended


async def attend(tick: Callable[[], None], notes: Notes, ended: asyncio.Event) -> None:
    """Call `tick` four times a second until `ended` is set."""
    running = asyncio.get_running_loop()
    running.call_later(_LOG_AFTER_S, lambda: running.run_in_executor(None, notes.open))
    while not ended.is_set():
        tick()
        try:
            await asyncio.wait_for(ended.wait(), _TICK_S)
        except TimeoutError:
            continue


def _remote_front(exchange: Exchange, order: Order) -> ZmqFront | None:
    """Return the encrypted front, None if none is ordered; with it the memory of the process is limited.

    libzmq limits the size of frames, but not the number of frames of an unfinished message. At the end of the address
    space it closes that connection.
    """
    if not order.remote:
        return None
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = ADDRESS_SPACE_BYTES if hard == resource.RLIM_INFINITY else min(ADDRESS_SPACE_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    from ganglion.transport.zmqfront import ZmqFront  # libzmq is loaded only where it is needed

    return ZmqFront(exchange, order.secret_key)


def _read_lifeline(ended: asyncio.Event) -> None:
    """Detect the end of the process that started the broker; its further input is ignored."""
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        ended.set()


def answer(fields: dict[str, Any]) -> None:
    """Write the answer to an order as one line."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _read_order() -> Order:
    # From the descriptor itself: a buffered reader would swallow the end of the lifeline.
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(sys.stdin.fileno(), _CHUNK_BYTES)
        if not chunk or len(line) > _LINE_BYTES_MAX:
            break
        line += chunk
    try:
        order = json.loads(line)
        codec = codec_of(Admit)
        made = Order(
            order["endpoints"],
            bytes.fromhex(order["supervisor_token_sha256"]),
            order.get("remote", []),
            order.get("secret_key", ""),
            [socket.socket(fileno=number) for number in order.get("listening", [])],
            [admission_of(codec.decode(json.dumps(row).encode())) for row in order.get("admissions", [])],
        )
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        raise LaunchError(f"expected one line of JSON with endpoints and supervisor_token_sha256: {error}") from error
    if made.remote:
        check_key(made.secret_key, "secret_key")
    return made


def peers_max() -> int:
    """Raise the limit of descriptors; return the number of connections it allows, at most PEERS."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = PEERS + _DESCRIPTORS_SPARE
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return PEERS
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft <= _DESCRIPTORS_SPARE:
        raise LaunchError(f"expected more than {_DESCRIPTORS_SPARE} descriptors (ulimit -n), found {soft}")
    return soft - _DESCRIPTORS_SPARE


def main() -> int:
    """Run the broker; return the exit status of the process."""
    atexit.register(gc.freeze)  # else the interpreter scans all objects before it frees them
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold tokens and keys
        loop.run(serve(_read_order()))
    except GanglionError as error:
        answer({"error": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
