from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
NAMES = sorted(path.name for path in SCRIPTS.iterdir() if path.is_file() and path.suffix != ".md")


def test_every_script_has_its_line() -> None:
    """scripts/README.md has one row for each script, and none for a script that is not there."""
    rows = re.findall(r"^\| `([\w-]+)", (SCRIPTS / "README.md").read_text(), re.MULTILINE)

    assert NAMES == sorted(rows)


@pytest.mark.parametrize("name", NAMES)
def test_script_can_be_run(name: str) -> None:
    """Each script is executable, parses, and stops at its first unset variable."""
    path = SCRIPTS / name

    assert os.access(path, os.X_OK)
    assert re.search(r"^set -e?uo pipefail$", path.read_text(), re.MULTILINE)
    assert 0 == subprocess.run(["bash", "-n", path], check=False).returncode
