from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ganglion.broker.link import Note
from ganglion.transport import loop
from ganglion.transport.native import Listener

WAIT_S = 10.0


class Greeter(asyncio.Protocol):
    """Say hello and count who has come."""

    met = 0

    def connection_made(self, transport: Any) -> None:
        """Greet."""
        Greeter.met += 1
        transport.write(b"hello")


def listening(family: int = socket.AF_INET) -> socket.socket:
    """Return a socket that listens."""
    made = socket.socket(family, socket.SOCK_STREAM)
    made.bind("" if family == socket.AF_UNIX else ("127.0.0.1", 0))
    made.listen(128)
    return made


async def greeting(client: socket.socket, address: Any) -> bytes:
    """Connect and return what is said."""
    running = asyncio.get_running_loop()
    client.setblocking(False)
    async with asyncio.timeout(WAIT_S):
        await running.sock_connect(client, address)
        return await running.sock_recv(client, 100)


def with_listener(test: Callable[[Listener, socket.socket, list[Note]], Awaitable[None]]) -> None:
    """Run a test with a listener."""

    async def main() -> None:
        notes: list[Note] = []
        at = listening()
        made = Listener(at, Greeter, notes.append)
        Greeter.met = 0
        try:
            await test(made, at, notes)
        finally:
            made.close()
            made.close()  # once more does no harm

    loop.run(main())


def test_everybody_is_met() -> None:
    """Who connects is handed to a protocol of his own, also if more come at once than are taken in one turn."""

    async def test(made: Listener, at: socket.socket, notes: list[Note]) -> None:
        clients = [socket.socket() for _ in range(50)]
        heard = await asyncio.gather(*[greeting(client, at.getsockname()) for client in clients])
        for client in clients:
            client.close()

        assert [b"hello"] * 50 == heard
        assert (50, []) == (Greeter.met, notes)

    with_listener(test)


def test_without_descriptors_it_rests() -> None:
    """Where no descriptor is left it stops asking, says so, and takes in who has waited when there are some again."""

    async def test(made: Listener, at: socket.socket, notes: list[Note]) -> None:
        clients = [socket.socket() for _ in range(3)]
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


def test_closed_while_it_rests() -> None:
    """A listener that is closed while it rests does not wake again."""

    async def test(made: Listener, at: socket.socket, notes: list[Note]) -> None:
        made._rest(OSError(24, "Too many open files"))
        made.close()
        await asyncio.sleep(0)

        assert -1 == at.fileno()

    with_listener(test)


@pytest.mark.parametrize("error", [BlockingIOError(), ConnectionAbortedError()])
def test_who_has_left_already_is_no_news(error: OSError) -> None:
    """A connection that has vanished before it was accepted is passed over."""

    async def test(made: Listener, at: socket.socket, notes: list[Note]) -> None:
        class Gone:
            def accept(self) -> None:
                raise error

        real, made._listening = made._listening, Gone()  # type: ignore[assignment]
        made._accept()
        made._listening = real
        client = socket.socket()

        assert b"hello" == await greeting(client, at.getsockname())
        assert [] == notes
        client.close()

    with_listener(test)
