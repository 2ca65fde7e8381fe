"""The broker as a process: `python -m ganglion.transport.server`.

It reads one line of JSON from its input, `{"endpoints": [...], "supervisor_token_sha256": hex}`, and writes one line
to its output: `{"endpoints": [as bound]}`, or `{"error": reason}` and ends with 1. It serves until its input ends or
it gets SIGTERM. What happens is written to its error output, one line of JSON per event.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
import time
from collections import deque
from typing import Any

from ganglion import __version__
from ganglion.broker.core import Broker
from ganglion.broker.effect import Note
from ganglion.errors import GanglionError, LaunchError
from ganglion.limits import PEERS
from ganglion.log import Log, set_up
from ganglion.transport import loop
from ganglion.transport.exchange import Exchange
from ganglion.transport.native import NativeFront

__all__ = ["main", "serve"]

_TICK_S = 0.25
_DESCRIPTORS_SPARE = 64  # for what is not a peer: the loop's own, listeners, standard streams
_LINE_BYTES_MAX = 64 * 1024
_LOG_AFTER_S = 0.3  # when a run's processes have had the processors for themselves
_NOTES_WAITING = 4096


class _Notes:
    """Keep what the broker has to say until the log is there, which takes a tenth of a second to import."""

    def __init__(self) -> None:
        self._log: Log | None = None
        self._waiting: deque[tuple[float, Note]] = deque(maxlen=_NOTES_WAITING)

    def __call__(self, note: Note) -> None:
        if self._log is None:
            self._waiting.append((time.time(), note))
        else:
            self._log.say(note.level, note.event, **note.fields)

    def open(self) -> None:
        """Import the log, if it is not there, and write what has waited."""
        if self._log is None:
            self._log = set_up("broker")
        while self._waiting:
            said_s, note = self._waiting.popleft()
            self._log.say(note.level, note.event, said_s=round(said_s, 3), **note.fields)


async def serve(endpoints: list[str], supervisor_token_sha256: bytes) -> None:
    """Bind, say where, and serve until the input ends or SIGTERM comes; LaunchError if something cannot be bound."""
    running = asyncio.get_running_loop()
    broker = Broker(supervisor_token_sha256, __version__, os.getpid(), running.time())
    notes = _Notes()
    exchange = Exchange(broker, notes, running.time, running.call_later)
    front = NativeFront(exchange)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, ended.set)
    try:
        bound = [await front.listen(endpoint) for endpoint in endpoints]
        _answer({"endpoints": bound})
        running.add_reader(sys.stdin.fileno(), _read_lifeline, ended)
        running.call_later(_LOG_AFTER_S, lambda: running.run_in_executor(None, notes.open))
        while not ended.is_set():
            exchange.tick()
            try:
                await asyncio.wait_for(ended.wait(), _TICK_S)
            except TimeoutError:
                continue
    finally:
        front.close()
        notes.open()


def _read_lifeline(ended: asyncio.Event) -> None:
    """Take note that whoever started us has gone; what he writes meanwhile is nothing to us."""
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        ended.set()


def _answer(fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _read_order() -> tuple[list[str], bytes]:
    # Byte by byte from the descriptor: what a buffered reader took too much of would be lost for the lifeline.
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte or len(line) > _LINE_BYTES_MAX:
            break
        line += byte
    try:
        order = json.loads(line)
        endpoints, digest = order["endpoints"], bytes.fromhex(order["supervisor_token_sha256"])
    except (ValueError, TypeError, KeyError) as error:
        raise LaunchError(
            f"expected one line of JSON with endpoints and supervisor_token_sha256: {error}"
        ) from error
    if not isinstance(endpoints, list) or not endpoints or not all(isinstance(e, str) for e in endpoints):
        raise LaunchError("endpoints: expected a list of at least one text")
    return endpoints, digest


def _raise_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = PEERS + _DESCRIPTORS_SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def main() -> int:
    """Be the broker's process; returns its exit status."""
    try:
        _raise_descriptors()
        loop.run(serve(*_read_order()))
    except GanglionError as error:
        _answer({"error": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
