from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import LaunchError, RemoteProtocolError
from ganglion.run.plan import EnvironmentPlan, ProgramPlan
from ganglion.supervisor.runs import Run
from ganglion.wire.messages import Overdue

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="participants come from the warm parent")

HANGING = """
import re
from pathlib import Path
from ganglion import registry

class Hanging(registry.load("muscle", "dummy", "", ())):
    def propose_actions(self, *arguments, **more):
        mark = Path(__file__).with_name("hung")
        if not mark.exists():
            mark.touch()
            re.match("(a+)+$", "a" * 60 + "b")  # holds the interpreter's lock for years
        return super().propose_actions(*arguments, **more)
"""


def first_phase(farm: Any, **changes: Any) -> None:
    """Change the first phase of a run, and leave out the second."""
    farm.plan = replace(farm.plan, phases=[replace(farm.plan.phases[0], **changes)])


def test_a_manifest_that_cannot_be_sealed_fails_the_run(make_farm: Any) -> None:
    """A run whose files nobody could verify later does not end with 0."""
    farm = make_farm()
    farm.deeds["phase.started", 1] = lambda run: (farm.folder.path / "manifest.json").write_text("?")
    outcome = farm.carry_out()

    assert ("finished", 1, True) == (outcome.status, outcome.exit_status, "cannot be sealed" in "".join(outcome.report))


def test_a_stopped_participant_is_killed(make_farm: Any, kill: Any) -> None:
    """A process that is stopped for a second is killed, and the report says why."""
    farm = make_farm(on_loss="fail")
    farm.deeds["episode.ended", 1] = kill("muscle", signal.SIGSTOP)
    outcome = farm.carry_out()

    assert "failed" == outcome.status
    assert outcome.report[0].startswith("muscle ada (worker 0) was killed by SIGKILL (it was stopped for 1.")


def test_a_hung_participant_is_killed_with_its_stacks(make_farm: Any, tmp_path: Path) -> None:
    """A process that answers no beat loses its connection, prints where it hangs, and is replaced."""
    (tmp_path / "hanging.py").write_text(HANGING)
    farm = make_farm(muscle='"hanging:Hanging"')
    outcome = farm.carry_out()

    assert ("finished", 0) == (outcome.status, outcome.exit_status)
    assert farm.fields("peer.lost")[0]["reason"].startswith("was killed by SIGABRT (its connection was lost: silent")
    assert "in propose_actions" in (farm.folder.logs / "muscle.ada.0.out").read_text()


def test_a_participant_that_does_not_leave_is_killed(make_farm: Any, kill: Any) -> None:
    """A process that answers neither BYE nor SIGTERM is killed, noted, and the run has finished all the same."""
    farm = make_farm()
    farm.deeds["phase.ended", 2] = kill("muscle", signal.SIGSTOP)
    outcome = farm.carry_out()

    assert ("finished", 0) == (outcome.status, outcome.exit_status)
    assert 1 == len(outcome.report)
    assert outcome.report[0].startswith("note: muscle ada (worker 0), asked to leave, was killed by SIGKILL (it was s")


def test_a_run_may_be_interrupted_before_it_has_begun(make_farm: Any) -> None:
    """A run that is interrupted while its processes come up ends without a governor's word, and has no checkpoint."""
    farm = make_farm()
    farm.deeds["run.started", 1] = lambda run: (farm.supervisor.interrupt(run), run.checkpointer.take())[1]
    outcome = farm.carry_out()

    assert ("interrupted", 130, False) == (outcome.status, outcome.exit_status, farm.told[0].result())


def test_too_many_processes_start_nothing(make_farm: Any) -> None:
    """A number of workers that nobody can have meant is refused before anything is started."""
    farm = make_farm()
    first_phase(farm, workers=100)

    with pytest.raises(LaunchError, match=r"at most 256 processes .* found 303 with 100 workers"):
        farm.carry_out()


def test_all_processes_are_gone_when_one_cannot_be_started(make_farm: Any) -> None:
    """A program that cannot be started ends the run; processes that are being started are awaited, not forgotten."""
    farm = make_farm(on_loss="fail")
    first_phase(farm, environments=[EnvironmentPlan("hut", None, program=ProgramPlan(["./program"], cwd="/nowhere"))])
    outcome = farm.carry_out()

    assert "failed" == outcome.status
    assert "cannot start ./program: there is no folder /nowhere" in outcome.report[0]
    assert all(member.child.gone for member in farm.supervisor.runs["farm-1"].members.values())


