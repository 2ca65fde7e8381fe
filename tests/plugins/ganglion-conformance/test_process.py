from __future__ import annotations

import contextlib
import socket
import sys

import pytest
import zmq

from ganglion.errors import LaunchError, PeerLost
from ganglion.transport.curve import new_pair
from ganglion_conformance.drivers import AttachedDriver, CurveListener, NativeListener, Place, ProgramDriver

PLACE = Place("environment", "kit/environment/a/0", "token")
HELLO = """\
import os, sys, zmq
dealer = zmq.Context().socket(zmq.DEALER)
dealer.linger = 500
for name in ("SERVER", "PUBLIC", "SECRET"):
    if f"GANGLION_{name}_KEY" in os.environ:
        setattr(dealer, f"curve_{name.lower()}key", os.environ[f"GANGLION_{name}_KEY"].encode())
dealer.connect(os.environ["GANGLION_ENDPOINT"])
dealer.send_multipart([b"", os.environ["GANGLION_NAME"].encode(), os.environ.get("GANGLION_SILENCE_MS", "").encode()])
frames = dealer.recv_multipart() if dealer.poll(2000) else []
sys.stderr.write(f"heard {len(frames)} frames\\n")
dealer.close()
sys.exit(7)
"""


@pytest.mark.parametrize("curve", ["", "right"])
def test_program_is_heard_and_told(curve: str) -> None:
    """A program finds its place in variables, over CURVE too; its end, status and words are known."""
    place = Place(PLACE.role, PLACE.name, PLACE.token, curve, 1234)
    peer = ProgramDriver([sys.executable, "-c", HELLO]).start(place)
    try:
        assert [b"", PLACE.name.encode(), b"1234"] == peer.receive(20.0)
        peer.send([b"a", bytes(100_000), b""])
        end = peer.ended(20.0)

        assert end is not None
        assert (7, "heard 3 frames\n") == (end.status, end.words)
    finally:
        peer.stop()


def test_program_that_cannot_be_started_is_named() -> None:
    """What is no program is an error of its own."""
    with pytest.raises(LaunchError, match=r"\./nowhere: No such file"):
        ProgramDriver(["./nowhere"]).start(PLACE)


def test_attached_program_is_told_where_to_go(capsys: pytest.CaptureFixture[str]) -> None:
    """The variables of the place are printed, and a client that takes them is heard."""
    peer = AttachedDriver("world").start(PLACE)
    try:
        said = dict(line.split("=", 1) for line in capsys.readouterr().err.splitlines() if "=" in line)

        assert (PLACE.name, PLACE.token) == (said["GANGLION_NAME"], said["GANGLION_TOKEN"])
        assert said["GANGLION_ENDPOINT"].startswith("tcp://127.0.0.1:")
        assert peer.ended(0.0) is None
    finally:
        peer.stop()


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
