from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ganglion.supervisor.checkpoints import Checkpoints, Moments
from ganglion.supervisor.runs import Run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are stopped and watched as on Linux")


def take(run: Run) -> asyncio.Task[bool]:
    """Take a checkpoint of a run that goes on."""
    return asyncio.ensure_future(run.checkpoints.take())


def test_a_checkpoint_holds_the_tapes_of_all(make_farm: Callable[..., Any]) -> None:
    """Everybody whom the phase needs has his tape in it, and the run goes on as if nothing had been."""
    farm = make_farm()
    kept: list[Any] = []

    def look(run: Run) -> None:
        taken = farm.told[0]
        if not taken.done():  # it is at work still: looked at as soon as it is not
            taken.add_done_callback(lambda _: look(run))
            return
        kept.append((taken.result(), Moments(run.folder.path).newest()))

    farm.deeds["episode.ended", 1] = take
    farm.deeds["phase.started", 2] = look
    outcome = farm.carry_out()

    assert ("finished", 0) == (outcome.status, outcome.exit_status), outcome.story
    [(done, (moment, wrong))] = kept
    assert (True, [], False) == (done, wrong, moment.stop)
    assert ("farm-1", 0) == (moment.facts["run"], moment.facts["phase"])
    names = ["governor", "brain.ada", "controller.0", "environment.hut.0", "muscle.ada.0"]
    assert {f"tapes/{name}.tape" for name in names} == set(moment.tapes)
    assert all(length > 0 for length in moment.tapes.values())


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


def test_where_nobody_comes_back_there_are_none(make_farm: Callable[..., Any]) -> None:
    """Without tapes a run that was lost begins again with a phase."""
    farm = make_farm(on_loss="fail")
    farm.deeds["episode.ended", 1] = take
    outcome = farm.carry_out()

    assert ("finished", 0) == (outcome.status, outcome.exit_status), outcome.story
    assert not farm.told[0].result()
    assert isinstance(farm.supervisor.runs["farm-1"].checkpoints, Checkpoints)
