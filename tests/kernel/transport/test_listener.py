from __future__ import annotations

import asyncio
import os
import resource
import socket
from typing import Any

from ganglion.broker.core import Broker
from ganglion.broker.link import Note
from ganglion.transport import loop
from ganglion.transport.exchange import Exchange
from ganglion.transport.native import NativeFront
from ganglion.transport.zmtp import GREETING

WAIT_S = 10.0


async def greeting(client: socket.socket, address: Any) -> bytes:
    """Connect and return what is said."""
    running = asyncio.get_running_loop()
    client.setblocking(False)
    async with asyncio.timeout(WAIT_S):
        await running.sock_connect(client, address)
        return await running.sock_recv(client, 100)


def test_without_descriptors_it_rests() -> None:
    """Where no descriptor is left it stops asking, says so, and takes in who has waited when there are some again."""

    async def test() -> None:
        notes: list[Note] = []
        running = asyncio.get_running_loop()
        exchange = Exchange(Broker(b"", "test", 0, running.time()), notes.append, running.time, running.call_later)
        exchange.note = notes.append  # type: ignore[assignment]  # each of them, not one a second
        front = NativeFront(exchange)
        listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        at = listening.getsockname()
        front.adopt(listening)
        clients = [socket.socket() for _ in range(3)]
        with socket.socket() as first:
            assert GREETING == await greeting(first, at)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)  # the lowest number that is free: from here on there is none
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        turns = 0
        try:
            waiting = [asyncio.create_task(greeting(client, at)) for client in clients]
            async with asyncio.timeout(WAIT_S):
                while len(notes) < 4:
                    await asyncio.sleep(0)  # the turns of the loop are what is counted
                    turns += 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        assert turns > 20  # it has not been asking in each turn
        assert {"listener.resting"} == {note.event for note in notes}
        assert "Too many open files" == notes[0].fields["reason"]
        assert [GREETING] * 3 == await asyncio.gather(*waiting)
        for client in clients:
            client.close()
        front.close()

    loop.run(test())
