from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ganglion.errors import LaunchError
from ganglion.sdk.launcher import Launched, Launcher, LaunchSpec, LaunchWatch
from ganglion.supervisor import output
from ganglion.supervisor.launch.local import Local
from ganglion.supervisor.launch.process import Process, end, within
from ganglion.supervisor.output import Output

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="these means are Linux's")


def process(name: str = "x") -> Process:
    """Return a process that is to be started, and whose end is told to nobody."""
    return Process(name, None, lambda process: None)


def spec(name: str, argv: list[str] | None = None, **variables: str) -> LaunchSpec:
    """Return what starts the stand-in, or a program."""
    return LaunchSpec(name, variables, argv, module="standin")


@contextlib.asynccontextmanager
async def _opened(entry: str = "standin:main") -> AsyncIterator[Local]:
    launcher = Local({"standin": entry}, preload=("msgpack",))
    await launcher.open()
    try:
        yield launcher
    finally:
        await launcher.close()


async def _said(process: Process) -> None:
    """Wait until a process has printed a line."""
    for _ in range(1_000_000):
        if process.output.lines:
            return
        await asyncio.sleep(0)


@needs_linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_warm_parent_is_replaced(standin: Path, number: signal.Signals) -> None:
    """When the warm parent is killed or stopped its participants live on, and the next order has another one."""
    async with _opened() as launcher:
        first = await process().start(launcher, spec("first", WHAT="stay"))
        await _said(first)
        warm = next(child for child in launcher.children.values() if child.name == "warm")
        warm.signal(number)
        for _ in range(100_000 if number is signal.SIGKILL else 0):
            if warm.pid not in launcher.children:
                break
            await asyncio.sleep(0)
        second = await process().start(launcher, spec("second", STATUS="4"))
        await second.ended.wait()
        assert (False, 4) == (first.ended.is_set(), second.code)
        first.signal(signal.SIGTERM)
        await first.ended.wait()


@needs_linux
async def test_broken_import_of_the_warm_parent_is_told(standin: Path) -> None:
    """A warm parent that cannot import an entry fails the order with its own last words."""
    with pytest.raises(LaunchError, match="No module named 'standin_missing'"):
        async with _opened("standin_missing:main") as launcher:
            await process().start(launcher, spec("x"))


def _write_modules(standin: Path) -> None:
    """Let the stand-in say whether it has a module; write that, and one that starts a thread."""
    told = 'def main(variables):\n    print("shared" in sys.modules, flush=True)'
    standin.write_text(standin.read_text().replace("def main(variables):", told))
    for name, more in (
        ("shared", ""),
        ("threaded", "; threading.Thread(target=threading.Event().wait, daemon=True).start()"),
    ):
        (standin.parent / f"{name}.py").write_text(f"import threading{more}")


@needs_linux
@pytest.mark.parametrize("module", ["shared", "threaded", "missing"])
async def test_modules_are_imported_once_for_all_participants(standin: Path, module: str) -> None:
    """Who starts has what the warm parent was told to import, but for what started a thread or is not there."""
    _write_modules(standin)
    async with _opened() as launcher:
        launcher.prepare([module])
        one = await process().start(launcher, spec("one"))
        await one.ended.wait()

    assert (module == "shared", 0) == ("True" in one.output.lines, one.code)


async def test_server_answers_or_is_named(tmp_path: Path) -> None:
    """A program of ours that answers nothing is reported with its last words; one that answers is handed over."""
    echo, mute = tmp_path / "echo.py", tmp_path / "mute.py"
    echo.write_text("import sys; print(sys.stdin.readline().strip()[::-1], flush=True); sys.stdin.read()")
    mute.write_text("import sys; sys.exit('no socket to be had')")
    async with _opened() as launcher:
        broker = process("broker")
        answer, lifeline = await launcher.serve(broker, [str(echo)], b"abc")
        os.close(lifeline)
        await broker.ended.wait()
        assert (b"cba", 0) == (answer, broker.code)
        with pytest.raises(LaunchError, match="no socket to be had"):
            await launcher.serve(process("broker"), [str(mute)], b"abc")


