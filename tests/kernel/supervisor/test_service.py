from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ganglion.errors import DocumentError, UsageError
from ganglion.run.plan import EnvironmentPlan, PhasePlan, Plan, PluginPlan, Process, ProgramPlan
from ganglion.supervisor.folder import RunFolder
from ganglion.supervisor.placement import Placer
from ganglion.supervisor.runs import FINISHED, Run
from ganglion.supervisor.service import Daemon, Service
from ganglion.wire.messages import Ended, FlowSignal, RunRequest, RunSignal, Signalled, Submit
from ganglion.wire.name import Role

PHASES = [PhasePlan(i, name, [], [], PluginPlan("vanilla"), [], []) for i, name in enumerate(("train", "test"))]


class FakeSupervisor:
    """Hold runs, and take down what is asked of them."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.interrupted: list[tuple[str, bool, str]] = []
        self.sent: list[FlowSignal] = []
        self.noted: list[tuple[str, bool]] = []
        self.settings = SimpleNamespace(results=Path("/nowhere"), allow=())
        self.peers: list[dict[str, Any]] = []
        self.broker = None
        self.relays = SimpleNamespace(living={})
        self.bus = self
        self.placer = Placer(self, "free")  # type: ignore[arg-type]

    def add(self, run: str, uid: str) -> Run:
        self.runs[run] = Run(Plan(uid, uid, "1", PHASES), RunFolder(run, Path("/nowhere") / run), None)
        return self.runs[run]

    def interrupt(self, run: Run, now: bool, reason: str) -> None:
        self.interrupted.append((run.id, now, reason))

    async def ask(self, to: str, call: str, request: Any) -> Any:
        if call == "kernel.peers":
            return SimpleNamespace(peers=self.peers)
        self.sent.append(request)
        return Signalled(True, f"{to} takes it")

    async def note(self, run: Run, must: bool = True) -> None:
        self.noted.append((run.id, must))

    async def check(self, plan: Plan) -> list[dict[str, Any]]:
        return []


def _served(kind: type[Service] = Service) -> tuple[Any, FakeSupervisor]:
    """Return a service of three runs, and its supervisor."""
    service = Daemon("none", 1, lambda text: None) if kind is Daemon else Service()
    supervisor = FakeSupervisor()
    service.supervisor = supervisor  # type: ignore[assignment]
    for run, uid in (("demo-1", "demo"), ("demo-2", "demo"), ("farm-1", "Farm")):
        supervisor.add(run, uid)
    return service, supervisor


async def test_signal_goes_to_the_governor_of_a_running_run() -> None:
    """A run that has begun takes signals, a phase by its name; one that has not says so."""
    service, supervisor = _served()
    wish = RunSignal("demo-1", "STOP_PHASE", "test", 1, "enough")
    assert Signalled(False, "run demo-1 is starting") == await service.signal("operator/1", wish)
    supervisor.runs["demo-1"].begun = True
    assert Signalled(True, "demo-1/governor takes it") == await service.signal("operator/1", wish)
    [sent] = supervisor.sent
    assert ("STOP_PHASE", "operator", 1, 1) == (sent.signal, sent.issuer, sent.phase, sent.worker)
    assert [(0, "STOP_PHASE")] == supervisor.runs["demo-1"].signals
    assert [("demo-1", False)] == supervisor.noted
    with pytest.raises(UsageError, match="expected a phase of train, test, found 'exam'"):
        await service.signal("operator/1", RunSignal("demo-1", "STOP_PHASE", "exam"))


async def test_ended_run_is_not_interrupted() -> None:
    """Only a run that is live can be stopped; leaving stops all that are."""
    service, supervisor = _served()
    supervisor.runs["demo-1"].finish(Ended("demo-1", FINISHED, "completed", 0))
    supervisor.runs["demo-1"].conclude()
    refused = await service.stop("operator/1", RunRequest("demo-1"))
    assert Signalled(False, "run demo-1 is finished already") == refused
    assert (await service.stop("operator/1", RunRequest("farm", True, "why"))).accepted
    await service.leave("operator/1", RunRequest())

    expected = [("farm-1", True, "why"), ("demo-2", False, "operator"), ("farm-1", False, "operator")]
    assert expected == supervisor.interrupted


async def test_kernel_of_one_command_takes_no_documents() -> None:
    """The kernel of `ganglion run` refuses to run something else."""
    with pytest.raises(UsageError, match="start `ganglion kernel`"):
        await _served()[0].submit("operator/1", Submit("uid: x"))


async def test_daemon_refuses_faults_and_programs() -> None:
    """A submitted document with faults is refused with all of them; one that starts a program, too."""
    service, _ = _served(Daemon)
    with pytest.raises(DocumentError, match="sead"):
        await service.submit("operator/1", Submit("uid: x\nsead: 4\n", "x.yml"))
    document = "uid: x\nschedule:\n  - p:\n      environments:\n        - environment: {uid: e, command: [rm]}\n"
    with pytest.raises(DocumentError, match="starts no programs"):
        await service.submit("operator/1", Submit(document, "x.yml"))
    await service.leave("operator/1", RunRequest())
    with pytest.raises(UsageError, match="is shutting down"):
        await service.submit("operator/1", Submit("uid: x"))


TANK = """\
from ganglion.sdk import Environment

