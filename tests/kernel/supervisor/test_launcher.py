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
from ganglion.supervisor.launcher import Launcher
from ganglion.supervisor.linux import PRIVATE, children_of, may_change_user, user_of
from ganglion.supervisor.process import Process

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the warm parent works on Linux")
needs_right = pytest.mark.skipif(not may_change_user(), reason="only root starts processes as another user")


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
def test_participant_is_our_own_child(standin: Path) -> None:
    """A forked participant is a child of the supervisor, leads a session of its own, and has nothing to read."""

    async def body() -> tuple[list[str], int | None, bool]:
        async with _opened() as launcher:
            process = await launcher.fork("x", {"WHAT": "facts"}, ignore)
            ours = process.pid in children_of(os.getpid())
            await process.ended.wait()
            return list(process.output.lines), process.code, ours

    lines, code, ours = asyncio.run(body())
    assert ["variables ['WHAT']", f"facts {os.getpid()} True True", "stdin "] == lines
    assert (0, True) == (code, ours)


@needs_linux
@pytest.mark.parametrize(
    ("variables", "code"), [({"STATUS": "3"}, 3), ({"WHAT": "crash"}, -11), ({"WHAT": "raise"}, 1)]
)
def test_end_of_a_participant_is_known(standin: Path, variables: dict[str, str], code: int) -> None:
    """Exit status, signal and uncaught error of a participant reach the supervisor, once."""
    ends: list[int | None] = []

    async def body() -> list[str]:
        async with _opened() as launcher:
            process = await launcher.fork("x", variables, lambda p: ends.append(p.code))
            await process.ended.wait()
            return list(process.output.lines)

    lines = asyncio.run(body())
    assert [code] == ends
    assert ("RuntimeError: boom" in lines) == (variables.get("WHAT") == "raise")


@needs_linux
def test_many_are_started_at_once(standin: Path) -> None:
    """Forty orders given at once give forty processes with forty numbers."""

    async def body() -> set[int]:
        async with _opened() as launcher:
            started = [launcher.fork(f"p{i}", {"WHAT": "stay"}, ignore) for i in range(40)]
            processes = await asyncio.gather(*started)
            for process in processes:
                process.signal(signal.SIGKILL)
            await asyncio.gather(*(process.ended.wait() for process in processes))
            return {process.pid for process in processes}

    assert 40 == len(asyncio.run(body()))


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
def test_an_order_outlives_the_warm_parent(standin: Path) -> None:
    """What a warm parent was told and did not do is done by the next one, which is started at once, and told of."""

    async def body() -> tuple[list[str], int | None]:
        told: list[str] = []
        async with _opened() as launcher:
            launcher.on_warm_lost = told.append
            first = await launcher.fork("first", {}, ignore)
            await first.ended.wait()
            warm = launcher._warm
            assert warm is not None
            warm.signal(signal.SIGSTOP)
            order = asyncio.ensure_future(launcher.fork("second", {"STATUS": "4"}, ignore))
            await asyncio.sleep(0)
            assert launcher._orders
            assert not launcher._unsent
            warm.signal(signal.SIGKILL)
            second = await order
            await second.ended.wait()
            assert launcher._warm is not warm
            return told, second.code

    assert (["killed by SIGKILL"], 4) == asyncio.run(body())


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


def test_program_ends_as_it_ends(standin: Path) -> None:
    """The keeper of a program passes on its exit status, its signal and its output."""

    async def body() -> list[tuple[int | None, str]]:
        async with _opened() as launcher:
            found = []
            for variables in ({"STATUS": "7"}, {"WHAT": "crash"}):
                process = launcher.execute("x", [sys.executable, str(standin)], variables, ignore)
                await process.ended.wait()
                found.append((process.code, process.output.lines[0][:9]))
            return found

    assert [(7, "variables"), (-11, "variables")] == asyncio.run(body())


def test_program_that_is_missing_is_named(standin: Path) -> None:
    """A program that cannot be started ends with 127, as in a shell, and its last words name it."""

    async def body() -> tuple[int | None, list[str]]:
        async with _opened() as launcher:
            process = launcher.execute("x", ["/nowhere/program"], {}, ignore)
            await process.ended.wait()
            return process.code, list(process.output.lines)

    assert (127, ["cannot start /nowhere/program: No such file or directory"]) == asyncio.run(body())


def test_folder_that_is_missing_is_named(standin: Path) -> None:
    """A program whose working folder is not there is not started; the reason names program and folder."""

    async def body() -> None:
        async with _opened() as launcher:
            launcher.execute("x", ["./program"], {}, ignore, cwd="/nowhere")

    with pytest.raises(LaunchError, match=r"^cannot start \./program: there is no folder /nowhere$"):
        asyncio.run(body())


@needs_linux
def test_whole_tree_of_a_program_ends(standin: Path) -> None:
    """What a program has started in sessions of their own is killed when the program ends."""

    async def body() -> int:
        async with _opened() as launcher:
            process = launcher.execute("x", [sys.executable, str(standin)], {"WHAT": "family"}, ignore)
            grandchild = int((await _seen(process, "grandchild")).split()[1])
            [program] = [p for p in children_of(process.pid) if p != grandchild]
            os.kill(program, signal.SIGTERM)
            await process.ended.wait()
            return grandchild

    grandchild = asyncio.run(body())
    with pytest.raises(ProcessLookupError):
        os.kill(grandchild, 0)


@needs_linux
def test_deaf_process_ends_by_sigkill(standin: Path) -> None:
    """SIGTERM goes to the group and may be ignored; SIGKILL may not."""

    async def body() -> int | None:
        async with _opened() as launcher:
            process = await launcher.fork("x", {"WHAT": "deaf"}, ignore)
            await _seen(process, "deaf")
            process.signal(signal.SIGTERM)
            process.signal(signal.SIGKILL)
            await process.ended.wait()
            return process.code

    assert -signal.SIGKILL == asyncio.run(body())


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


@needs_right
@needs_linux
def test_process_of_another_user(standin: Path) -> None:
    """A participant runs under the name that it was given, without any of our groups, and can be ended all the same."""
    user = user_of("nobody")

    async def body() -> tuple[str, str, int | None]:
        async with _opened() as launcher:
            known = {"WHAT": "user"}
            first = await launcher.fork("x", known, ignore, user=user, mask=PRIVATE)
            second = launcher.execute(
                "y", ["/bin/sh", "-c", "echo user $(id -u) $HOME; exec sleep 60"], {}, ignore, user=user
            )
            said = await _seen(second, "user")
            second.signal(signal.SIGKILL)
            await second.ended.wait()
            await first.ended.wait()
            return first.output.lines[-1], said, second.code

    numbers = f"user {user.uid} {user.gid} {list(user.groups)} 0o77 nobody"
    assert (numbers, f"user {user.uid} {user.home}", -signal.SIGKILL) == asyncio.run(body())
