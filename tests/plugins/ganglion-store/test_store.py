from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from databases import change

from ganglion.sdk.store import StoreError
from ganglion_store.schema import metadata
from ganglion_store.store import SqlStore
from ganglion_store.writer import SqlWriter


def test_a_writer_is_light(uri: str) -> None:
    """A process that only writes imports no numpy, and one that only names the store imports no SQLAlchemy."""
    script = (
        "import sys; from ganglion_store.store import SqlStore; print('sqlalchemy' in sys.modules);"
        "SqlStore.writer(sys.argv[1], 'r').close(); print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, uri], capture_output=True, text=True, check=True)

    assert "False\nFalse\n" == done.stdout


def test_removed_runs_leave_nothing(uri: str, tell: Any) -> None:
    """A removed run takes all its rows along, and the others keep theirs; an unknown one removes none."""
    for run in ("demo-1", "demo-2"):
        with SqlWriter(uri, run, open_rows_bytes=1) as writer:
            writer.apply("g", tell.begin())
            writer.apply(
                "c", [*tell.whole(0), *tell.whole(1), ["signal", 0, None, None, None, "RESET", "i", "", None, 0]]
            )
    with pytest.raises(StoreError, match="run demo-9, found none"):
        SqlStore.remove(uri, ["demo-1", "demo-9"])
    before = _sizes(uri)

    assert {"demo-1": 2} == SqlStore.remove(uri, ["demo-1"])
    after = _sizes(uri)
    assert {table: size // 2 for table, size in before.items()} == after
    assert after["stored_steps"] == 6

    SqlStore.remove(uri, ["demo-2"])
    assert {0} == set(_sizes(uri).values())


def _sizes(uri: str) -> dict[str, int]:
    ours = (name for name in metadata.tables if name != "ganglion_store")
    return {name: change(uri, f"SELECT count(*) FROM {name}")[0][0] for name in ours}
