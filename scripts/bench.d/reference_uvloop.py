"""The reference: what a uvloop server on a unix socket can do at all, sending back what it gets."""

from __future__ import annotations

import asyncio
import sys

import uvloop


class Echo(asyncio.Protocol):
    """Send back every chunk."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Write what was read."""
        self._transport.write(data)


async def serve(path: str) -> None:
    """Serve until the input ends."""
    loop = asyncio.get_running_loop()
    await loop.create_unix_server(Echo, path)
    print("ready", flush=True)
    ended = loop.create_future()
    loop.add_reader(sys.stdin.fileno(), ended.set_result, None)
    await ended


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
