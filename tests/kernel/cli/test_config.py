from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

GANGLION = str(Path(sys.executable).with_name("ganglion"))
Config = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return what carries out `ganglion config` in a folder, as a user would."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GANGLION_")}

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        known = {**ours, "XDG_CONFIG_HOME": str(tmp_path / "home"), **variables}
        return subprocess.run(
            [GANGLION, "config", *words], cwd=tmp_path, env=known, capture_output=True, text=True, check=False
        )

    return run


def test_each_value_is_shown_with_its_origin(config: Config, tmp_path: Path) -> None:
    """Built in, file, variable, option: the last one that says it; passwords are nobody's business."""
    (tmp_path / ".ganglion.yml").write_text(
        "store: postgresql://me:secret@host/db\nresults: here\nprocesses_per_run: 300\n"
    )
    shown = config("--results", "there", GANGLION_COMMANDS="deny")

    assert (0, "") == (shown.returncode, shown.stderr)
    assert [
        ["results", "there", "option --results"],
        ["store", "postgresql://me:***@host/db", ".ganglion.yml:1"],
        ["kernel", "-", "built in"],
        ["bind", "-", "built in"],
        ["cpus", "-", "built in"],
        ["allow", "-", "built in"],
        ["block", "-", "built in"],
        ["commands", "deny", "variable GANGLION_COMMANDS"],
        ["readers", "owner", "built in"],
        ["processes_per_run", "300", ".ganglion.yml:3"],
        ["journal_begin_bytes", str(8 << 20), "built in"],
    ] == [line.split(maxsplit=2) for line in shown.stdout.splitlines()]
    tree = json.loads(config("--json").stdout)
    assert {"value": 300, "origin": ".ganglion.yml:3"} == tree["processes_per_run"]


def test_a_faulty_file_ends_every_command(config: Config, tmp_path: Path) -> None:
    """Nothing is done by half of the settings: exit status 2 and the fault with its line."""
    (tmp_path / ".ganglion.yml").write_text("proceses_per_run: 300\n")
    refused = config()

    assert (2, "") == (refused.returncode, refused.stdout)
    assert ".ganglion.yml:1:1: proceses_per_run: unknown key; did you mean `processes_per_run`?" in refused.stderr
