from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from ganglion.broker.link import Note
from ganglion.transport import loop
from ganglion.transport.native import Listener

WAIT_S = 10.0


class Greeter(asyncio.Protocol):
    """Say hello."""

    def connection_made(self, transport: Any) -> None:
        """Greet."""
        transport.write(b"hello")


async def greeting(client: socket.socket, address: Any) -> bytes:
    """Connect and return what is said."""
    running = asyncio.get_running_loop()
    client.setblocking(False)
    async with asyncio.timeout(WAIT_S):
        await running.sock_connect(client, address)
        return await running.sock_recv(client, 100)


def with_listener(test: Callable[[socket.socket, list[Note]], Awaitable[None]]) -> None:
    """Run a test with a listener."""

    async def main() -> None:
        notes: list[Note] = []
        at = socket.socket()
        at.bind(("127.0.0.1", 0))
        at.listen(128)
        made = Listener(at, Greeter, notes.append)
        try:
            await test(at, notes)
        finally:
            made.close()

    loop.run(main())


def test_without_descriptors_it_rests() -> None:
    """Where no descriptor is left it stops asking, says so, and takes in who has waited when there are some again."""

    async def test(at: socket.socket, notes: list[Note]) -> None:
        clients = [socket.socket() for _ in range(3)]
        with socket.socket() as first:
            assert b"hello" == await greeting(first, at.getsockname())
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)  # the lowest number that is free: from here on there is none
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        turns = 0
        try:
            waiting = [asyncio.create_task(greeting(client, at.getsockname())) for client in clients]
            async with asyncio.timeout(WAIT_S):
                while len(notes) < 4:
                    await asyncio.sleep(0)  # the turns of the loop are what is counted
                    turns += 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        assert turns > 20  # it has not been asking in each turn
        assert {"listener.resting"} == {note.event for note in notes}
        assert "Too many open files" == notes[0].fields["reason"]
        assert [b"hello"] * 3 == await asyncio.gather(*waiting)
        for client in clients:
            client.close()

    with_listener(test)
