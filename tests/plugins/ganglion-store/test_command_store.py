from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., tuple[int, str, str]]


def test_an_older_store_is_migrated(
    ganglion: Command, write_run: Callable[..., str], tmp_path: Path, age: Callable[[Path, int], None]
) -> None:
    """Its rows can be read before and after; a copy lies beside it; a second time there is nothing to do."""
    write_run("demo-1")
    age(tmp_path / "ganglion.db", 1)
    before = ganglion("runs", "--json")

    uri = f"sqlite:///{tmp_path}/ganglion.db"
    assert (0, f"{uri}: revision 1, now 5\n", "") == ganglion("store", "migrate")
    assert before == ganglion("runs", "--json")
    assert (tmp_path / "ganglion.db.revision-1").is_file()
    assert (0, f"{uri}: is of revision 5 already\n", "") == ganglion("store", "migrate")
    status, out, _ = ganglion("store", "migrate", "--json")
    assert (0, {"before": 5, "after": 5}) == (status, json.loads(out))


def test_no_store_is_not_migrated(ganglion: Command, tmp_path: Path) -> None:
    """Where there is none, none is made; a newer one is left alone."""
    status, _, error = ganglion("store", "migrate")

    assert (1, True) == (status, "found nothing" in error)
    assert not (tmp_path / "ganglion.db").exists()
    assert 2 == ganglion("--store", "none", "store", "migrate")[0]


def test_runs_of_other_folders_are_looked_at_by_name(
    ganglion: Command, write_run: Callable[..., str], tmp_path: Path
) -> None:
    """`verify` without names looks at runs that have a folder here, and says that there are more."""
    write_run("demo-1")
    write_run("demo-2")
    (tmp_path / "ganglion.db").rename(tmp_path / "shared.db")
    (tmp_path / "demo-1").mkdir(exist_ok=True)
    shutil.rmtree(tmp_path / "demo-2", ignore_errors=True)
    store = ["--store", f"sqlite:///{tmp_path}/shared.db", "--results", str(tmp_path / "here")]
    (tmp_path / "here").mkdir()
    (tmp_path / "demo-1").rename(tmp_path / "here" / "demo-1")
    _, out, error = ganglion(*store, "verify", "--json")

    assert ["demo-1"] == [row["run"] for row in json.loads(out)["runs"]]
    assert "1 of 2 runs have no folder in" in error
    assert ["demo-2"] == [row["run"] for row in json.loads(ganglion(*store, "verify", "demo-2", "--json")[1])["runs"]]
