from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, ProgramPlan, Recovery
from ganglion.supervisor.connection import Access
from ganglion.supervisor.folder import RunFolder
from ganglion.supervisor.life import State
from ganglion.supervisor.recovery import Restarter, watch
from ganglion.supervisor.runs import Run
from ganglion.wire.messages import Admit

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="these means are Linux's")

NOTHING = PluginPlan("dummy")


def plan(own: str, agent: str | None = None, attach: bool = False) -> Plan:
    """Return a plan of one worker whose phase, and agent, say what a loss means."""
    recovery = None if agent is None else Recovery(on_loss=agent)
    agents = [AgentPlan("ada", NOTHING, None, NOTHING, ["grid.a"], ["grid.b"], recovery=recovery)]
    environment = EnvironmentPlan("grid", None, program=ProgramPlan()) if attach else EnvironmentPlan("grid", NOTHING)
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
        self.relays = SimpleNamespace(admissions={"there": Admit("relay/1", "relay", "", b"")})
        self.restarter = Restarter(self)  # type: ignore[arg-type]
        self._folder = folder

    @property
    def incidents(self) -> list[tuple[str, int, str]]:
        """Return what governors are to be told."""
        return [(run.id, one.incarnation, one.kind) for run in self.runs.values() for one in run.incidents]

    def spawn(self, work: Any) -> None:
        work.close()  # there is no governor

    def tell(self, run: Run, name: str, fields: dict[str, Any]) -> None:
        self.events.append((name, fields["name"]))

    def peer_lost(self, lost: Any) -> None:
        self.missed.append(lost.peer)

    def end_cut_off(self, run: Run, member: Any) -> None:
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


@pytest.mark.parametrize(
    ("own", "agent", "outlives"),
    [("fail", None, False), ("recover", None, True), ("fail", "recover", True), ("recover", "fail", True)],
)
async def test_who_outlives_a_broker(tmp_path: Path, own: str, agent: str | None, outlives: bool) -> None:
    """A run goes on with another broker if any loss in its phase is made good; else it fails by the broker's name."""
    house = House(tmp_path)
    run = house.begin("r-1", plan(own, agent))
    assert outlives is house.restarter.wants_broker()
    house.restarter.broker_lost("was killed by SIGKILL", ["last word"], True)
    assert outlives is not run.over.is_set()
    if outlives:
        assert ([("peer.lost", "broker")], [("r-1", 1, "lost")]) == (house.events, house.incidents)
        assert not any(member.joined for member in run.members.values())
    else:
        assert [("was killed by SIGKILL", ["last word"])] == run.broker_losses
        assert run.ended is not None
        assert "failed: broker was killed by SIGKILL" == run.ended.reason


async def test_runs_fare_each_by_itself(tmp_path: Path) -> None:
    """In a daemon a run that does not outlive its broker fails, another one goes on, and a daemon wants a broker."""
    house = House(tmp_path, run=None)
    assert house.restarter.wants_broker()
    failing, going = house.begin("a-1", plan("fail")), house.begin("b-1", plan("recover"))
    house.restarter.broker_lost("was killed by SIGKILL", [], True)
    assert (True, False) == (failing.over.is_set(), going.over.is_set())
    assert {"b-1"} == {admit.run for admit in house.restarter.admissions()} - {""}
    house.restarter.broker_back(0.3)
    assert [("peer.lost", "broker"), ("peer.restarted", "broker")] == house.events
    assert [("b-1", 1, "lost"), ("b-1", 2, "restarted")] == house.incidents


async def test_a_new_broker_knows_everybody(tmp_path: Path) -> None:
    """The table holds operators, observers, relays, members with incarnations; who leaves is not waited for."""
    house = House(tmp_path)
    run = house.begin("r-1", plan("recover"))
    muscle = run.places(0)[-1]
    run.members[muscle.name] = run.member(muscle, lambda one: None, lambda one: None)
    leaving = next(member for name, member in run.members.items() if "/controller/" in name)
    leaving.dismissed = True
    table = {admit.name: admit for admit in house.restarter.admissions()}
    assert {"operator/*", "observer/*", "attach", "relay/1", *run.members} == set(table)
    assert (2, True) == (table[muscle.name].incarnation, table[muscle.name].returns)
    assert (1, False) == (table[leaving.name].incarnation, table[leaving.name].returns)
    topics, watched = house.restarter.interests()
    assert (["@r-1/events", "@r-1/waits"], list(run.members)) == (topics, watched)


@pytest.mark.parametrize("attach", [False, True])
async def test_who_does_not_come_back_is_missed(tmp_path: Path, attach: bool) -> None:
    """A process of ours that has not found another broker is ended, a program that had attached is lost."""
    house = House(tmp_path)
    run = house.begin("r-1", plan("recover", attach=attach))
    house.restarter.broker_lost("was killed by SIGKILL", [], True)
    house.restarter.broker_back(0.3)
    for member in run.members.values():
        member.joined = "/environment/" not in member.name
        house.restarter.missed(run, member)
    assert ["r-1/environment/grid/0"] == house.missed
    assert all(member.child.state is State.PLANNED for member in run.members.values())


class FakeMember:
    """Hold a process that a watchdog looks at."""

    def __init__(self, here: bool = True, placed: bool = True) -> None:
        self.child = SimpleNamespace(gone=False, started=placed)
        self.here = SimpleNamespace(is_set=lambda: here)
        self.why = ""
        self.due_s: float | None = 10.0

    def kill_hung(self, why: str) -> None:
        self.why = why


def _watched(member: FakeMember) -> Any:
    run = SimpleNamespace(over=SimpleNamespace(is_set=lambda: False), waits_due=lambda now_s: [], members={"x": member})
    return SimpleNamespace(runs={"r": run}, broker=None, bus=None)


@needs_linux
@pytest.mark.parametrize(("here", "placed"), [(False, True), (True, True), (False, False)])
def test_a_successor_that_does_not_join_in_time_is_killed(here: bool, placed: bool) -> None:
    """A successor has until then to join; one that has joined, or has no place to live yet, is left alone."""
    member = FakeMember(here, placed)
    supervisor = _watched(member)
    watch(supervisor, 9.5)
    early = member.why
    watch(supervisor, 10.5)

    killed = "" if here or not placed else "it did not come back in time"
    assert ("", killed, None if placed else 10.0) == (early, member.why, member.due_s)


@needs_linux
def test_a_silent_broker_is_killed() -> None:
    """A broker that says nothing for two seconds is killed, and its end is told with that reason."""
    sent: list[str] = []
    beats: list[float] = []
    supervisor = _watched(FakeMember())
    ended = SimpleNamespace(is_set=lambda: False)
    supervisor.broker = SimpleNamespace(ended=ended, kill=sent.append)
    supervisor.bus = SimpleNamespace(heard_s=10.0, beat=lambda: beats.append(1.0))
    for now_s in (10.1, 10.5, 11.0, 11.9):
        watch(supervisor, now_s)
    assert ([], 3) == (sent, len(beats))
    watch(supervisor, 12.1)

    assert ["it was silent for 2.1 s"] == sent
