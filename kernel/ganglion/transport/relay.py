"""The relay as a process: `python -m ganglion.transport.relay`, the broker of the node on which it is started.

The variables GANGLION_ENDPOINT, _SERVER_KEY, _PUBLIC_KEY, _SECRET_KEY, _NAME and _TOKEN give the kernel's broker, and
the keys and the name with which the relay joins it. The relay tries to join first. Then it writes one line to its
output: `{"endpoints": [as bound]}`, or `{"error": reason}` and exit status 1. It serves until it receives SIGTERM.
Events are logged to its error output, one line of JSON each.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import zmq

from ganglion import __version__, limits
from ganglion.broker.link import Link
from ganglion.broker.relay import Relay
from ganglion.errors import GanglionError, LaunchError, UsageError
from ganglion.transport import loop
from ganglion.transport.curve import SECRETS, ClientKeys
from ganglion.transport.endpoint import check_unused
from ganglion.transport.exchange import Exchange, Shares
from ganglion.transport.native import NativeFront
from ganglion.transport.server import Notes, answer, attend, ending, peers_max
from ganglion.transport.zmqfront import RETRY_S, TURN_BYTES, ZmqSink
from ganglion.transport.zmqlink import SETTLE_S, ZmqBlockingLink, dealer, end_told, readable
from ganglion.wire.codec import codec_of, decode_map
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import PROTOCOL_VERSION, Hello
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

_CONNECT_S = 5.0
_FOLDER, _SOCKET = "ganglion-relay-", "socket"
_SOCKETS_PER_UPLINK = 4  # a DEALER, the monitor of its connection, and libzmq's own


class Uplink(ZmqSink):
    """Connect one peer to the kernel's broker: the sink of its outgoing messages, the source of its incoming ones."""

    def __init__(self, exchange: Exchange, relay: Relay, link: Link, endpoint: str, keys: ClientKeys) -> None:
        super().__init__(exchange)
        self.link, link.sink = link, self
        self.ended = False
        self._relay, self._endpoint = relay, endpoint
        self._drain_due = False
        self._pauses = 0
        self._loop = asyncio.get_running_loop()
        self._socket, self._monitor = dealer(endpoint, keys)
        self._loop.add_reader(self._socket.fileno(), self._drain)
        self._loop.add_reader(self._monitor.fileno(), self._watch)
        self._loop.call_soon(self._watch)  # libzmq signals nothing before a socket was found empty once

    def pause(self) -> None:
        """Stop reading until `resume` has been called equally often."""
        self._pauses += 1

    def resume(self) -> None:
        """Resume reading."""
        self._pauses -= 1
        self._drain_soon()

    def send(self, frames: Sequence[bytes]) -> None:
        """Take one message to the kernel's broker; an urgent message overtakes queued ones."""
        if not self._backlog or not self.overtakes(frames, list(frames)):
            self._backlog.append(list(frames))

    def lose(self, reason: str) -> None:
        """End the uplink and the peer's connection at once."""
        if not self.ended:
            self._exchange.perform(self._relay.fall(self.link, reason, self._exchange.clock()))
            self._exchange.flush()
            self._end()

    def finish(self, reason: str) -> None:
        """Close; sent messages are delivered for at most half a second."""
        self.pump()
        self._end()

    def _end(self) -> None:
        if self.ended:
            return
        self.ended, self.link.sink = True, None
        for one in (self._socket, self._monitor):
            self._loop.remove_reader(one.fileno())
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close()
        self.release()

    def _hand_over(self, frames: Sequence[bytes]) -> None:
        self._socket.send_multipart(frames, zmq.NOBLOCK)

    def _retry(self) -> None:
        self._exchange.later(RETRY_S, self._pump_again)

    def _pump_again(self) -> None:
        if not self.ended:
            self.pump()

    def _drain_soon(self) -> None:
        if not self._drain_due:
            self._drain_due = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        """Receive messages up to a bound, then give others their turn."""
        self._drain_due = False
        exchange, taken = self._exchange, 0
        while not self.ended and not self._pauses and readable(self._socket):
            frames = self._socket.recv_multipart(zmq.NOBLOCK)
            exchange.perform(self._relay.descend(self.link, frames, exchange.clock()))
            exchange.flush(self)
            taken += sum(map(len, frames))
            if taken >= TURN_BYTES:
                self._drain_soon()
                break

    def _watch(self) -> None:
        """Process the events of the connection; messages that arrived before its end are received first."""
        while not self.ended and readable(self._monitor):
            lost = end_told(self._monitor, self._endpoint)
            if lost:
                self._loop.call_later(SETTLE_S, self.lose, lost)
        if not self.ended:
            self._drain_soon()


