from __future__ import annotations

import json
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
