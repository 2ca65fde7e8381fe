from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ganglion.supervisor.checkpoints import Moments, Way, way_on
from ganglion.supervisor.folder import Census, End, Life, read_census, write_census
from ganglion.supervisor.resume import prepare
from ganglion.supervisor.runs import Run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are stopped and watched as on Linux")


def back(farm: Any, run: Run) -> None:
    """Have a run begin its phase again."""
    farm.supervisor.rewind(run, "brain ada: it differs", run.governor.name)


def test_a_second_difference_ends_the_run_by_name(make_farm: Callable[..., Any]) -> None:
    """What does not do the same twice is a finding: exit 1, and nobody is left."""
    farm = make_farm()
    for number in (1, 3):
        farm.deeds["episode.ended", number] = lambda run: farm.supervisor.rewind(
            run, "brain ada: it differs", run.governor.name
        )
    outcome = farm.carry_out()

    assert ("failed", 1) == (outcome.status, outcome.exit_status)
    assert "nondeterministic: brain ada: it differs" in outcome.reason


def test_a_run_goes_on_from_a_moment(make_farm: Callable[..., Any]) -> None:
    """Interrupted twice in one episode, everybody goes on from that moment, and no phase begins again."""
    farm = make_farm()

    def stop(run: Run) -> None:
        farm.supervisor.interrupt(run)
        farm.supervisor.interrupt(run)

    farm.deeds["episode.ended", 1] = stop
    first = farm.carry_out()
    assert ("interrupted", 130) == (first.status, first.exit_status)
    way = way_on(farm.folder.path, "farm-1", "interrupted", taped=True)
    assert way.moment is not None
    assert way.moment.stop
    census = read_census(farm.folder.path)
    assert census is not None
    assert {1} == {life.incarnation for life in census.lives.values()}
    assert census.ended == End("interrupted", first.reason)

    farm.events.clear()
    again = farm.carry_out(way)
    assert ("finished", 0) == (again.status, again.exit_status), again.story
    started = [(fields["phase"], fields.get("resumed")) for fields in farm.fields("phase.started")]
    assert [(0, True), (1, None)] == started  # who looks on is told what the governor is in the midst of
    assert (None, []) == Moments(farm.folder.path).newest()
    assert [(0, 1), (1, 0), (1, 1)] == [(f["phase"], f["episode"]) for f in farm.fields("episode.ended")][-3:]


def withdrawal(farm: Any, way: Way, interrupts: int = 0, sync: str = "lockstep") -> tuple[dict[str, str], bool]:
    """Return what the store is told when a run of two phases goes on so, and whether what comes is compared."""

    async def body() -> tuple[dict[str, str], bool]:
        plan = replace(farm.plan, phases=[replace(phase, sync=sync) for phase in farm.plan.phases])
        run = Run(plan, farm.folder, None)
        run.interrupts = interrupts
        await prepare(run, way)
        told = {name.removeprefix("GANGLION_"): value for name, value in run.withdrawal.items()}
        return told, run.compared

    return asyncio.run(body())


@pytest.mark.parametrize(("noted", "phase"), [(None, 0), (0, 0), (1, 1), (7, 1)])
def test_a_run_goes_on_with_the_processes_of_its_phase(
    make_farm: Callable[..., Any], noted: int | None, phase: int
) -> None:
    """Where every process goes on with its tape, those are started whom the phase needs that was running."""
    farm = make_farm()
    if noted is not None:
        write_census(farm.folder.path, Census("boot", Life(0, 1, 2), phase=noted, begun=True))
    run = Run(farm.plan, farm.folder, None)
    asyncio.run(prepare(run, Way("every process goes on where it was")))

    assert (phase, None) == (run.phase, run.again)


CUT = {"phase": 1, "models": []}


def test_what_goes_and_what_is_compared_when_a_run_goes_on(make_farm: Callable[..., Any]) -> None:
    """Behind a moment all goes; a phase that begins again is compared, if it is repeatable and not interrupted."""
    farm = make_farm()
    moments = Moments(farm.folder.path)
    moment = moments.note([], [])
    assert moment is not None
    moments.keep(moment, {"run": "farm-1", "phase": 1})
    kept, _ = moments.newest()

    assert ({}, False) == withdrawal(farm, Way("on"))
    assert ({"WITHDRAW": "1", "WITHDRAW_BEHIND": "1"}, False) == withdrawal(farm, Way("on", moment=kept))
    assert ({"WITHDRAW": "1"}, True) == withdrawal(farm, Way("on", CUT))
    for way, interrupts in ((Way("on", CUT, stopped=True), 0), (Way("on", CUT), 1)):
        assert ({"WITHDRAW": "1", "WITHDRAW_ALL": "1"}, False) == withdrawal(farm, way, interrupts)
        assert ({"WITHDRAW": "1"}, False) == withdrawal(farm, way, interrupts, "async")


def test_what_operators_have_signalled_in_a_phase_that_begins_again_is_told(make_farm: Callable[..., Any]) -> None:
    """Nobody knows at which step it was heard: who wants it signals again; signals of earlier phases stay."""
    farm, reported = make_farm(), []

    def signalled(run: Run) -> None:
        run.signals = [(0, "RESET"), (1, "STOP_PHASE"), (1, "RESET")]
        report = farm.supervisor.restarter.report
        farm.supervisor.restarter.report = lambda *told: (reported.append(told), report(*told))
        back(farm, run)

    farm.deeds["episode.ended", 3] = signalled
    outcome = farm.carry_out()

    assert "finished" == outcome.status, outcome.story
    text = "phase 1 begins again without what operators have signalled in it (STOP_PHASE, RESET)"
    assert [text] == [t for f in farm.fields("warning") if (t := f["text"].partition(":")[0]).startswith("phase")]
    assert [("operator", "signals lost", text)] == [
        (name, kind, detail.partition(":")[0]) for _, name, _, kind, detail in reported if kind != "rewound"
    ]
    assert [(0, "RESET")] == farm.supervisor.runs["farm-1"].signals
