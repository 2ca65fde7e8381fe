from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ganglion.cli.settings import Settings
from ganglion.cli.stores import RESOLVED, find_stored

RESOLVED_TEXT = """\
uid: demo
schedule:
- first: {phase_config: {mode: train, worker: 2, episodes: 3}}
- second: {phase_config: {mode: test, worker: 1, episodes: null}}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return settings whose results folder is `tmp_path`."""
    return Settings(results=tmp_path, store=None, kernel=None)


def folder_of(results: Path, run: str, uid: str = "demo", started: str = "2030") -> Path:
    """Make the folder of a run."""
    folder = results / run
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(f'{{"run": "{run}", "uid": "{uid}", "started": "{started}"}}')
    (folder / RESOLVED).write_text(RESOLVED_TEXT)
    return folder


def test_run_of_a_store(settings: Settings, tmp_path: Path, write_run: Callable[..., str]) -> None:
    """Rows of the store and the resolved document together tell of phases that have begun and that have not."""
    write_run("demo-1")
    folder_of(tmp_path, "demo-1")

    found = find_stored(settings, "demo")

    assert ("demo-1", "finished", "done") == (found.run, found.row["status"], found.row["reason"])
    keys = ("phase", "name", "mode", "status", "workers", "episodes", "limit")
    assert [(0, "first", "train", "finished", 2, 1, 6), (1, "second", "test", None, 1, 0, None)] == [
        tuple(row[key] for key in keys) for row in found.phases
    ]
    assert ["ada"] == [row["agent"] for row in found.brains]
    assert ["manifest.json", RESOLVED] == [row["path"] for row in found.files()]
    assert RESOLVED_TEXT == found.text(RESOLVED)