async def test_left_processes_are_found_and_ended(standin: Path) -> None:
    """Closing the launcher ends what is still there and names it."""
    async with _opened() as launcher:
        left = await process().start(launcher, spec("left", [sys.executable, str(standin)], WHAT="stay"))
        assert [f"left (process {left.pid})"] == await launcher.close()
        assert left.ended.is_set()


async def test_an_end_is_told_once_with_all_output() -> None:
    """The end comes after the last line, once; a signal to a process that has ended reaches nobody."""
    told: list[Process] = []
    program = "print('a'); print('b', end=''); raise SystemExit(3)"
    async with _opened() as launcher:
        ending = Process("x", None, told.append)
        await ending.start(launcher, spec("x", [sys.executable, "-c", program]))
        await ending.ended.wait()
        ending.signal(signal.SIGKILL)

    assert (3, ["a", "b"], [ending]) == (ending.code, list(ending.output.lines), told)


@pytest.mark.parametrize(("program", "code"), [("echo up; exec sleep 600", -signal.SIGTERM), ("echo up; exit 3", 3)])
async def test_a_process_that_does_not_leave_is_ended(program: str, code: int) -> None:
    """A process that was asked already and stays gets SIGTERM; one that leaves gets nothing."""
    async with _opened() as launcher:
        leaving = await process().start(launcher, spec("x", ["sh", "-c", program]))
        await _said(leaving)
        await end(leaving)

    assert code == leaving.code


class Hasty(Launcher):
    """Tell an end before the start is known, as a launcher may that hears of both from elsewhere."""

    async def start(self, spec: LaunchSpec, watch: LaunchWatch) -> Launched:
        watch.printed(b"so long\n")
        watch.exited(5, "its node was lost")
        return Elsewhere()

    async def close(self) -> list[str]:
        return []


class Elsewhere(Launched):
    """Be a process of another machine, of which nothing is known."""

    host = "there"

    def signal(self, signum: int) -> None:
        raise AssertionError("it has ended")


async def test_a_launcher_may_know_little(capsys: pytest.CaptureFixture[str]) -> None:
    """An end that is told early is told behind the start; what a launcher cannot do is nothing, or zero."""
    told: list[str] = []
    quick = await Process("x", None, lambda process: told.append(process.end_text)).start(Hasty(), spec("x"))
    early = list(told)
    assert await within(quick.ended, 10.0)
    quick.signal(signal.SIGKILL)

    assert ([], ["ended with exit status 5 (its node was lost)"]) == (early, told)
    assert ["so long"] == list(quick.output.lines)
    assert ("there", None, (0.0, 0)) == (quick.host, quick.pid, quick.usage())
    assert "" == capsys.readouterr().err  # it was sent nothing
    with Hasty().quiesced([Elsewhere()]) as quiet:
        assert not quiet


async def test_a_launcher_that_cannot_send_a_signal_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Its exception is printed with process, signal and traceback, and whoever sends the next signal goes on."""
    running = process("muscle.ada.0")
    running.launcher, running.launched = Hasty(), Elsewhere()
    running.signal(signal.SIGTERM)
    running.kill("it hangs")

    first, *_ = told = capsys.readouterr().err.splitlines()
    assert "launcher Hasty: SIGTERM was not sent to muscle.ada.0" == first
    assert "launcher Hasty: SIGKILL was not sent to muscle.ada.0" in told
    assert 2 == told.count("AssertionError: it has ended")


TREE = """
import os, time
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    time.sleep(600)
time.sleep(600)
"""


def _reaped(*argv: str) -> tuple[subprocess.Popen[str], int]:
    """Start a program under a reaper; return the reaper with the write end of its lifeline."""
    read, write = os.pipe()
    words = [sys.executable, "-P", "-m", "ganglion.supervisor.launch.reaper", str(read), "--", *argv]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words, pass_fds=[read], start_new_session=True, **pipes)
    os.close(read)
    return process, write


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ([sys.executable, "-c", "raise SystemExit(5)"], 5, ""),
        ([sys.executable, "-c", "import os; os.kill(os.getpid(), 15)"], -signal.SIGTERM, ""),
        (["/nowhere/program"], 127, "cannot start /nowhere/program: No such file or directory\n"),
    ],
)
def test_a_reaper_ends_as_its_program(argv: list[str], code: int, said: str) -> None:
    """Exit status and signal of the program are the reaper's own; a program that cannot be started is named."""
    process, lifeline = _reaped(*argv)
    _, err = process.communicate(timeout=10)
    os.close(lifeline)

    assert (code, said) == (process.returncode, err)


