"""Readers of bytes from elsewhere: only the errors that they declare, no input above 50 ms or 64 MiB.

A finding is kept for ever: its bytes become a file in `kept/<target>/`.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz.measure import CPU_S, MEMORY_BYTES, search
from fuzz.mutation import mutations
from fuzz.target import Target
from fuzz.targets import TARGETS

HERE = Path(__file__).parent
KEPT = HERE / "kept"
NEW = 5000 // len(TARGETS)
LONG_S = float(os.environ.get("GANGLION_FUZZ_S", "1800"))
EXPLORING = os.environ.get("HYPOTHESIS_PROFILE") == "explore"


@pytest.mark.parametrize("name", TARGETS)
def test_kept_inputs(name: str) -> None:
    """What once went wrong, bombs, and what a reader is told to begin with are read or refused within the bounds."""
    target = TARGETS[name]
    kept = [path.read_bytes() for path in sorted((KEPT / name).glob("*"))]

    found = search(target, [*kept, *target.seeds, *target.bombs])
    assert found is None, str(found)


@pytest.mark.parametrize("name", TARGETS)
def test_new_inputs(name: str, tmp_path: Path) -> None:
    """What becomes of good inputs by small changes is read or refused within its bounds."""
    target = TARGETS[name]
    seed = f"{name} {random.SystemRandom().random() if EXPLORING else 0}"
    made = mutations(random.Random(seed), target.seeds, target.words, target.bytes_max)
    found = search(target, itertools.islice(made, 200 * NEW if EXPLORING else NEW))
    if found is not None:
        path = tmp_path / "finding"
        path.write_bytes(found.data)
        pytest.fail(f"{found}\nits bytes: {path}; keep them in {KEPT / name}")


def test_kept_inputs_have_a_target() -> None:
    """No folder of kept inputs is forgotten when a target gets another name."""
    assert {path.name for path in KEPT.iterdir()} <= set(TARGETS)


def _slow(data: bytes) -> None:
    end_s = time.thread_time() + 2 * CPU_S
    while data and time.thread_time() < end_s:
        pass


def _large(data: bytes) -> None:
    bytearray(MEMORY_BYTES + 2**20 if data else 0)


def _raising(data: bytes) -> None:
    if data:
        raise KeyError("undeclared")


@pytest.mark.parametrize(
    ("read", "why"),
    [(_raising, "KeyError: 'undeclared'"), (_slow, r"it takes \d.\d+ s"), (_large, r"it takes \d+ MiB")],
)
def test_what_a_reader_does_not_stand_is_found(read: Callable[[bytes], None], why: str) -> None:
    """An error that is not declared, too much time, too much memory: the input is named, with the reason."""
    target = Target("broken", read, [])
    found = search(target, [b"", b"", b"x"])

    assert search(target, [b""] * 3) is None
    assert found is not None
    assert b"x" == found.data
    assert re.search(why, str(found))


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed (extra `fuzz`)")
@pytest.mark.parametrize("name", TARGETS)
def test_guided_search(name: str, tmp_path: Path) -> None:
    """A search that follows the branches of the code finds nothing either, in half an hour for each reader."""
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", name, f"-max_total_time={int(LONG_S)}", "-verbosity=0"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE / "source"), os.environ.get("PYTHONPATH")])),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=LONG_S + 300,
    )
    left = [str(path) for path in tmp_path.glob("*-*")]

    assert (0, []) == (done.returncode, left), done.stdout[-8000:]
