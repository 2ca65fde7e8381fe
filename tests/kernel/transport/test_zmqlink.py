from __future__ import annotations

from typing import Any

import pytest
import zmq

from ganglion.errors import DeadlineExceeded, PeerLost
from ganglion.transport.zmqlink import ZmqBlockingLink
from ganglion.wire.name import Role


def test_deadline_of_the_handshake() -> None:
    """Where somebody accepts and never answers, connecting ends with its deadline."""
    with zmq.Context.instance().socket(zmq.STREAM) as silent:
        silent.linger = 0
        port = silent.bind_to_random_port("tcp://127.0.0.1")
        with pytest.raises(DeadlineExceeded, match="handshake"):
            ZmqBlockingLink.connect(f"tcp://127.0.0.1:{port}", 0.1)


def test_the_end_is_noticed(station: Any) -> None:
    """When the broker closes the connection, what came before is given first, then the loss is told."""
    bus = station.bus("ipc")
    stranger = bus.peer(Role.ENVIRONMENT, 0, lambda: ZmqBlockingLink.connect(station.endpoints["tcp"], 10.0))
    stranger.link.send([b"", b"no head", b""])

    assert "protocol" == stranger.failure()
    with pytest.raises(PeerLost, match="closed"):
        stranger.link.receive(10.0)
    with pytest.raises(PeerLost, match="closed"):
        stranger.link.send([b"", b"x", b""])
    bus.close()


def test_receive_times_out(station: Any) -> None:
    """Where nothing comes, None is returned after the timeout."""
    link = ZmqBlockingLink.connect(station.endpoints["zmq"], 10.0)

    assert link.receive(0.0) is None
    assert link.receive(0.01) is None
    assert link.fileno() >= 0
    link.close()
    with pytest.raises(PeerLost):
        link.send([b"x"])