@needs_linux
def test_a_program_dies_with_its_reaper() -> None:
    """Who kills a reaper kills the program: nothing goes on of which nobody knows any more."""
    process, lifeline = _reaped(sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
    assert process.stdout is not None
    assert "up\n" == process.stdout.readline()
    process.kill()
    rest, _ = process.communicate(timeout=10)  # until the program has closed its output
    os.close(lifeline)

    assert ("", -signal.SIGKILL) == (rest, process.returncode)


@needs_linux
def test_the_end_of_the_lifeline_ends_the_tree() -> None:
    """When the supervisor is gone the reaper kills the program, and what it has put into another session."""
    process, lifeline = _reaped(sys.executable, "-c", TREE)
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    os.close(lifeline)
    process.communicate(timeout=10)

    assert -signal.SIGKILL == process.returncode
    with pytest.raises(ProcessLookupError):
        os.kill(grandchild, 0)


_KILLING = """
import os, signal, socket
import msgpack
from ganglion.supervisor.launch.system import adopt_orphans
from ganglion.supervisor.launch.warm import serve

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
    socket.send_fds(ours, [msgpack.packb([number, "ganglion.peer", {}, "x", None, None])], [null, null])
ours.shutdown(socket.SHUT_WR)
serve(Killing(fileno=theirs.detach()), {"ganglion.peer": lambda variables: 0}, os.getpid())
print([msgpack.unpackb(ours.recv(1024))[0] for _ in range(2)])
"""


@needs_linux
def test_a_process_killed_before_it_begins_leaves_the_warm_parent_alone() -> None:
    """A process that is killed in the moment of the answer harms no other: the next order is carried out."""
    done = subprocess.run([sys.executable, "-c", _KILLING], capture_output=True, text=True, timeout=30)

    assert ("[1, 2]\n", "") == (done.stdout, done.stderr)


def _read(data: bytes, path: Path | None = None) -> Output:
    """Return an output that has read `data` to its end."""
    out = Output(path)
    for start in range(0, len(data), 4096):
        out.feed(data[start : start + 4096])
    out.close()
    return out


def _texts(path: Path) -> list[str]:
    """Return the lines of a file without their times."""
    parts = [line.partition("Z ") for line in path.read_text().splitlines()]
    assert all(dt.datetime.fromisoformat(f"{time}Z") for time, _, _ in parts)
    return [text for _, _, text in parts]


def test_files_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full file is put aside; there are so many, each of whole lines, and the newest lines are kept."""
    monkeypatch.setattr(output, "LOG_FILE_BYTES", 360)
    (tmp_path / "target").write_text("mine")
    (tmp_path / "x.out.1").symlink_to(tmp_path / "target")
    _read(b"".join(b"line %05d\n" % i for i in range(50)), tmp_path / "x.out")
    files = [tmp_path / name for name in ("x.out.2", "x.out.1", "x.out")]

    assert {*files, tmp_path / "target"} == set(tmp_path.iterdir())
    assert all(path.stat().st_size <= 360 for path in files)
    assert [f"line {i:05}" for i in range(27, 50)] == [line for path in files for line in _texts(path)]
    assert "mine" == (tmp_path / "target").read_text()


def test_output_has_a_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes faster is not kept, how much that was is said as soon as there is room; the last words are known."""
    monkeypatch.setattr(output, "OUTPUT_BYTES_PER_S", 100)
    now = [0.0]
    out = Output(tmp_path / "x.out", lambda: now[0])
    for _ in range(2):
        out.feed(b"012345678\n" * 50 + b"last\n")
        assert "last" == out.lines[-1]
        now[0] += 10.0
    out.feed(b"calm")
    out.close()
    lines = _texts(tmp_path / "x.out")

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
    assert all(char.isprintable() or char == "\t" for line in _read(data).lines for char in line)
