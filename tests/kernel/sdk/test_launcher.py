from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from ganglion.sdk.launcher import Launched, Launcher, LaunchSpec


class Handle:
    host = ""
    lines: tuple[str, ...] = ()

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        self.pid = child.pid
        self.code: int | None = None

    def signal(self, signum: int) -> None:
        self.child.send_signal(signum)


def _popen(spec: LaunchSpec) -> subprocess.Popen[bytes]:
    assert spec.argv is not None
    return subprocess.Popen(spec.argv, env={**os.environ, **spec.variables})


class Waiting(Launcher):
    """Start a program and wait for its end: the least that keeps the contract."""

    async def start(self, spec: LaunchSpec, on_exit: Callable[[Launched], None]) -> Launched:
        handle = Handle(_popen(spec))
        handle.code = handle.child.wait()
        on_exit(handle)
        return handle

    async def close(self) -> None:
        pass


def test_a_launcher_needs_two_methods() -> None:
    """With `start` and `close` a launcher is complete; the program gets its variables, its end is told once."""
    spec = LaunchSpec(
        "run/muscle/a/0",
        "muscle",
        {"GANGLION_NAME": "7"},
        [sys.executable, "-c", "import os, sys; sys.exit(int(os.environ['GANGLION_NAME']))"],
    )
    ended: list[Launched] = []

    async def run() -> Launched:
        launcher = Waiting()
        await launcher.open()
        started = await launcher.start(spec, ended.append)
        await launcher.close()
        return started

    started = asyncio.run(run())
    assert ([started], 7) == (ended, started.code)


def test_the_base_starts_nothing() -> None:
    """A class that lacks a method cannot be made."""
    with pytest.raises(TypeError, match=r"close.*start"):
        Launcher()  # type: ignore[abstract]
