from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ganglion.transport.native import NativeFront

OTHER_USER = """
import os, socket, sys
os.setgroups([]), os.setgid(65534), os.setuid(65534)
with socket.socket(socket.AF_UNIX) as stranger:
    stranger.settimeout(10.0)
    try:
        stranger.connect(sys.argv[1])
    except PermissionError:
        sys.exit(77)
    try:
        stranger.sendall(bytes.fromhex(sys.argv[2]))
        heard = stranger.recv(4096)
    except ConnectionError:
        heard = b""
    print(len(heard))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user for a while")
def test_another_user_is_sent_away(station: Any) -> None:
    """Folder and file keep other users out; were they open, the system would tell who it is: not a byte is answered."""
    with tempfile.TemporaryDirectory(prefix="gu-", dir="/tmp") as text:
        folder = Path(text) / "bus"

        async def listen() -> NativeFront:
            front = NativeFront(station.exchange)
            await front.listen(f"ipc://{folder}/a.sock")
            return front

        front = asyncio.run_coroutine_threadsafe(listen(), station.loop).result(10.0)
        Path(text).chmod(0o755)
        greeting = bytes.fromhex("ff00000000000000017f0301") + b"NULL".ljust(20, b"\0") + bytes(32)
        words = [sys.executable, "-c", OTHER_USER, f"{folder}/a.sock", greeting.hex()]
        for opened in ((), (folder,)):
            for path in opened:
                path.chmod(0o755)
            assert 77 == subprocess.run(words, check=False).returncode
        (folder / "a.sock").chmod(0o777)
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        station.call(front.close)

    assert "0\n" == done.stdout
