from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ganglion.broker.link import Admission
from ganglion.errors import GanglionError
from ganglion.transport.blocking import BlockingLink
from ganglion.transport.curve import ClientKeys, KeyPair, new_pair
from ganglion.transport.relay import join
from ganglion.wire.envelope import Head
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb


@pytest.fixture(scope="module")
def pair(station: Any) -> KeyPair:
    """Return the keys of a relay that may join with the token `token`."""
    pair = new_pair()
    digest = hashlib.sha256(b"token").digest()
    admission = Admission("relay/9", Role.RELAY, "", digest, curve_key=pair.public)
    station.call(lambda: station.exchange.broker.admit(admission))
    return pair


@pytest.mark.long
def test_a_relay_comes_and_goes(station: Any, pair: KeyPair, tmp_path: Path) -> None:
    """It says where it listens, joins peers there, and leaves nothing behind; what a killed one has left is removed."""
    left = tmp_path / "ganglion-relay-left"
    left.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(left / "socket"))
    variables = ClientKeys(station.keys.server, pair.public, pair.secret).variables()
    variables |= {"GANGLION_NAME": "relay/9", "GANGLION_TOKEN": "token", "TMPDIR": str(tmp_path)}
    variables["GANGLION_ENDPOINT"] = station.endpoints["zmq"]
    command = [sys.executable, "-m", "ganglion.transport.relay"]
    with subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        endpoint = json.loads(process.stdout.readline())["endpoints"][0]
        bus = station.bus("ipc")
        muscle, brain = (
            bus.join(Role.MUSCLE, connect=lambda: BlockingLink.connect(endpoint)),
            bus.join(Role.BRAIN, None),
        )
        muscle.send(brain.name, Head(Verb.CALL, 1, "brain.think"))
        assert "brain.think" == brain.receive().head.call
        bus.close()
        process.send_signal(signal.SIGTERM)

    assert 0 == process.returncode
    assert [] == [*tmp_path.glob("ganglion-relay-*")]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("endpoint", "no process listens there"),
        ("server key", "does not have the expected server key"),
        ("key", "does not admit the key"),
        ("token", "the kernel refuses: token: no participant is expected with it"),
        ("", ""),
    ],
)
def test_what_prevents_a_relay_is_said_before_it_listens(station: Any, pair: KeyPair, what: str, said: str) -> None:
    """An endpoint without a broker, and wrong keys or tokens, are told by name."""
    server = new_pair().public if what == "server key" else station.keys.server
    own = new_pair() if what == "key" else pair
    keys = ClientKeys(server, own.public, own.secret)
    endpoint = "tcp://127.0.0.1:1" if what == "endpoint" else station.endpoints["zmq"]
    found = ""
    try:
        join(endpoint, keys, "relay/9", "another" if what == "token" else "token")
    except GanglionError as error:
        found = str(error)

    assert said in found
    assert bool(said) is bool(found)
