from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ganglion.errors import LaunchError
from ganglion.transport.endpoint import bind_local, parse_endpoint


@pytest.mark.parametrize(
    "text",
    ["", "ipc://", "ipc://@abstract", "ipc://relative", "ipc:///" + "x" * 108, "tcp://host", "tcp://:5", "tcp://h:x",
     "tcp://h:70000", "tcp://h:\u0661", "udp://h:5", "/tmp/a.sock"],
)  # fmt: skip
def test_bad_endpoints(text: str) -> None:
    """What is no endpoint of ours is refused with what was expected."""
    with pytest.raises(LaunchError, match="expected"):
        parse_endpoint(text)


@pytest.mark.parametrize("text", ["tcp://0.0.0.0:0", "tcp://192.0.2.1:5", "tcp://example.org:1"])
def test_what_others_could_reach_is_refused(text: str) -> None:
    """Without encryption nobody listens where another machine could connect."""
    with pytest.raises(LaunchError, match="without encryption"):
        bind_local(text)


@pytest.mark.parametrize("where", ["ipc", "tcp", "tcp6", "localhost"])
def test_nobody_else_listens_there(tmp_path: Path, where: str) -> None:
    """An endpoint that is held cannot be bound by anybody else, with or without a broker that accepts."""
    texts = {"ipc": f"ipc://{tmp_path}/bus", "tcp6": "tcp://[::1]:0", "localhost": "tcp://localhost:0"}
    bound = bind_local(texts.get(where, "tcp://127.0.0.1:0"))
    with pytest.raises(LaunchError, match="is in use: another process listens there already"):
        bind_local(bound.endpoint)
    bound.close()
    bind_local(bound.endpoint).close()


def test_what_a_dead_broker_left_is_replaced(tmp_path: Path) -> None:
    """A socket file at which nobody listens is replaced; whoever has been succeeded removes nothing; files stay."""
    path, file = tmp_path / "bus", tmp_path / "file"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    first = bind_local(f"ipc://{path}")
    path.unlink()
    second = bind_local(f"ipc://{path}")
    first.close()
    assert path.is_socket()
    second.close()
    assert not path.exists()

    file.write_text("mine")
    for place, text in ((file, "a file that is no socket is there"), (file / "bus", "cannot be bound: ")):
        with pytest.raises(LaunchError, match=text):
            bind_local(f"ipc://{place}")
    assert "mine" == file.read_text()
