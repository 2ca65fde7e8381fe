from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ganglion.cli.session import processors
from ganglion.errors import UsageError

GANGLION = str(Path(sys.executable).with_name("ganglion"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected a list of processors"),
        ("zero", "expected a list of processors"),
        ("0-", "expected a list of processors"),
        ("0-999999999999", "expected processors up to 3, found 999999999999"),
        ("1", r"expected some of \[0, 3\], found 1"),
        ("3-0", r"expected some of \[0, 3\], found '3-0'"),
    ],
)
def test_others_are_refused(text: str, sentence: str) -> None:
    """A list has numbers and ranges, both ends included; others, and a processor that is not there, are refused."""
    assert [{0}, {0, 2}, {0, 2, 3}] == [processors(good, {0, 1, 2, 3}) for good in ("0", "0,2", "0,2-3")]
    with pytest.raises(UsageError, match=sentence):
        processors(text, {0, 3})


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system keeps no process anywhere")
def test_a_run_is_kept_on_its_processors(tmp_path: Path) -> None:
    """Author's code runs on the processors of the option only; a wrong one starts nothing."""
    last = max(os.sched_getaffinity(0))
    (tmp_path / "shy.py").write_text(
        "import os\nfrom ganglion.sdk import Muscle\n"
        "class Shy(Muscle):\n"
        "    def propose_actions(self, sensors, actuators_available):\n"
        "        raise RuntimeError(f'kept on {sorted(os.sched_getaffinity(0))}')\n"
    )
    (tmp_path / "shy.yml").write_text(
        "uid: shy\nseed: 1\nversion: '0.1'\nschedule:\n  - test:\n"
        "      environments: [{environment: {uid: rod, name: pendulum}}]\n"
        "      agents: [{name: a, muscle: 'shy:Shy', sensors: ['rod.*'], actuators: ['rod.*']}]\n"
        "      phase_config: {mode: test, episodes: 1}\nrun_config: {condition: vanilla}\n"
    )
    command = [GANGLION, "run", "-q", "--store", "none", "shy.yml"]
    kept = subprocess.run([*command, "--cpus", str(last)], cwd=tmp_path, capture_output=True, text=True)
    wrong = subprocess.run([*command, "--cpus", "9999"], cwd=tmp_path, capture_output=True, text=True)

    assert f"kept on [{last}]" in kept.stderr
    assert (2, f"ganglion: cpus: expected processors up to {last}, found 9999\n") == (wrong.returncode, wrong.stderr)
