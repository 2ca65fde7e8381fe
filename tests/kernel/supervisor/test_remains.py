from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganglion.supervisor.folder import Census, Life, end_remains, life_of, lives

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="when a process was started is read in /proc")

FAMILY = "import os, time; child = os.fork(); child and print(child, flush=True); time.sleep(600)"
GONE = Life(1, 2**22 + 1, 1)  # no process has so high a number


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    """Return a program in a session of its own, with a child."""
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, start_new_session=True) as it:
        yield it
        it.kill()


def test_what_is_left_is_ended_with_its_group(program: subprocess.Popen[bytes]) -> None:
    """The process and what it has started are gone afterwards, and it is named."""
    assert program.stdout is not None
    child = life_of(1, int(program.stdout.readline()))
    left = life_of(1, program.pid)

    assert (True, True) == (lives(left), lives(child))
    assert ["r/muscle/ada/0"] == end_remains("r", Census("", GONE, lives={"r/muscle/ada/0": left, "r/store": GONE}))
    assert not lives(left)
    while Path(f"/proc/{child.pid}").exists() and lives(child):
        pass
