from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganglion.errors import PluginInvalid
from ganglion.peer.author import Loader

SOURCE = """
from ganglion.sdk import Muscle

class Walker(Muscle):
    def __init__(self, speed, uid=""):
        self.made = (speed, uid, self.worker)

    def propose_actions(self, sensors, actuators_available):
        return actuators_available
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a document's folder with a module beside it."""
    (tmp_path / "loader_walking.py").write_text(SOURCE)
    yield tmp_path
    sys.modules.pop("loader_walking", None)


def test_an_unknown_name_is_refused(folder: Path) -> None:
    """What nobody offers cannot be loaded."""
    with pytest.raises(PluginInvalid, match="no_such_muscle"):
        Loader(str(folder), ()).load("muscle", "no_such_muscle")