def test_a_process_that_is_killed_when_it_is_not_needed_any_more_is_reported(make_farm: Any) -> None:
    """A muscle that was asked to leave, and is killed instead: an incident, no successor, and the run goes on."""
    farm = make_farm()
    first, second = farm.plan.phases
    farm.plan = replace(farm.plan, phases=[replace(first, workers=2), second])

    async def kill_leaving(run: Run) -> None:
        leaving = run.members["farm-1/muscle/ada/1"]
        leaving.process.signal(signal.SIGSTOP)  # it does not leave by itself
        for _ in range(20_000):
            if leaving.dismissed:
                break
            await asyncio.sleep(0.001)
        leaving.process.signal(signal.SIGKILL)

    farm.deeds["phase.ended", 1] = kill_leaving
    outcome = farm.carry_out()

    assert ("finished", 0) == (outcome.status, outcome.exit_status)
    assert ["note: muscle ada (worker 1), asked to leave, was killed by SIGKILL"] == outcome.report
    assert [("muscle ada (worker 1)", 1, "SIGKILL")] == farm.losses()
    assert not farm.supervisor.runs["farm-1"].incidents  # the governor has been told


def test_equal_deaths_at_one_place_are_poison(make_farm: Any, kill: Any) -> None:
    """A process that dies three times without having received anything in between is not started a fourth time."""
    farm = make_farm()

    async def kill_replaying(run: Run) -> None:
        former = run.members["farm-1/brain/ada"]
        for _ in range(5000):
            found = run.members["farm-1/brain/ada"]
            if found is not former and found.child.started:
                found.process.signal(signal.SIGSEGV)  # it is still replaying its journal
                return
            await asyncio.sleep(0.001)

    farm.deeds["episode.ended", 1] = kill("brain", signal.SIGSEGV)
    farm.deeds["peer.lost", 1] = farm.deeds["peer.lost", 2] = kill_replaying
    outcome = farm.carry_out()

    text = "failed: poison: brain ada died 3 times by SIGSEGV at the same place (after brain."
    assert outcome.reason.startswith(text), outcome.reason
    assert (1, 3) == (outcome.exit_status, farm.count("peer.lost"))


def test_a_process_that_does_not_answer_in_time_is_replaced(make_farm: Any) -> None:
    """An overdue call costs its callee the life, with a reason, and the run nothing; strangers are out of reach."""
    farm = make_farm()

    async def report(run: Run) -> None:
        overdue = farm.supervisor.restarter.overdue
        for peer in ("nobody/muscle/ada/0", f"{run.id}/muscle/eve/0"):
            with pytest.raises(RemoteProtocolError, match="expected a participant of your run"):
                await overdue(f"{run.id}/controller/0", Overdue(peer, "muscle.act", 1.0))
        await overdue(f"{run.id}/controller/0", Overdue(f"{run.id}/muscle/ada/0", "muscle.act", 1.25))

    farm.deeds["episode.ended", 1] = report
    outcome = farm.carry_out()

    assert ("finished", None) == (outcome.status, farm.told[0].result())
    assert "it did not answer muscle.act within 1.2 s" in farm.fields("peer.lost")[0]["reason"]
    assert [1, 2] == [incarnation for _, incarnation, _ in farm.losses()]


def test_the_warm_parent_is_replaced_and_its_loss_is_told(make_farm: Any, kill: Any) -> None:
    """When the parent of all others is lost no participant notices, and successors are started all the same."""
    farm = make_farm()

    def kill_both(run: Run) -> None:
        warm = next(child for child in farm.supervisor.local.children.values() if child.name == "warm")
        warm.signal(signal.SIGKILL)
        kill("muscle")(run)

    farm.deeds["episode.ended", 1] = kill_both
    outcome = farm.carry_out()

    assert ("finished", []) == (outcome.status, outcome.report)
    assert {"warm parent", "muscle ada (worker 0)"} == {fields["label"] for fields in farm.fields("peer.lost")}
    assert ("warm parent", 1, "SIGKILL") in farm.losses()
    assert 1 == farm.count("peer.restarted")
