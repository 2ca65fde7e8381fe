from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import socket
from pathlib import Path

import pytest

from ganglion.errors import UsageError
from ganglion.supervisor.connection import (
    Access,
    Connection,
    advertised,
    connection_path,
    endpoint_folder,
    find_connections,
    places,
    read_connection,
    write_private,
)

CONNECTION = Connection(1, os.getpid(), "ipc:///x", None, "secret-o", "secret-w", "secret-a", "demo-1", "/r", None)


@pytest.fixture(autouse=True)
def _runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep away from the runtime folder of whoever runs the tests."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "runtime").mkdir(mode=0o700)


def test_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """A file that others may have read is no connection file any more."""
    path = tmp_path / "connection.json"
    CONNECTION.write(path)
    path.chmod(0o640)

    with pytest.raises(UsageError, match="mode 0600"):
        read_connection(path)


@pytest.mark.parametrize(
    "change",
    [{"pid": 0}, {"pid": -1}, {"pid": True}, {"pid": 1 << 40}, {"endpoint": None}, {"tcp": 7}, {"attach_token": []}],
)
def test_values_of_another_kind_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    """What is no text, or no process (whoever signals 0 or -1 signals many), is refused by its key."""
    path = tmp_path / "connection.json"
    write_private(path, json.dumps({**dataclasses.asdict(CONNECTION), **change}).encode())

    with pytest.raises(UsageError, match=next(iter(change))):
        read_connection(path)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'"text"', b"[" * 60_000])
def test_noise_is_refused(tmp_path: Path, data: bytes) -> None:
    """What is no JSON object is answered with the path and what was expected."""
    path = tmp_path / "connection.json"
    write_private(path, data)

    with pytest.raises(UsageError, match="expected a connection file in JSON"):
        read_connection(path)


def test_living_kernels_are_found_newest_first(tmp_path: Path) -> None:
    """Files of living processes are found in runtime and results folder; those of dead ones are passed over."""
    results = tmp_path / "results"
    folder, _ = endpoint_folder("demo-1")
    old = connection_path(folder, results, "demo-1")
    new = connection_path(tmp_path / "elsewhere", results, "demo-2")
    dead = results / "demo-3" / "connection.json"
    CONNECTION.write(old)
    dataclasses.replace(CONNECTION, run="demo-2").write(new)
    dataclasses.replace(CONNECTION, pid=2**22 + 1).write(dead)  # above the largest number that Linux gives
    os.utime(old, (1, 1))

    assert [new, old] == [path for path, _ in find_connections(results)]
    assert [tmp_path / "runtime" / "ganglion", results] == places(results)


PLACE = Connection(1, 1, "ipc:///x/bus", "tcp://127.0.0.1:9", "", "", "", "demo-1", "/r", None)


def sha256(token: str) -> bytes:
    """Return what the broker keeps of a token."""
    return hashlib.sha256(token.encode()).digest()


def test_order() -> None:
    """The broker is told the digest of the supervisor's token; its secret key only where it needs one."""
    access = Access(remote=True)
    order = json.loads(access.order(["ipc:///x"], ["tcp://0.0.0.0:5555"], [7], []))

    assert sha256(access.supervisor_token).hex() == order["supervisor_token_sha256"]
    assert access.server is not None
    assert (["tcp://0.0.0.0:5555"], access.server.secret) == (order["remote"], order["secret_key"])
    assert not {"remote", "secret_key"} & json.loads(Access().order(["ipc:///x"], [], [7], [])).keys()


def test_a_file_for_other_machines_holds_all_that_is_needed(tmp_path: Path) -> None:
    """It names the kernel's public key and a pair for each right, and never the kernel's secret one."""
    access = Access(remote=True)
    path = tmp_path / "remote.json"
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
