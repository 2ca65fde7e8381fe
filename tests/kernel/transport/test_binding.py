from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ganglion.errors import LaunchError
from ganglion.transport.binding import bind_local


@pytest.mark.parametrize("where", ["ipc", "tcp", "tcp6", "localhost"])
def test_nobody_else_listens_there(tmp_path: Path, where: str) -> None:
    """An endpoint that is held cannot be bound by anybody else, with or without a broker that accepts."""
    texts = {"ipc": f"ipc://{tmp_path}/bus", "tcp6": "tcp://[::1]:0", "localhost": "tcp://localhost:0"}
    bound = bind_local(texts.get(where, "tcp://127.0.0.1:0"))
    with pytest.raises(LaunchError, match="is in use: somebody listens there already"):
        bind_local(bound.endpoint)
    bound.close()
    bind_local(bound.endpoint).close()


def test_what_a_dead_broker_left_is_replaced(tmp_path: Path) -> None:
    """A socket file at which nobody listens is replaced; whoever has been succeeded removes nothing."""
    path = tmp_path / "bus"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    first = bind_local(f"ipc://{path}")
    path.unlink()
    second = bind_local(f"ipc://{path}")
    first.close()
    assert path.is_socket()
    second.close()

    assert not path.exists()


@pytest.mark.parametrize("text", ["tcp://0.0.0.0:0", "tcp://192.0.2.1:5", "tcp://example.org:1", "ipc://x", "udp://x"])
def test_other_places_are_refused(text: str) -> None:
    """What others could reach, and what is no endpoint, is refused by what was expected."""
    with pytest.raises(LaunchError, match="expected"):
        bind_local(text)


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    """Something that is no socket stays, and is named."""
    (tmp_path / "bus").write_text("mine")
    with pytest.raises(LaunchError, match="a file that is no socket is there"):
        bind_local(f"ipc://{tmp_path}/bus")

    assert "mine" == (tmp_path / "bus").read_text()


def test_an_address_that_is_not_ours_is_named(tmp_path: Path) -> None:
    """What the system says is in the error."""
    (tmp_path / "file").touch()
    with pytest.raises(LaunchError, match="cannot be bound: "):
        bind_local(f"ipc://{tmp_path}/file/bus")
