from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.supervisor.launcher import Process
from ganglion.supervisor.runs import Member, Run
from ganglion.wire.messages import Overdue

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="successors come from the warm parent")


def member(run: Run, part: str) -> Member:
    """Return the present bearer of the name that holds `part`."""
    return next(found for name, found in run.members.items() if part in name)


def kill(part: str, how: signal.Signals = signal.SIGKILL) -> Callable[[Run], None]:
    """Return what kills the process whose name holds `part`."""

    def act(run: Run) -> None:
        process = member(run, part).process
        assert process is not None
        process.signal(how)

    return act


def told(farm: Any) -> list[tuple[str, int, str]]:
    """Return who was lost and came back: label, incarnation, kind; the governor's word for whom it knew is left out."""
    events = [fields for name, fields in farm.events if name in ("peer.lost", "peer.restarted")]
    events = [fields for fields in events if "label" in fields]
    return [(fields["label"], fields["incarnation"], fields["kind"]) for fields in events]


def test_who_is_lost_before_he_has_joined_comes_back(make_farm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss at the very beginning is made good like any other."""
    farm, started = make_farm(), Member.started

    def started_and_killed(self: Member, process: Process) -> None:
        """Kill the first process of a muscle in the moment in which the supervisor hears of it."""
        started(self, process)
        if "/muscle/" in self.name and not killed:
            killed.append(process)
            process.signal(signal.SIGKILL)

    killed: list[Process] = []
    monkeypatch.setattr(Member, "started", started_and_killed)
    outcome = farm.carry_out()

    assert ("finished", []) == (outcome.status, outcome.story)
    assert [1, 2] == [incarnation for _, incarnation, _ in told(farm)]


def test_who_is_killed_when_nobody_needs_it_any_more_is_told_of(make_farm: Any) -> None:
    """A muscle that was asked to leave, and is killed instead: an incident, no successor, and the run goes on."""
    farm = make_farm()
    first, second = farm.plan.phases
    farm.plan = replace(farm.plan, phases=[replace(first, workers=2), second])
    reported = []

    async def kill_leaving(run: Run) -> None:
        report = farm.supervisor.restarter.report
        farm.supervisor.restarter.report = lambda *told: (reported.append(told), report(*told))
        leaving = member(run, "muscle/ada/1")
        assert leaving.process is not None
        leaving.process.signal(signal.SIGSTOP)  # it does not leave by itself
        for _ in range(20_000):
            if leaving.dismissed:
                break
            await asyncio.sleep(0.001)
        leaving.process.signal(signal.SIGKILL)

    farm.deeds["phase.ended", 1] = lambda run: asyncio.ensure_future(kill_leaving(run))
    outcome = farm.carry_out()

    assert ("finished", 0) == (outcome.status, outcome.exit_status)
    assert ["note: muscle ada (worker 1), asked to leave, was killed by SIGKILL"] == outcome.story
    assert [("muscle ada (worker 1)", 1, "SIGKILL")] == told(farm)
    text = "was killed by SIGKILL when it had been asked to leave"
    assert [("muscle/ada/1", "lost", text)] == [(name, kind, detail) for _, name, _, kind, detail in reported]
    assert not farm.supervisor.runs["farm-1"].incidents


def test_too_many_losses_end_the_run_with_their_list(make_farm: Any) -> None:
    """Where no restart is left the run fails by name, and tells what was lost before."""
    farm = make_farm()
    farm.plan = replace(farm.plan, phases=[replace(phase, restarts_max=1) for phase in farm.plan.phases])
    farm.deeds["episode.ended", 1] = kill("muscle")
    farm.deeds["peer.restarted", 1] = kill("muscle")
    outcome = farm.carry_out()

    assert ("failed", 1) == (outcome.status, outcome.exit_status)
    assert outcome.reason.startswith("failed: too many losses: muscle ada (worker 0) was killed by SIGKILL")
    listed = [line for line in outcome.story if ":" in line and "muscle ada (worker 0) was killed" in line]
    assert len(listed) >= 2, outcome.story


def test_equal_deaths_at_one_place_are_poison(make_farm: Any) -> None:
    """Who dies three times without having heard a word in between is not started a fourth time."""
    farm = make_farm()
    farm.deeds["episode.ended", 1] = kill("brain", signal.SIGSEGV)

    async def kill_unheard(run: Run) -> None:
        former = member(run, "brain")
        for _ in range(5000):
            found = member(run, "brain")
            if found is not former and found.process is not None:
                found.process.signal(signal.SIGSEGV)  # it is still hearing its tape
                return
            await asyncio.sleep(0.001)

    farm.deeds["peer.lost", 1] = lambda run: asyncio.ensure_future(kill_unheard(run))
    farm.deeds["peer.lost", 2] = lambda run: asyncio.ensure_future(kill_unheard(run))
    outcome = farm.carry_out()

    text = "failed: poison: brain ada died 3 times by SIGSEGV at the same place (after brain."
    assert outcome.reason.startswith(text), outcome.reason
    assert (1, 3) == (outcome.exit_status, farm.count("peer.lost"))


def test_who_does_not_answer_in_time_is_killed_and_comes_back(make_farm: Any) -> None:
    """An overdue call costs its callee the life, with a reason, and the run nothing; strangers are out of reach."""
    farm, refused = make_farm(), []

    async def accuse(run: Run) -> None:
        overdue = farm.supervisor.restarter.overdue
        for peer in ("nobody/muscle/ada/0", f"{run.id}/muscle/eve/0"):
            with pytest.raises(RemoteProtocolError, match="expected a participant of your run"):
                await overdue(f"{run.id}/controller/0", Overdue(peer, "muscle.act", 1.0))
            refused.append(peer)
        await overdue(f"{run.id}/controller/0", Overdue(f"{run.id}/muscle/ada/0", "muscle.act", 1.25))

    farm.deeds["episode.ended", 1] = lambda run: asyncio.ensure_future(accuse(run))
    outcome = farm.carry_out()

    assert ("finished", 2) == (outcome.status, len(refused))
    assert "it did not answer muscle.act within 1.2 s" in farm.fields("peer.lost")[0]["reason"]
    assert [1, 2] == [incarnation for _, incarnation, _ in told(farm)]


def test_the_warm_parent_is_replaced_and_told_of(make_farm: Any) -> None:
    """Who starts all others may be lost: nobody takes part less, and successors are started all the same."""
    farm = make_farm()

    def kill_both(run: Run) -> None:
        farm.supervisor._launcher._warm.signal(signal.SIGKILL)
        kill("muscle")(run)

    farm.deeds["episode.ended", 1] = kill_both
    outcome = farm.carry_out()

    lost = {fields["label"] for fields in farm.fields("peer.lost")}
    assert ("finished", []) == (outcome.status, outcome.story)
    assert {"warm parent", "muscle ada (worker 0)"} == lost
    assert ("warm parent", 1, "SIGKILL") in told(farm)
    assert 1 == farm.count("peer.restarted")