class Tank(Environment):
    def start_environment(self): ...
    def update(self, actuators): ...
"""


@pytest.mark.parametrize("remote", [False, True])
async def test_a_document_of_this_machine_means_what_run_means(tmp_path: Path, remote: bool) -> None:
    """It may name a module that lies beside it; one from another machine names plugins by their short names."""
    (tmp_path / "tank.py").write_text(TANK)
    document = DOCUMENT.replace("{uid: field, name: dummy}", '{uid: field, name: "tank:Tank"}')
    service, supervisor = _served(Daemon)
    supervisor.settings.results = tmp_path / "results"
    supervisor.peers = [{"name": "operator/1", "remote": remote}]
    request = Submit(document, "sub/../patient.yml", str(tmp_path))
    async with service._gate:  # nothing is started
        if remote:
            with pytest.raises(DocumentError, match="over the network names plugins by short name only"):
                await service.submit("operator/1", request)
        else:
            assert "patient-1" == (await service.submit("operator/1", request)).run
            assert (await service.stop("operator/1", RunRequest("patient-1"))).accepted
    await service.wait_idle()


async def test_a_program_that_attaches_is_awaited_by_the_governor() -> None:
    """The list of processes says so of the place, and names it among those for which the governor waits."""
    service, supervisor = _served()
    run = supervisor.runs["demo-1"]
    tank, run.journaled = EnvironmentPlan("tank", program=ProgramPlan()), False
    for role, environment in ((Role.GOVERNOR, None), (Role.ENVIRONMENT, tank)):
        place = Process(f"demo-1/{role.value}", role, environment=environment)
        run.members[place.name] = run.member(place, lambda one: None, lambda one: None)
    rows = (await service.processes("operator/1", RunRequest("demo-1"))).rows

    expected = [("governor", "planned", ["demo-1/environment"], "free"), ("environment", "awaited", [], "")]
    assert expected == [(row["role"], row["state"], row["waiting_for"], row["placement"]) for row in rows]


async def test_a_relay_is_listed_with_what_stays_and_what_travels() -> None:
    """Messages between two processes of its node stay; those of one of them with another one travel."""
    service, supervisor = _served()
    run, here = supervisor.runs["demo-1"], SimpleNamespace(pid=7, host="there", usage=lambda: (0.5, 9))
    run.journaled = False
    for role, node in ((Role.CONTROLLER, "n"), (Role.ENVIRONMENT, "n"), (Role.BRAIN, "")):
        place = Process(f"demo-1/{role.value}", role, worker=None if role is Role.BRAIN else 0)
        member = run.members[place.name] = run.member(place, lambda one: None, lambda one: None)
        fields = {"pid": 1, "host": "", "usage": lambda: (0.0, 0), "node": node}
        member.process = SimpleNamespace(**fields)  # type: ignore[assignment]
    supervisor.relays.living["n"] = SimpleNamespace(name="relay/1", **vars(here))
    sent = {
        "controller": {"demo-1/environment": 10, "demo-1/brain": 4},
        "environment": {"demo-1/controller": 10},
        "brain": {"demo-1/controller": 1},
    }
    usual = {"heard_ms": 0, "waiting_for": [], "queued_bytes": 0}
    for who, to in sent.items():
        stayed = None if who == "brain" else 10
        supervisor.peers.append({"name": f"demo-1/{who}", "sent": to, "stayed": stayed, **usual})
    rows = {row["name"]: row for row in (await service.processes("operator/1", RunRequest("demo-1"))).rows}

    assert (20, 5, [2.0, 0.5]) == tuple(rows["relay/1"][key] for key in ("stayed", "travelled", "per_step"))
    assert [(10, 4), (10, 0), (None, None)] == [
        (rows[f"demo-1/{who}"]["stayed"], rows[f"demo-1/{who}"]["travelled"]) for who in sent
    ]


DOCUMENT = """\
uid: patient
seed: 1
version: "0.1"
schedule:
  - only:
      environments: [{environment: {uid: field, name: dummy}}]
      agents: [{name: scout, muscle: dummy, sensors: [field.0], actuators: [field.0]}]
      phase_config: {mode: test, episodes: 1}
run_config: {condition: {name: vanilla}}
"""


async def test_queued_run_is_listed_refuses_signals_and_can_be_withdrawn(tmp_path: Path) -> None:
    """A run that waits for its turn is known by its id and uid; stopping it starts nothing and frees its folder."""
    service, supervisor = _served(Daemon)
    supervisor.settings = SimpleNamespace(results=tmp_path)
    async with service._gate:  # somebody else's run has the only place
        for _ in range(2):
            await service.submit("operator/1", Submit(DOCUMENT, "patient.yml"))
        await asyncio.sleep(0)
        rows = (await service.runs("operator/1", RunRequest())).rows
        queued = [row["run"] for row in rows if row["status"] == "queued"]
        assert ["patient-1", "patient-2"] == queued
        refused = await service.signal("operator/1", RunSignal("patient", "RESET"))
        assert Signalled(False, "run patient-2 is queued") == refused
        for run in ("last", "patient-1"):
            assert (await service.stop("operator/1", RunRequest(run))).accepted
    await service.wait_idle()
    with pytest.raises(UsageError, match="is unknown"):
        await service.stop("operator/1", RunRequest("patient"))
    assert not await asyncio.to_thread(os.listdir, tmp_path)
