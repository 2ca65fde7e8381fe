from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ganglion.cli.settings import Settings
from ganglion.cli.stores import RESOLVED, find_stored
from ganglion.errors import UsageError

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


def test_run_that_was_not_stored(settings: Settings, tmp_path: Path) -> None:
    """Without a store a run is found by its folder: by id, else the newest of that uid; what is not known is None."""
    folder_of(tmp_path, "demo-1", started="2031")
    folder_of(tmp_path, "demo-2", started="2030")
    (tmp_path / "no-run").mkdir()

    assert "demo-1" == find_stored(settings, "demo").run
    found = find_stored(settings, "demo-2")
    assert (None, None, []) == (found.row["status"], found.row["ended"], found.brains)
    assert [None, None] == [row["episodes"] for row in found.phases]
    with pytest.raises(UsageError, match=r"there is no store to look into.*no folder of such a run"):
        find_stored(settings, "nobody")


def test_run_beside_a_store(settings: Settings, tmp_path: Path, write_run: Callable[..., str]) -> None:
    """A run that the store does not know is found by its folder; one that is nowhere is said with the store's words."""
    write_run("demo-1")
    folder_of(tmp_path, "tape-1", uid="tape")

    assert "tape-1" == find_stored(settings, "tape").run
    with pytest.raises(UsageError, match="there is no run `nobody`"):
        find_stored(settings, "nobody")


def test_missing_document(settings: Settings, write_run: Callable[..., str]) -> None:
    """A folder without the document is said by its file; the phases are those of the store."""
    write_run("demo-1")
    found = find_stored(settings, "last")

    assert [(0, None)] == [(row["phase"], row["workers"]) for row in found.phases]
    with pytest.raises(UsageError, match=r"document\.yml: cannot be read"):
        found.text("document.yml")
