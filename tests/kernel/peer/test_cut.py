from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.errors import StoreError
from ganglion.peer.records import Cuts


def test_the_two_newest_are_kept(tmp_path: Path) -> None:
    """Older cuts are taken away, also when a governor that began anew comes to them again."""
    for _ in range(2):
        cuts = Cuts(tmp_path)
        for phase in range(4):
            cuts.take(0, {"phase": phase})
            cuts.settle(0)

    names = sorted(path.name for path in (tmp_path / "cuts").iterdir())
    assert ["phase-000002.json", "phase-000003.json"] == names


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A folder that is none is named, and what is due later is tried by itself."""
    (tmp_path / "cuts").write_text("in the way")
    cuts = Cuts(tmp_path)
    cuts.take(0, {"phase": 0})
    with pytest.raises(StoreError, match=r"phase-000000\.json: cannot be written"):
        cuts.settle(0)
    cuts.settle(0)
