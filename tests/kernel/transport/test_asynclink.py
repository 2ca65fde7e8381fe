from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import DeadlineExceeded, PeerLost
from ganglion.transport import loop
from ganglion.transport.asynclink import AsyncLink
from ganglion.transport.frames import GREETING, encode_command
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode, encode
from ganglion.wire.messages import Hello
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

READY = encode_command(b"READY", b"\x0bSocket-Type\0\0\0\x06ROUTER")
KINDS = ("ipc", "tcp")


def within(main: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine, for ten seconds at most."""

    async def bounded() -> None:
        async with asyncio.timeout(10.0):
            await main

    loop.run(bounded())


@pytest.mark.parametrize("front", KINDS)
def test_join_and_call(station: Any, front: str) -> None:
    """A peer with a loop joins, asks and gets its answer by callbacks, in order, large ones too."""
    bus = station.bus(front)
    name = bus.admit(Role.CONTROLLER)
    environment = bus.join(Role.ENVIRONMENT)

    async def main() -> None:
        came: asyncio.Queue[Envelope] = asyncio.Queue()
        link = await AsyncLink.connect(
            station.endpoints[front], lambda frames: came.put_nowait(decode(frames)), came.put_nowait
        )
        link.send(encode(Envelope("", Head(Verb.HELLO, 1), codec_of(Hello).encode(Hello(1, "controller", name, name)))))
        assert Verb.WELCOME is (await came.get()).head.verb
        for size in (1, 70_000, 300_000):
            link.send(encode(Envelope(environment.name, Head(Verb.CALL, 2, "environment.update"), b"", (bytes(size),))))
            await link.drain()
            asked = await asyncio.to_thread(environment.receive)
            environment.send(asked.peer, Head(Verb.REPLY, 2), b"", *asked.blobs)
            assert (bytes(size),) == (await came.get()).blobs
        link.close()
        assert came.empty()
        with pytest.raises(PeerLost):
            link.send([b"", b"x"])
        with pytest.raises(PeerLost):
            await link.drain()

    within(main())
    bus.close()


def test_nobody_or_nobody_fit(tmp_path: Path) -> None:
    """Where nobody listens, or somebody who says nothing or something else, connecting fails with the reason."""

    async def main() -> None:
        ends: list[str] = []
        path = str(tmp_path / "x.sock")
        with pytest.raises(PeerLost, match="No such file"):
            await AsyncLink.connect(f"ipc://{path}", lambda frames: None, ends.append)
        answers = [b"", b"220 mail.example.org ESMTP\r\n"]

        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(answers.pop(0))
            await reader.read()
            writer.close()

        server = await asyncio.start_unix_server(greet, path)
        with pytest.raises(DeadlineExceeded):
            await AsyncLink.connect(f"ipc://{path}", lambda frames: None, ends.append, 0.05)
        with pytest.raises(PeerLost, match="signature"):
            await AsyncLink.connect(f"ipc://{path}", lambda frames: None, ends.append)
        server.close()
        assert [] == ends

    within(main())


def test_a_crowd_at_the_door(tmp_path: Path) -> None:
    """Where so many connect that no more fit, a link waits for its turn instead of giving up."""

    async def main(listening: socket.socket) -> None:
        before = []
        with contextlib.suppress(BlockingIOError):
            while True:
                before.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                before[-1].setblocking(False)
                before[-1].connect(listening.getsockname())
        with pytest.raises(DeadlineExceeded):
            await AsyncLink.connect(f"ipc://{listening.getsockname()}", print, print, 0.05)
        linking = asyncio.create_task(AsyncLink.connect(f"ipc://{listening.getsockname()}", print, print))
        listening.setblocking(False)
        running = asyncio.get_running_loop()
        taken = [(await running.sock_accept(listening))[0] for _ in before]
        await running.sock_sendall(taken[-1], GREETING + READY)
        (await linking).close()
        for one in (*before, *taken):
            one.close()

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "x.sock"))
        listening.listen(1)
        within(main(listening))