async def serve(endpoint: str, keys: ClientKeys) -> None:
    """Listen, report the endpoint, and serve until SIGTERM; LaunchError if that fails."""
    running = asyncio.get_running_loop()
    relay = Relay(__version__, os.getpid(), running.time(), peers_max())
    notes = Notes()
    exchange = Exchange(relay, notes, running.time, running.call_later)
    exchange.shares = Shares(1.0)  # no bound here: the kernel's broker bounds the time for a peer
    zmq.Context.instance().set(zmq.MAX_SOCKETS, _SOCKETS_PER_UPLINK * limits.PEERS)
    uplinks: list[Uplink] = []

    def tick() -> None:
        exchange.tick()
        uplinks[:] = [one for one in uplinks if not one.ended]
        for one in tuple(uplinks):
            one.look(running.time())
        exchange.flush()

    exchange.climb = lambda link: uplinks.append(Uplink(exchange, relay, link, endpoint, keys))
    front = NativeFront(exchange)
    ended = ending()
    _clear_away()
    folder = tempfile.mkdtemp(prefix=_FOLDER)
    try:
        answer({"endpoints": [await front.listen(f"ipc://{folder}/{_SOCKET}")]})
        await attend(tick, notes, ended)
    finally:
        front.close()
        for one in uplinks:
            one.finish("the relay ends")
        shutil.rmtree(folder, ignore_errors=True)
        exchange.note.tick(math.inf)
        notes.open()


def _clear_away() -> None:
    """Remove the folders of this user's killed relays, at which no process listens."""
    for old in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*/{_SOCKET}"):
        with contextlib.suppress(OSError, LaunchError):
            if old.parent.lstat().st_uid == os.getuid():
                check_unused(old)
                shutil.rmtree(old.parent, ignore_errors=True)


def join(endpoint: str, keys: ClientKeys, name: str, token: str) -> None:
    """Join the kernel's broker and leave again; a GanglionError gives the reason why peers of this node cannot join."""
    link = ZmqBlockingLink.connect(endpoint, keys, _CONNECT_S)
    try:
        hello = Hello(PROTOCOL_VERSION, Role.RELAY.value, name, token, "python")
        link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
        frames = link.receive(_CONNECT_S)
        if frames is None or decode_head(frames[1]).verb is not Verb.WELCOME:
            found = "no answer to HELLO" if frames is None else decode_map(frames[2]).get("message", "no reason given")
            raise LaunchError(f"{endpoint}: the kernel refuses: {found}")
        link.send([b"", encode_head(Head(Verb.BYE, 2)), b""])
    finally:
        link.close()


def main(variables: Mapping[str, str]) -> int:
    """Run the relay; return the exit status of the process."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold keys
        keys, endpoint = ClientKeys.of(variables), variables.get("GANGLION_ENDPOINT", "")
        if keys is None:
            raise UsageError("expected the variables GANGLION_SERVER_KEY, _PUBLIC_KEY and _SECRET_KEY, found nothing")
        join(endpoint, keys, variables.get("GANGLION_NAME", ""), variables.get("GANGLION_TOKEN", ""))
        for name in SECRETS:
            os.environ.pop(name, None)
        loop.run(serve(endpoint, keys))
    except GanglionError as error:
        answer({"error": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(dict(os.environ)))
