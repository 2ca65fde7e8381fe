from __future__ import annotations

import subprocess
import sys


def test_it_costs_little() -> None:
    """Importing it brings no arrays, no database, no log and no screen."""
    heavy = {"numpy", "rich", "sqlalchemy", "structlog"}
    script = f"import ganglion.cli.extension, sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert "[]" == done.stdout.strip(), done.stderr
