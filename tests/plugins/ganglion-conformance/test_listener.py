from __future__ import annotations

import contextlib
import socket

import pytest
import zmq

from ganglion.errors import PeerLost
from ganglion.transport.curve import new_pair
from ganglion_conformance.drivers import CurveListener, NativeListener


@pytest.fixture
def dealer() -> zmq.Socket[bytes]:
    """Return a DEALER of libzmq."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as made:
        made.linger = 0
        yield made


def test_who_waits_for_the_whole_greeting_gets_it() -> None:
    """A client that says nothing before it has heard 64 bytes is greeted."""
    listener = NativeListener()
    host, port = listener.endpoint.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port))) as client:
        assert listener.receive(0.5) is None
        client.settimeout(10.0)
        greeting = b""
        while len(greeting) < 64:
            greeting += client.recv(64)

    assert 64 == len(greeting)
    listener.close()


def test_other_socket_type_is_no_peer(dealer: zmq.Socket[bytes]) -> None:
    """A publisher is never heard."""
    listener = NativeListener()
    with dealer.context.socket(zmq.PUB) as publisher, contextlib.suppress(PeerLost):
        publisher.linger = 0
        publisher.connect(listener.endpoint)
        publisher.send_multipart([b"", b"hello"])

        assert listener.receive(0.3) is None
    listener.close()


def test_nothing_can_be_said_to_nobody() -> None:
    """A message before somebody has come is refused."""
    for listener in (NativeListener(), CurveListener(new_pair())):
        with pytest.raises(PeerLost, match="it has not connected"):
            listener.send([b"x"])
        listener.close()


def test_curve_lets_in_who_knows_the_key(dealer: zmq.Socket[bytes]) -> None:
    """A client with the server's public key is heard and told, another one is not."""
    server, client, other = new_pair(), new_pair(), new_pair()
    listener = CurveListener(server)
    dealer.curve_publickey, dealer.curve_secretkey = client.public.encode(), client.secret.encode()
    dealer.curve_serverkey = server.public.encode()
    dealer.connect(listener.endpoint)
    dealer.send_multipart([b"", b"in"])
    assert [b"", b"in"] == listener.receive(10.0)
    listener.send([b"back"])
    assert [b"back"] == dealer.recv_multipart()

    with dealer.context.socket(zmq.DEALER) as stranger:
        stranger.linger = 0
        stranger.curve_publickey, stranger.curve_secretkey = client.public.encode(), client.secret.encode()
        stranger.curve_serverkey = other.public.encode()
        stranger.connect(listener.endpoint)
        stranger.send_multipart([b"", b"out"])
        assert listener.receive(0.3) is None
    listener.close()
    with pytest.raises(PeerLost, match="we closed"):
        listener.receive(0.0)
