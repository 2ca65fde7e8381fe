"""The oracle: its cases are complete, and what they compute is what is kept."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "scripts" / "oracle"
CASES = yaml.safe_load((HERE / "cases.yml").read_text())


def test_every_document_is_a_case() -> None:
    """Each document here is named in cases.yml, and each document that is named there exists."""
    documents = {path.stem for path in HERE.glob("*.yml")} - {"cases"}

    assert documents == {name for name in CASES if "/" not in name}
    assert [] == [name for name in CASES if not (HERE / f"{name}.yml").is_file()]


def test_every_case_is_kept() -> None:
    """Digests are kept of each document, seed and number of workers; all have steps and actions."""
    kept = json.loads((HERE / "digests.json").read_text())
    cases = {
        (name, f"{seed}/{workers}")
        for name, says in CASES.items()
        for seed in says["seeds"]
        for workers in says.get("workers", ["-"])
    }

    assert cases == {(name, key) for name, found in kept.items() for key in found}
    assert [] == [
        name
        for name, found in kept.items()
        for tables in found.values()
        if not {"episodes", "steps", "actions"} <= set(tables)
    ]


@pytest.mark.long
def test_what_is_computed_is_what_is_kept() -> None:
    """The digest of each table of each case is the kept one."""
    done = subprocess.run([SCRIPT], capture_output=True, text=True, timeout=1200, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr
