from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, Recovery
from ganglion.supervisor.child import State
from ganglion.supervisor.connection import Access
from ganglion.supervisor.folder import RunFolder
from ganglion.supervisor.restart import Restarter
from ganglion.supervisor.runs import Member, Run
from ganglion.supervisor.watchdog import Watchdog
from ganglion.wire.messages import Overdue

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="these means are Linux's")


def bearer(run: Run, part: str) -> Member:
    """Return the present bearer of the name that holds `part`."""
    return next(found for name, found in run.members.items() if part in name)


def kill(part: str, how: signal.Signals = signal.SIGKILL) -> Callable[[Run], None]:
    """Return what kills the process whose name holds `part`."""

    def act(run: Run) -> None:
        process = bearer(run, part).process
        assert process is not None
        process.signal(how)

    return act


def told(farm: Any) -> list[tuple[str, int, str]]:
    """Return who was lost and came back: label, incarnation, kind; the governor's word for whom it knew is left out."""
    events = [fields for name, fields in farm.events if name in ("peer.lost", "peer.restarted")]
    events = [fields for fields in events if "label" in fields]
    return [(fields["label"], fields["incarnation"], fields["kind"]) for fields in events]


@needs_linux
def test_who_is_killed_when_nobody_needs_it_any_more_is_told_of(make_farm: Any) -> None:
    """A muscle that was asked to leave, and is killed instead: an incident, no successor, and the run goes on."""
    farm = make_farm()
    first, second = farm.plan.phases
    farm.plan = replace(farm.plan, phases=[replace(first, workers=2), second])
    reported = []

    async def kill_leaving(run: Run) -> None:
        report = farm.supervisor.restarter.report
        farm.supervisor.restarter.report = lambda *told: (reported.append(told), report(*told))
        leaving = bearer(run, "muscle/ada/1")
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


@needs_linux
def test_equal_deaths_at_one_place_are_poison(make_farm: Any) -> None:
    """Who dies three times without having heard a word in between is not started a fourth time."""
    farm = make_farm()
    farm.deeds["episode.ended", 1] = kill("brain", signal.SIGSEGV)

    async def kill_unheard(run: Run) -> None:
        former = bearer(run, "brain")
        for _ in range(5000):
            found = bearer(run, "brain")
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


@needs_linux
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


@needs_linux
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


NOTHING = PluginPlan("dummy")


def plan(own: str, agent: str | None = None, attach: bool = False) -> Plan:
    """Return a plan of one worker whose phase, and agent, say what a loss means."""
    recovery = None if agent is None else Recovery(on_loss=agent)
    agents = [AgentPlan("ada", NOTHING, None, NOTHING, ["grid.a"], ["grid.b"], recovery=recovery)]
    environment = EnvironmentPlan("grid", None, attach="grid") if attach else EnvironmentPlan("grid", NOTHING)
    phase = PhasePlan(0, "train", [environment], agents, NOTHING, [], [], on_loss=own)
    return Plan("r", "x", "42", [phase], document="uid: r\n")


class House:
    """Stand for a supervisor: hold runs, take down what is told."""

    def __init__(self, folder: Path, run: str | None = "r-1") -> None:
        self.settings = SimpleNamespace(run=run)
        self.runs: dict[str, Run] = {}
        self.events: list[tuple[str, str]] = []
        self.missed: list[str] = []
        self.access = Access()
        self.restarter = Restarter(self)  # type: ignore[arg-type]
        self._folder = folder

    @property
    def incidents(self) -> list[tuple[str, int, str]]:
        """Return what governors are to be told."""
        return [(run.id, one.incarnation, one.kind) for run in self.runs.values() for one in run.incidents]

    def spawn(self, work: Any) -> None:
        """Let nothing be told: there is no governor."""
        work.close()

    def tell(self, run: Run, name: str, fields: dict[str, Any]) -> None:
        """Take down an event."""
        self.events.append((name, fields["name"]))

    def peer_lost(self, lost: Any) -> None:
        """Take down who is gone."""
        self.missed.append(lost.peer)

    def end_cut_off(self, run: Run, member: Any) -> None:
        """Take down who is ended."""
        self.missed.append(member.name)

    def begin(self, name: str, what: Plan) -> Run:
        """Begin a run whose members have all joined."""
        (self._folder / name).mkdir()
        run = self.runs[name] = Run(what, RunFolder(name, self._folder / name), None)
        for place in [run.governor, *run.places(0)]:
            member = run.members[place.name] = run.member(place, lambda one: None, lambda one: None)
            member.joined = True
            member.here.set()
        return run


def _inside(body: Callable[[], None]) -> None:
    async def run() -> None:
        body()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("own", "agent", "outlives"),
    [("fail", None, False), ("recover", None, True), ("fail", "recover", True), ("recover", "fail", True)],
)
def test_who_outlives_a_broker(tmp_path: Path, own: str, agent: str | None, outlives: bool) -> None:
    """A run goes on with another broker if any loss in its phase is made good; else it fails by the broker's name."""

    def body() -> None:
        house = House(tmp_path)
        run = house.begin("r-1", plan(own, agent))
        assert outlives is house.restarter.wants_broker()
        house.restarter.broker_lost("was killed by SIGKILL", ["last word"], True)
        assert outlives is not run.over.is_set()
        if outlives:
            assert ([("peer.lost", "broker")], [("r-1", 1, "lost")]) == (house.events, house.incidents)
            assert not any(member.joined for member in run.members.values())
        else:
            assert [("broker", "was killed by SIGKILL", ["last word"])] == run.broker_losses
            assert run.ended is not None
            assert "failed: broker was killed by SIGKILL" == run.ended.reason

    _inside(body)


def test_runs_fare_each_by_itself(tmp_path: Path) -> None:
    """In a daemon a run that does not outlive its broker fails, another one goes on, and a daemon wants a broker."""

    def body() -> None:
        house = House(tmp_path, run=None)
        assert house.restarter.wants_broker()
        failing, going = house.begin("a-1", plan("fail")), house.begin("b-1", plan("recover"))
        house.restarter.broker_lost("was killed by SIGKILL", [], True)
        assert (True, False) == (failing.over.is_set(), going.over.is_set())
        assert {"b-1"} == {admit.run for admit in house.restarter.admissions()} - {""}
        house.restarter.broker_back(0.3)
        assert [("peer.lost", "broker"), ("peer.restarted", "broker")] == house.events
        assert [("b-1", 1, "lost"), ("b-1", 2, "restarted")] == house.incidents

    _inside(body)


def test_a_new_broker_knows_everybody(tmp_path: Path) -> None:
    """The table holds operators, observers and members with their incarnations; who leaves is not waited for."""

    def body() -> None:
        house = House(tmp_path)
        run = house.begin("r-1", plan("recover"))
        muscle = run.places(0)[-1]
        run.members[muscle.name] = run.member(muscle, lambda one: None, lambda one: None)
        leaving = next(member for name, member in run.members.items() if "/controller/" in name)
        leaving.dismissed = True
        table = {admit.name: admit for admit in house.restarter.admissions()}
        assert {"operator/*", "observer/*", "attach", *run.members} == set(table)
        assert (2, True) == (table[muscle.name].incarnation, table[muscle.name].returns)
        assert (1, False) == (table[leaving.name].incarnation, table[leaving.name].returns)
        topics, watched = house.restarter.interests()
        assert (["@r-1/events", "@r-1/waits"], list(run.members)) == (topics, watched)

    _inside(body)


@pytest.mark.parametrize("attach", [False, True])
def test_who_does_not_come_back_is_missed(tmp_path: Path, attach: bool) -> None:
    """A process of ours that has not found another broker is ended, a program that had attached is lost."""

    def body() -> None:
        house = House(tmp_path)
        run = house.begin("r-1", plan("recover", attach=attach))
        house.restarter.broker_lost("was killed by SIGKILL", [], True)
        house.restarter.broker_back(0.3)
        for member in run.members.values():
            member.joined = "/environment/" not in member.name
            house.restarter.missed(run, member)
        assert ["r-1/environment/grid/0"] == house.missed
        assert all(member.child.state is State.PLANNED for member in run.members.values())

    _inside(body)


SLEEPER = [sys.executable, "-c", "import sys; sys.stdin.read()"]


class FakeMember:
    """Hold a process that a vigil looks at."""

    def __init__(self, pid: int) -> None:
        self.process = SimpleNamespace(pid=pid)
        self.child = SimpleNamespace(gone=False)
        self.why = ""
        self.due_s: float | None = None

    def kill_lost(self, why: str) -> None:
        self.why = why

    kill_hung = kill_lost


def _vigil(member: FakeMember) -> tuple[Watchdog, Any]:
    run = SimpleNamespace(over=SimpleNamespace(is_set=lambda: False), waits_due=lambda now_s: [], members={"x": member})
    known = {member.process.pid}
    supervisor: Any = SimpleNamespace(runs={"r": run}, broker=None, bus=None, known=known)
    return Watchdog(supervisor), supervisor


@needs_linux
@pytest.mark.parametrize("here", [False, True])
def test_a_successor_comes_back_in_time_or_is_shot(here: bool) -> None:
    """Who is started again has until then to join; who has joined is let alone."""
    member = FakeMember(os.getpid())
    member.due_s = 10.0
    member.here = SimpleNamespace(is_set=lambda: here)  # type: ignore[attr-defined]
    vigil, _ = _vigil(member)
    vigil.look(9.5)
    early = member.why
    vigil.look(10.5)

    assert ("", "" if here else "it did not come back in time") == (early, member.why)
    assert member.due_s is None


@needs_linux
def test_silent_broker_is_shot() -> None:
    """A broker that says nothing for two seconds is killed, and its end is told with that reason."""
    with subprocess.Popen(SLEEPER, stdin=subprocess.PIPE) as process:
        sent: list[int] = []
        beats: list[float] = []
        vigil, supervisor = _vigil(FakeMember(os.getpid()))
        supervisor.broker = SimpleNamespace(
            pid=process.pid, ended=SimpleNamespace(is_set=lambda: False), signal=sent.append, code=-9
        )
        supervisor.bus = SimpleNamespace(heard_s=10.0, beat=lambda: beats.append(1.0))
        for now_s in (10.1, 10.5, 11.0, 11.9):
            vigil.look(now_s)
        assert [] == sent
        assert 3 == len(beats)
        vigil.look(12.1)
        process.kill()

    assert [signal.SIGKILL] == sent
    assert "killed by SIGKILL (it was silent for 2.1 s)" == vigil.end_text(supervisor.broker)
