from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

from ganglion.supervisor.launcher import Process, end
from ganglion.supervisor.output import Output

GROUP = "import os, time; os.fork() or time.sleep(600); print('ready', flush=True)"


def _start(program: str, write: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", program]
    return subprocess.Popen(words, stdout=write, stderr=write, start_new_session=True)


def _watch(program: str, signum: int | None = None) -> tuple[int | None, list[str], int]:
    """Run a program until it ends; return its end, its lines, and how often the end was told."""

    async def body() -> tuple[int | None, list[str], int]:
        told: list[Process] = []
        read, write = os.pipe()
        started = _start(program, write)
        os.close(write)
        process = Process("x", started.pid, Output(read, None), told.append)
        if signum is not None:
            process.signal(signum)
        await process.ended.wait()
        started.returncode = 0
        process.signal(signal.SIGKILL)  # it has ended: nobody is meant any more
        return process.code, list(process.output.lines), len(told)

    return asyncio.run(body())


def test_end_is_told_once_with_all_output() -> None:
    """The end comes after the last line, once."""
    assert (3, ["a", "b"], 1) == _watch("print('a'); print('b', end=''); raise SystemExit(3)")


def test_group_dies_with_its_leader() -> None:
    """What a process has left in its group is killed when it ends: the output is not held open by it."""
    code, lines, _ = _watch(GROUP)

    assert (0, ["ready"]) == (code, lines[-1:])


def test_who_does_not_hear_is_ended() -> None:
    """A process that was asked already and stays gets SIGTERM; one that goes gets nothing."""

    async def body(program: str) -> int | None:
        read, write = os.pipe()
        started = _start(program, write)
        os.close(write)
        process = Process("x", started.pid, Output(read, None), lambda process: None)
        await end(process)
        started.returncode = 0
        return process.code

    assert -signal.SIGTERM == asyncio.run(body("import time; time.sleep(600)"))
    assert 3 == asyncio.run(body("raise SystemExit(3)"))
