from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from ganglion.errors import DeadlineExceeded, PeerLost, UsageError
from ganglion.transport.curve import ClientKeys, new_pair
from ganglion.transport.zmqlink import ZmqBlockingLink
from ganglion.wire.name import Role

SERVER, CLIENT = new_pair(), new_pair()
KEYS = ClientKeys(SERVER.public, CLIENT.public, CLIENT.secret)


@pytest.fixture
def router() -> Iterator[zmq.Socket[bytes]]:
    """Return a bound ROUTER with CURVE and no judge of keys."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.linger = 1000
        router.curve_server = True
        router.curve_secretkey = SERVER.secret.encode()
        router.bind("tcp://127.0.0.1:*")
        yield router


def place(router: zmq.Socket[bytes]) -> str:
    """Return where a socket listens."""
    bound = router.getsockopt(zmq.LAST_ENDPOINT)
    assert isinstance(bound, bytes)
    return bound.rstrip(b"\0").decode()


@pytest.mark.parametrize("name", ["GANGLION_PUBLIC_KEY", "GANGLION_SECRET_KEY"])
def test_a_missing_key_is_named(name: str) -> None:
    """A server's key without a pair of one's own is a fault that names the variable."""
    with pytest.raises(UsageError, match=name):
        ClientKeys.of({key: value for key, value in KEYS.variables().items() if key != name})


def test_deadline_of_the_handshake() -> None:
    """Where somebody accepts and never answers, connecting ends with its deadline."""
    with zmq.Context.instance().socket(zmq.STREAM) as silent:
        silent.linger = 0
        port = silent.bind_to_random_port("tcp://127.0.0.1")
        with pytest.raises(DeadlineExceeded, match="handshake"):
            ZmqBlockingLink.connect(f"tcp://127.0.0.1:{port}", KEYS, 0.1)


def test_the_end_is_noticed(router: zmq.Socket[bytes]) -> None:
    """When the other side closes the connection, what came before is given first, then the loss is told."""
    link = ZmqBlockingLink.connect(place(router), KEYS, 10.0)
    link.send([b"", b"ask", b""])
    identity, *frames = router.recv_multipart()
    router.send_multipart([identity, b"answer"])
    router.close()

    assert [b"", b"ask", b""] == frames
    assert [b"answer"] == link.receive(10.0)
    with pytest.raises(PeerLost, match="closed"):
        link.receive(10.0)
    with pytest.raises(PeerLost, match="closed"):
        link.send([b"", b"x", b""])
    link.close()


def test_who_lacks_the_server_key_is_told_nothing(router: zmq.Socket[bytes]) -> None:
    """A link to somebody who does not hold the other half of the pinned key fails, and nothing has been said."""
    keys = ClientKeys(new_pair().public, CLIENT.public, CLIENT.secret)
    with pytest.raises(PeerLost, match="does not have the expected server key"):
        ZmqBlockingLink.connect(place(router), keys, 10.0)

    assert not router.poll(100)


def test_receive_times_out(station: Any) -> None:
    """Where nothing comes, None is returned after the timeout."""
    bus = station.bus("zmq")
    bus.admit(Role.ENVIRONMENT)
    link = bus.connect()

    assert link.receive(0.0) is None
    assert link.receive(0.01) is None
    assert link.fileno() >= 0
    link.close()
    with pytest.raises(PeerLost):
        link.send([b"x"])
