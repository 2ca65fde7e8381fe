from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ganglion_store.database import make


def test_what_the_killed_have_left_goes_when_a_store_is_made(tmp_path: Path) -> None:
    """Files of makers that live, and of other stores, stay."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = [f".a.db.{ended.pid}-00.new", f".a.db.{ended.pid}-00.new-journal"]
    others = [f".a.db.{os.getppid()}-00.new", f".b.db.{ended.pid}-00.new", "a.db.x"]
    for name in [*names, *others]:
        (tmp_path / name).touch()
    make(tmp_path / "a.db")

    assert sorted([*others, "a.db"]) == sorted(path.name for path in tmp_path.iterdir())
