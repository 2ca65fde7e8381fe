from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ganglion.errors import LaunchError
from ganglion.supervisor.launcher import Launcher, Process

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the warm parent works on Linux")


def ignore(process: Process) -> None:
    """Take note of nothing."""


@contextlib.asynccontextmanager
async def _opened(logs: Path | None = None) -> AsyncIterator[Launcher]:
    launcher = Launcher({"peer": "standin:main"}, preload=("msgpack",), logs=logs)
    await launcher.open()
    try:
        yield launcher
    finally:
        await launcher.close()


async def _seen(process: Process, word: str) -> str:
    """Return the line of a process that begins with `word`, when it has come."""
    while True:
        for line in process.output.lines:
            if line.startswith(word):
                return line
        assert not process.ended.is_set(), list(process.output.lines)
        await asyncio.sleep(0)


@needs_linux
def test_warm_parent_is_replaced(standin: Path) -> None:
    """When the warm parent is killed its participants live on, and the next order starts another one."""

    async def body() -> tuple[bool, int | None]:
        async with _opened() as launcher:
            first = await launcher.fork("first", {"WHAT": "stay"}, ignore)
            await _seen(first, "variables")
            warm = launcher._warm
            assert warm is not None
            warm.signal(signal.SIGKILL)
            await warm.ended.wait()
            second = await launcher.fork("second", {"STATUS": "4"}, ignore)
            await second.ended.wait()
            alive = not first.ended.is_set()
            first.signal(signal.SIGTERM)
            await first.ended.wait()
            return alive, second.code

    assert (True, 4) == asyncio.run(body())


@needs_linux
def test_broken_import_of_the_warm_parent_is_told(standin: Path) -> None:
    """A warm parent that cannot import an entry fails the order with its own last words."""

    async def body() -> None:
        launcher = Launcher({"peer": "standin_missing:main"}, preload=())
        await launcher.open()
        try:
            await launcher.fork("x", {}, ignore)
        finally:
            await launcher.close()

    with pytest.raises(LaunchError, match="No module named 'standin_missing'"):
        asyncio.run(body())


@needs_linux
def test_unknown_entry_is_refused(standin: Path) -> None:
    """An order names one of the entries that the warm parent was started with, nothing else."""

    async def body() -> None:
        async with _opened() as launcher:
            await launcher.fork("x", {}, ignore, entry="os:system")

    with pytest.raises(LaunchError, match=r"expected an entry of \['peer'\], found 'os:system'"):
        asyncio.run(body())


def test_server_answers_or_is_named(standin: Path, tmp_path: Path) -> None:
    """A program of ours that answers nothing is reported with its last words; one that answers is handed over."""
    echo = tmp_path / "echo.py"
    echo.write_text("import sys; print(sys.stdin.readline().strip()[::-1], flush=True); sys.stdin.read()")
    mute = tmp_path / "mute.py"
    mute.write_text("import sys; sys.exit('no socket to be had')")

    async def body() -> tuple[bytes, int | None]:
        async with _opened() as launcher:
            process, answer, lifeline = await launcher.serve("broker", [str(echo)], b"abc", ignore)
            os.close(lifeline)
            await process.ended.wait()
            with pytest.raises(LaunchError, match="no socket to be had"):
                await launcher.serve("broker", [str(mute)], b"abc", ignore)
            return answer, process.code

    assert (b"cba", 0) == asyncio.run(body())


def test_left_processes_are_found_and_ended(standin: Path) -> None:
    """Closing the launcher ends what is still there and names it."""

    async def body() -> tuple[list[str], Process]:
        async with _opened() as launcher:
            process = launcher.execute("left", [sys.executable, str(standin)], {"WHAT": "stay"}, ignore)
            return await launcher.close(), process

    found, process = asyncio.run(body())
    assert [f"left (process {process.pid})"] == found
    assert process.ended.is_set()
