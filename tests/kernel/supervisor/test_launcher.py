from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ganglion.errors import LaunchError
from ganglion.supervisor import output
from ganglion.supervisor.launcher import Launcher, Process, end
from ganglion.supervisor.output import Output, printable

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="these means are Linux's")


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


KEEPER = [sys.executable, "-P", "-m", "ganglion.supervisor.keeper"]

TREE = """
import os, time
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    time.sleep(600)
time.sleep(600)
"""


def _keep(*argv: str, **more: object) -> tuple[subprocess.Popen[str], int]:
    """Start a keeper; return it with the write end of its lifeline."""
    read, write = os.pipe()
    words = [*KEEPER, str(read), "--", *argv]
    process = subprocess.Popen(
        words, pass_fds=[read], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    os.close(read)
    return process, write


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise SystemExit(0)", 0), ("raise SystemExit(5)", 5), ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM)],
)
def test_keeper_ends_as_its_program(program: str, code: int) -> None:
    """Exit status and signal of the program are the keeper's own."""
    process, lifeline = _keep(sys.executable, "-c", program)
    process.communicate(timeout=10)
    os.close(lifeline)

    assert code == process.returncode


@pytest.mark.skipif(sys.platform != "linux", reason="processes that leave the group are found by Linux's means only")
def test_end_of_the_lifeline_ends_the_tree() -> None:
    """When the supervisor is gone the keeper kills the program, and what it has put into another session."""
    process, lifeline = _keep(sys.executable, "-c", TREE)
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    os.close(lifeline)
    process.communicate(timeout=10)

    assert -signal.SIGKILL == process.returncode
    with pytest.raises(ProcessLookupError):
        os.kill(grandchild, 0)


def test_missing_program_is_named() -> None:
    """A program that cannot be started is named on stderr, with the exit status of a shell."""
    process, lifeline = _keep("/nowhere/program")
    _, err = process.communicate(timeout=10)
    os.close(lifeline)

    assert (127, "cannot start /nowhere/program: No such file or directory\n") == (process.returncode, err)


_KILLING = """
import os, signal, socket
import msgpack
from ganglion.supervisor.linux import adopt_orphans
from ganglion.supervisor.warm import serve

class Killing(socket.socket):
    def send(self, data):
        number, pid = msgpack.unpackb(data)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return super().send(data)

adopt_orphans()
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
null = os.open(os.devnull, os.O_RDWR)
for number in (1, 2):
    socket.send_fds(ours, [msgpack.packb([number, "peer", {}, "x", None, None])], [null, null])
ours.shutdown(socket.SHUT_WR)
serve(Killing(fileno=theirs.detach()), {"peer": lambda variables: 0}, os.getpid())
print([msgpack.unpackb(ours.recv(1024))[0] for _ in range(2)])
"""


@needs_linux
def test_a_process_killed_before_it_begins_leaves_the_warm_parent_alone() -> None:
    """Who is killed in the moment of the answer harms nobody: the next order is carried out."""
    done = subprocess.run([sys.executable, "-c", _KILLING], capture_output=True, text=True, timeout=30)

    assert ("[1, 2]\n", "") == (done.stdout, done.stderr)


def _read(data: bytes, path: Path | None = None) -> Output:
    """Return an output that has read `data` to its end."""
    read, write = os.pipe()
    out = Output(read, path)
    for start in range(0, len(data), 4096):
        os.write(write, data[start : start + 4096])
        out.read()
    os.close(write)
    out.close()
    return out


def test_files_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full file is put aside; there are so many, each of whole lines, and the newest lines are kept."""
    monkeypatch.setattr(output, "LOG_FILE_BYTES", 100)
    (tmp_path / "target").write_text("mine")
    (tmp_path / "x.out.1").symlink_to(tmp_path / "target")
    _read(b"".join(b"line %05d\n" % i for i in range(50)), tmp_path / "x.out")
    files = [tmp_path / name for name in ("x.out.2", "x.out.1", "x.out")]

    assert {*files, tmp_path / "target"} == set(tmp_path.iterdir())
    assert all(path.stat().st_size <= 100 for path in files)
    assert [f"line {i:05}" for i in range(27, 50)] == [line for path in files for line in path.read_text().splitlines()]
    assert "mine" == (tmp_path / "target").read_text()


def test_output_has_a_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes faster is not kept, how much that was is said as soon as there is room; the last words are known."""
    monkeypatch.setattr(output, "OUTPUT_BYTES_PER_S", 100)
    now = [0.0]
    read, write = os.pipe()
    out = Output(read, tmp_path / "x.out", lambda: now[0])
    for _ in range(2):
        os.write(write, b"012345678\n" * 50 + b"last\n")
        out.read()
        assert "last" == out.lines[-1]
        now[0] += 10.0
    os.write(write, b"calm\n")
    os.close(write)
    out.close()
    lines = (tmp_path / "x.out").read_text().splitlines()

    assert [*["012345678"] * 10, "... 405 bytes were not kept"] * 2 + ["calm"] == lines
    assert 810 == out.dropped_bytes


def test_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    """A planted link does not lead the output into another file; the last lines are there all the same."""
    (tmp_path / "target").write_text("mine")
    (tmp_path / "x.out").symlink_to(tmp_path / "target")
    out = _read(b"theirs\n", tmp_path / "x.out")

    assert "mine" == (tmp_path / "target").read_text()
    assert ["theirs"] == list(out.lines)


@given(st.binary(max_size=300))
def test_any_bytes_can_be_shown(data: bytes) -> None:
    """Whatever a process prints, its lines hold printable characters and tabs only."""
    assert all(printable(line) == line for line in _read(data).lines)
