from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_every_mutant_can_be_tried() -> None:
    """The passage that each mutant changes occurs in the code once, and the tests that it names exist."""
    argv = [sys.executable, str(Path(__file__).with_name("mutate.py")), "--check"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert (0, "") == (ended.returncode, ended.stderr)
