from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

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
