from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import PluginInvalid
from ganglion.peer.author import Hooks, Loader, failure_of
from ganglion.wire.messages import Failure

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


# -- failure ----------------------------------------------------------------------------------------------------------
def boom() -> None:
    """Raise as an author's helper would."""
    raise ValueError("boom")


def caught(function: Any, *args: Any) -> BaseException:
    """Return what a function raises."""
    try:
        function(*args)
    except BaseException as error:  # noqa: BLE001 - the test looks at whatever it is
        return error
    raise AssertionError("nothing was raised")


def first_frame(failure: Failure) -> str:
    """Return the first frame that a traceback shows."""
    assert failure.traceback is not None
    lines = failure.traceback.splitlines()
    assert "Traceback (most recent call last):" == lines[0]
    return lines[1]


def test_async_hook_s_traceback_begins_in_the_author_s_file() -> None:
    """The loop that runs an async hook is not shown either."""

    async def hook() -> None:
        await asyncio.sleep(0)
        boom()

    hooks = Hooks("brain ada")
    failure = failure_of(caught(hooks, "think", hook))
    hooks.close()

    assert "test_loader.py" in first_frame(failure)
    assert "asyncio" not in (failure.traceback or "")
