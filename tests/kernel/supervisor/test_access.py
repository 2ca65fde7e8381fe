from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path

import pytest

from ganglion.errors import UsageError
from ganglion.supervisor.connection import Access, Connection, advertised, read_connection, remote_path

PLACE = Connection(1, 1, "ipc:///x/bus", "tcp://127.0.0.1:9", "", "", "", "demo-1", "/r", None)


def sha256(token: str) -> bytes:
    """Return what the broker keeps of a token."""
    return hashlib.sha256(token.encode()).digest()


def test_order() -> None:
    """The broker is told the digest of the supervisor's token; its secret key only where it needs one."""
    access = Access(remote=True)
    order = json.loads(access.order(["ipc:///x"], ["tcp://0.0.0.0:5555"]))

    assert sha256(access.supervisor_token).hex() == order["supervisor_token_sha256"]
    assert access.server is not None
    assert (["tcp://0.0.0.0:5555"], access.server.secret) == (order["remote"], order["secret_key"])
    assert {"endpoints", "supervisor_token_sha256"} == set(json.loads(Access().order(["ipc:///x"], [])))


def test_a_file_for_other_machines_holds_all_that_is_needed(tmp_path: Path) -> None:
    """It names the kernel's public key and a pair for each right, and never the kernel's secret one."""
    access = Access(remote=True)
    path = remote_path(tmp_path / "c.json")
    access.remote(PLACE, "tcp://192.0.2.7:5555").write(path)
    read = read_connection(path)
    keys = read.keys("attach")

    assert access.server is not None
    assert ("tcp://192.0.2.7:5555", None) == (read.endpoint, read.tcp)
    assert keys is not None
    assert (access.server.public, access.keys["attach"].secret) == (keys.server, keys.secret)
    assert access.server.secret not in path.read_text()
    assert access.supervisor_token not in path.read_text()
    assert access.keys["operator"].secret not in repr(read)


@pytest.mark.parametrize("curve", [[], {}, {"operator": {}}, {"operator": {"public_key": 3}}, "x"])
def test_broken_keys_are_named(curve: object) -> None:
    """What stands in a file in place of keys is refused as such."""
    connection = Connection(1, 1, "tcp://192.0.2.7:1", None, "o", "w", "a", curve=curve)
    with pytest.raises(UsageError, match="expected"):
        connection.keys("operator")


def test_all_addresses_are_named_by_the_machine() -> None:
    """Who listens everywhere is told to others by the machine's name; else by the address."""
    assert f"tcp://{socket.gethostname()}:5555" == advertised("tcp://0.0.0.0:5555")
    assert f"tcp://{socket.gethostname()}:5555" == advertised("tcp://[::]:5555")
    assert "tcp://192.0.2.7:5555" == advertised("tcp://192.0.2.7:5555")
