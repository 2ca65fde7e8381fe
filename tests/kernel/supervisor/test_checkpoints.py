from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ganglion.supervisor.checkpoints import Moments
from ganglion.supervisor.runs import Run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are stopped and watched as on Linux")


def take(run: Run) -> asyncio.Task[bool]:
    """Take a checkpoint of a run that goes on."""
    return asyncio.ensure_future(run.checkpoints.take())


def test_checkpoints_are_taken_by_and_by(make_farm: Callable[..., Any]) -> None:
    """As often as the document says, while the run goes on; when it has finished none is left."""
    farm = make_farm(checkpoint_s=0.001)
    seen: list[int] = []

    def look(run: Run) -> None:
        moment, _ = Moments(run.folder.path).newest()
        seen.append(0 if moment is None else moment.number)

    farm.deeds["phase.ended", 2] = look
    outcome = farm.carry_out()

    assert ("finished", 0) == (outcome.status, outcome.exit_status), outcome.story
    assert seen[0] >= 1
    assert (None, []) == Moments(farm.folder.path).newest()
    assert [] == list((farm.folder.path / "cuts").glob("moment-*"))


def test_nobody_is_asked_before_the_run_has_begun(make_farm: Callable[..., Any]) -> None:
    """A run that has not begun has no moment to go on from."""
    farm = make_farm()
    farm.deeds["run.started", 1] = take
    farm.carry_out()

    assert not farm.told[0].result()


def test_what_cannot_be_kept_is_told(make_farm: Callable[..., Any]) -> None:
    """A file in the place of the folder is a warning; the run goes on."""
    farm = make_farm()
    (farm.folder.path / "cuts").write_text("in the way")
    farm.deeds["episode.ended", 1] = take
    outcome = farm.carry_out()

    assert ("finished", 0) == (outcome.status, outcome.exit_status), outcome.story
    assert not farm.told[0].result()
    assert any("cannot be written" in fields["text"] for fields in farm.fields("warning"))
