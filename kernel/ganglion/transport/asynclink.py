"""A link for peers with an event loop: callbacks, no task and no future per message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from ganglion.errors import PeerLost, RemoteProtocolError
from ganglion.limits import RETRY_S
from ganglion.transport.endpoint import connecting, parse_endpoint
from ganglion.transport.zmtp import Connection, State, encode

_BROKER = "broker"


class AsyncLink(asyncio.Protocol):
    """Exchange messages with a broker over native ZMTP on the running event loop.

    `on_message` receives the frames of each message. `on_closed` receives the reason once, when the connection has
    ended; it is not called after `close`.
    """

    def __init__(self, on_message: Callable[[list[bytes]], None], on_closed: Callable[[str], None]) -> None:
        self._on_message = on_message
        self._on_closed = on_closed
        self._connection = Connection(listening=False)
        self._transport: asyncio.Transport | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._time = asyncio.get_running_loop().time
        self._reason = ""
        self._closed = False

    @classmethod
    async def connect(
        cls,
        endpoint: str,
        on_message: Callable[[list[bytes]], None],
        on_closed: Callable[[str], None],
        timeout_s: float = 5.0,
    ) -> AsyncLink:
        """Connect and shake hands; PeerLost when no broker listens there, DeadlineExceeded after `timeout_s`."""
        where = parse_endpoint(endpoint)
        loop = asyncio.get_running_loop()
        link = cls(on_message, on_closed)
        with connecting(endpoint, timeout_s, link.close):
            async with asyncio.timeout(timeout_s):
                if where.path:
                    await link._reach(where.path)
                else:
                    await loop.create_connection(lambda: link, where.host, where.port)
                await link._opened
        return link

    async def _reach(self, path: str) -> None:
        while self._transport is None:
            try:
                await asyncio.get_running_loop().create_unix_connection(lambda: self, path)
            except BlockingIOError:  # under many simultaneous connects a unix socket refuses instead of blocking
                await asyncio.sleep(RETRY_S["connect"])

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message; PeerLost when the connection has ended."""
        if self._transport is None or self._closed:
            raise PeerLost(_BROKER, self._reason or "the connection is closed")
        self._transport.write(b"".join(encode(frames)))

    def close(self) -> None:
        """Close after all sent messages were written; no callback follows."""
        self._closed = True
        self._reason = self._reason or "we closed the connection"
        if self._transport is not None:
            self._transport.close()

    # -- callbacks of the event loop ----------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport has the same methods but another type
        self._speak()

    def data_received(self, data: bytes) -> None:
        """Decode a chunk and pass on its messages."""
        connection = self._connection
        try:
            messages = connection.messages(data, self._time())
        except RemoteProtocolError as error:
            self._reason = str(error)
            self._speak()
            if self._transport is not None:
                self._transport.close()
            return
        self._speak()
        if connection.state is State.OPEN and not self._opened.done():
            self._opened.set_result(None)
        for frames in messages:
            if self._closed:
                return
            self._on_message(frames)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail a pending handshake, or report the end of the connection, once."""
        reason = self._reason or (str(error) if error else "it closed the connection")
        self._reason = reason
        joined = self._opened.done()  # before that, `connect` raises
        if not joined:
            self._opened.set_exception(PeerLost(_BROKER, reason))
            self._opened.exception()  # mark as retrieved: perhaps no caller waits
        if not self._closed:
            self._closed = True
            if joined:
                self._on_closed(reason)

    def _speak(self) -> None:
        outgoing = self._connection.outgoing
        if self._transport is not None and outgoing:
            self._transport.write(bytes(outgoing))
            outgoing.clear()
