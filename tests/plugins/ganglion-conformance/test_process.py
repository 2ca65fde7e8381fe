from __future__ import annotations

import sys

import pytest

from ganglion.errors import LaunchError, PeerLost
from ganglion_conformance.drivers import AttachedDriver, Place, ProgramDriver

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


def test_end_of_the_connection_is_told() -> None:
    """A program that ends is lost, and one that was cut off hears nothing more."""
    peer = ProgramDriver([sys.executable, "-c", HELLO]).start(PLACE)
    try:
        peer.receive(20.0)
        peer.send([b"x"])

        with pytest.raises(PeerLost, match="it closed the connection"):
            peer.receive(20.0)
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
