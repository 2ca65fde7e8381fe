"""Readers of bytes from elsewhere: only the errors that they declare, no input above 50 ms or 64 MiB.

A finding is kept for ever: its bytes become a file in `kept/<target>/`.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.measure import search
from fuzz.mutation import mutations
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


@pytest.mark.long
@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris is not installed (extra `fuzz`)"
)
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
