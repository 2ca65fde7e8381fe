from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import threading
from collections.abc import Iterator

import pytest

from ganglion.broker.core import Broker
from ganglion.broker.link import Admission
from ganglion.errors import CallFailed, PeerLost, RemoteProtocolError
from ganglion.supervisor.connection import Connection
from ganglion.supervisor.operator import Operator
from ganglion.transport.exchange import Exchange
from ganglion.transport.native import NativeFront
from ganglion.wire.messages import Nothing, RunRequest
from ganglion.wire.name import Role


@pytest.fixture
def connection() -> Iterator[Connection]:
    """Yield the connection of a broker that runs in a thread and admits operators."""
    with tempfile.TemporaryDirectory(prefix="go-", dir="/tmp") as folder:
        ready, endpoint, loop = threading.Event(), f"ipc://{folder}/bus", asyncio.new_event_loop()
        ended = asyncio.Event()

        async def serve() -> None:
            broker = Broker(b"x" * 32, "0", os.getpid(), loop.time())
            digest = hashlib.sha256(b"operator's").digest()
            broker.admit(Admission("operator/*", Role.OPERATOR, "", digest))
            front = NativeFront(Exchange(broker, lambda note: None, loop.time, loop.call_later))
            await front.listen(endpoint)
            ready.set()
            await ended.wait()
            front.close()
            await asyncio.sleep(0)

        def body() -> None:
            loop.run_until_complete(serve())
            loop.close()

        thread = threading.Thread(target=body)
        thread.start()
        assert ready.wait(5)
        yield Connection(1, os.getpid(), endpoint, None, "operator's", "", "", None, "", None)
        loop.call_soon_threadsafe(ended.set)
        thread.join()


def test_operators_ask(connection: Connection) -> None:
    """Any number of operators join with one token, and each is answered."""
    with Operator(connection) as first, Operator(connection) as second:
        infos = [operator.ask("kernel.info", Nothing()) for operator in (first, second, first)]

    assert [2, 2, 2] == [info.peers for info in infos]


def test_refusal_is_raised(connection: Connection) -> None:
    """What only a supervisor could answer is refused when there is none, with the kernel's words."""
    with Operator(connection) as operator, pytest.raises(CallFailed, match="the kernel has no supervisor"):
        operator.ask("kernel.runs", RunRequest())


def test_wrong_token_is_refused(connection: Connection) -> None:
    """Who has no token does not join, and is told so."""
    stranger = Connection(1, 1, connection.endpoint, None, "guessed", "", "", None, "", None)

    with pytest.raises(RemoteProtocolError, match="token: it admits nobody"):
        Operator(stranger)


def test_kernel_that_is_gone_is_told(connection: Connection) -> None:
    """A connection file that leads nowhere is told with its address."""
    late = Connection(1, 1, connection.endpoint + "-gone", None, "x", "", "", None, "", None)

    with pytest.raises(PeerLost, match="-gone"):
        Operator(late)
