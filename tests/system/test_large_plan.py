"""A real run whose parameters are larger and deeper than any body of a message."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from system.command import ganglion
from system.results import table

from ganglion.limits import BODY_BYTES, BODY_DEPTH

MODULE = Path(__file__).parents[1] / "documents" / "wide.py"
LEVELS = 40


def document() -> str:
    """Return a document with parameters for one environment and two muscles."""
    deep: Any = "bottom"
    for level in range(LEVELS):
        deep = [deep] if level % 2 else {"d": deep}
    table = {f"row number {i} of a table": [i, 2 * i] for i in range(10_000)}
    agent = {"brain": "dummy", "sensors": ["field.0"], "actuators": ["field.0"]}
    names = ("ada", "bob")
    agents = [
        {"name": n, "muscle": {"name": "wide:WideMuscle", "params": {"numbers": list(range(16_000))}}} | agent
        for n in names
    ]
    environment = {"uid": "field", "name": "wide:WideEnvironment", "params": {"table": table, "deep": deep}}
    phase = {
        "environments": [{"environment": environment}],
        "agents": agents,
        "phase_config": {"worker": 2, "episodes": 1},
    }
    whole = {
        "uid": "wide",
        "seed": 1,
        "version": "0.1",
        "run_config": {"condition": "vanilla"},
        "schedule": [{"one": phase}, {"two": {"phase_config": {"mode": "test"}}}],
    }
    return yaml.dump(whole, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)


@pytest.mark.long
def test_large_and_deep_parameters_arrive(tmp_path: Path) -> None:
    """Two phases of environments and muscles get parameters that no body holds; the document is kept with the run."""
    text = document()
    shutil.copy(MODULE, tmp_path / "wide.py")
    (tmp_path / "wide.yml").write_text(text)
    assert BODY_BYTES < len(text)
    assert BODY_DEPTH < LEVELS

    done = ganglion(tmp_path, "run", "wide.yml", "--plain", span_s=120.0)

    assert (0, "") == (done.returncode, done.stderr), done.stdout
    assert [(phase, worker, 10) for phase in (0, 1) for worker in (0, 1)] == [
        (row["phase"], row["worker"], row["steps"]) for row in table(tmp_path, "episodes")
    ]
    assert text == ganglion(tmp_path, "show", "last", "--document").stdout
    kept = ganglion(tmp_path, "results", "--sql", "SELECT length(document) AS n FROM stored_runs", "--json")
    assert [{"n": len(text)}] == json.loads(kept.stdout)
