from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, sys
from ganglion.cli.again import begin_again
print(os.getpid(), sys.argv[1:], os.environ.get("SEEN", "no"))
if "SEEN" not in os.environ:
    os.environ["SEEN"] = "yes"
    begin_again()
"""


def test_the_same_command_runs_again(tmp_path: Path) -> None:
    """It is the same process with the same words; what was put into variables is there."""
    (tmp_path / "ganglion").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "ganglion"), "one", "two words"]
    done = subprocess.run(command, env={**os.environ}, capture_output=True, text=True, check=True)
    first, second = (line.partition(" ") for line in done.stdout.splitlines())

    assert ("['one', 'two words'] no", "['one', 'two words'] yes") == (first[2], second[2])
    assert first[0] == second[0]
