from __future__ import annotations

import dataclasses
import json
import os
import stat
from pathlib import Path

import pytest

from ganglion.errors import UsageError
from ganglion.supervisor.connection import (
    Connection,
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


def test_tokens_are_not_printed() -> None:
    """The text of a connection shows no token."""
    assert "secret" not in repr(CONNECTION)


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


def test_folder_of_that_name_leads_elsewhere() -> None:
    """A left-over folder of the same name is not entered: the new one lies elsewhere."""
    first, _ = endpoint_folder("demo-1")
    second, _ = endpoint_folder("demo-1")

    assert first != second
    assert 0o700 == stat.S_IMODE(second.stat().st_mode)


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
