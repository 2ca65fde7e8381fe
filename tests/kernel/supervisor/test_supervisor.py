from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import LaunchError
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.supervisor.folder import RunFolder, reserve
from ganglion.supervisor.launcher import Launcher
from ganglion.supervisor.linux import children_of
from ganglion.supervisor.runs import Member, Outcome, Run
from ganglion.supervisor.supervisor import Settings, Supervisor
from ganglion.wire.messages import RunEvent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-ins come from the warm parent")

NOTHING = PluginPlan("dummy")


def plan(experiment: str, agents: tuple[str, ...] = ("ada",), phases: int = 1) -> Plan:
    """Return a plan with one environment, one worker; the second phase has the first agent only."""
    made = [AgentPlan(name, NOTHING, None, NOTHING, ["grid.a"], ["grid.b"]) for name in agents]
    environment = EnvironmentPlan("grid", NOTHING)
    first = PhasePlan(0, "train", [environment], made, NOTHING, [], [], on_loss="fail")
    rest = [dataclasses.replace(first, index=i, agents=made[:1]) for i in range(1, phases)]
    return Plan("stand-in", experiment, "42", [first, *rest], document="uid: stand-in\n")


class Scene:
    """Hold a supervisor, what it reported, and the run that it carries out."""

    def __init__(self, supervisor: Supervisor, folder: RunFolder) -> None:
        self.supervisor = supervisor
        self.folder = folder
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.moments: dict[str, Callable[[], None]] = {}

    def report(self, run: str, news: RunEvent) -> None:
        """Take down an event; do what the test wants to do at that moment."""
        self.events.append((news.event, news.fields))
        moment = self.moments.pop(news.event, None)
        if moment is not None:
            moment()

    async def execute(self, what: Plan) -> Outcome:
        """Carry out a run with a store."""
        return await self.supervisor.execute(what, self.folder, "sqlite:///nowhere.db")

    @property
    def run(self) -> Run:
        """Return the run."""
        return next(iter(self.supervisor.runs.values()))

    def member(self, part: str) -> Member:
        """Return the member whose name holds `part`."""
        return next(m for name, m in self.run.members.items() if part in name)

    def names(self) -> list[str]:
        """Return the names of the events so far."""
        return [name for name, _ in self.events]


@contextlib.asynccontextmanager
async def _scene(tmp_path: Path) -> AsyncIterator[Scene]:
    entries = {"peer": "standin_peer:main", "check": "ganglion.supervisor.check:main"}
    launcher = Launcher(entries, preload=("ganglion.peer.participant", "ganglion.transport.blocking"))
    scene: Scene | None = None

    def report(run: str, news: RunEvent) -> None:
        assert scene is not None
        scene.report(run, news)

    folder = reserve(tmp_path / "results", "stand-in")
    supervisor = Supervisor(Settings(tmp_path / "results", None, run=folder.run), report, launcher)
    scene = Scene(supervisor, folder)
    await supervisor.open()
    try:
        yield scene
    finally:
        private = supervisor._folder
        assert [] == await supervisor.close()
        assert private is not None
        assert not private.exists()


def _carry_out(
    tmp_path: Path, what: Plan, prepare: Callable[[Scene], None] = lambda scene: None
) -> tuple[Outcome, Scene]:
    async def body() -> tuple[Outcome, Scene]:
        async with _scene(tmp_path) as scene:
            scene.supervisor.check = _no_faults  # type: ignore[method-assign] - the plugins of these plans do not exist
            prepare(scene)
            return await scene.execute(what), scene

    return asyncio.run(body())


async def _no_faults(what: Plan) -> list[dict[str, Any]]:
    return []


@pytest.fixture(autouse=True)
def _nobody_is_left(peers: Path) -> Any:
    """Look, after each test, whether a process of it is still there."""
    before = set(children_of(os.getpid()))
    yield
    assert set() == set(children_of(os.getpid())) - before


def test_a_manifest_that_cannot_be_sealed_fails_the_run(tmp_path: Path) -> None:
    """A run whose files nobody could verify later does not end with 0."""

    def prepare(scene: Scene) -> None:
        scene.moments["phase.started"] = lambda: (scene.folder.path / "manifest.json").write_text("?") and None

    outcome, _ = _carry_out(tmp_path, plan("finish"), prepare)

    assert ("finished", 1, True) == (outcome.status, outcome.exit_status, "cannot be sealed" in "".join(outcome.story))


def test_stopped_participant_is_killed(tmp_path: Path) -> None:
    """A process that is stopped for a second is killed, and the report says why."""

    def prepare(scene: Scene) -> None:
        scene.moments["phase.started"] = lambda: scene.member("muscle").process.signal(signal.SIGSTOP)  # type: ignore[union-attr]

    outcome, _ = _carry_out(tmp_path, plan("wait"), prepare)

    assert "failed" == outcome.status
    assert outcome.story[0].startswith("muscle ada (worker 0) was killed by SIGKILL (it was stopped for 1.")


def test_dead_broker_fails_the_run(tmp_path: Path) -> None:
    """When the broker dies the run fails by its name, although every participant loses its connection with it."""

    def prepare(scene: Scene) -> None:
        scene.moments["phase.started"] = lambda: scene.supervisor.broker.signal(signal.SIGKILL)  # type: ignore[union-attr]

    outcome, _ = _carry_out(tmp_path, plan("wait"), prepare)

    assert ("failed", 1) == (outcome.status, outcome.exit_status)
    assert "broker was killed by SIGKILL" == outcome.story[0]


def test_deaf_participant_does_not_prolong_the_end(tmp_path: Path) -> None:
    """Somebody who hears neither BYE nor SIGTERM is killed, noted, and the run has finished all the same."""
    outcome, _ = _carry_out(tmp_path, plan("finish", ("deaf",)))

    assert ("finished", 0) == (outcome.status, outcome.exit_status)
    assert ["note: muscle deaf (worker 0), asked to leave, was killed by SIGKILL"] == outcome.story


@pytest.mark.parametrize(("times", "reason"), [(1, "interrupted: operator"), (3, "interrupted: operator, killed")])
def test_interruption(tmp_path: Path, times: int, reason: str) -> None:
    """Once: the governor ends the run in order. Three times: everything is killed at once. Both are 130."""

    def prepare(scene: Scene) -> None:
        def interrupt() -> None:
            for _ in range(times):
                scene.supervisor.interrupt(scene.run)

        scene.moments["phase.started"] = interrupt

    outcome, scene = _carry_out(tmp_path, plan("wait"), prepare)

    assert ("interrupted", reason, 130, []) == (outcome.status, outcome.reason, outcome.exit_status, outcome.story)
    assert (times == 1) == all(member.child.orderly for member in scene.run.members.values())


def test_interruption_before_the_beginning(tmp_path: Path) -> None:
    """A run that is interrupted while its processes come up ends without a governor's word."""

    def prepare(scene: Scene) -> None:
        scene.moments["run.started"] = lambda: scene.supervisor.interrupt(scene.run)

    outcome, _ = _carry_out(tmp_path, plan("finish"), prepare)

    assert ("interrupted", 130) == (outcome.status, outcome.exit_status)


def test_too_many_processes_start_nothing(tmp_path: Path) -> None:
    """A number of workers that nobody can have meant is refused before anything is started."""
    what = plan("finish")
    what = dataclasses.replace(what, phases=[dataclasses.replace(what.phases[0], workers=100)])

    with pytest.raises(LaunchError, match=r"at most 256 processes .* found 302 with 100 workers"):
        _carry_out(tmp_path, what)


def test_hung_participant_is_killed_with_its_stacks(tmp_path: Path) -> None:
    """A process that answers no beat loses its connection, prints where it hangs, and is killed."""
    outcome, _ = _carry_out(tmp_path, plan("hang"))

    assert ("failed", 1) == (outcome.status, outcome.exit_status)
    assert outcome.story[0].startswith("governor was killed by SIGABRT (its connection was lost: silent for ")
    assert any("in govern" in line for line in outcome.story)


def test_everybody_is_gone_when_one_cannot_be_started(tmp_path: Path) -> None:
    """A program that cannot be started ends the run; who was just being started is awaited, not forgotten."""
    what = plan("finish", agents=("ada", "bob", "cleo"))
    program = EnvironmentPlan("grid", None, command=["./program"], cwd="/nowhere")
    what = dataclasses.replace(what, phases=[dataclasses.replace(what.phases[0], environments=[program])])
    outcome, scene = _carry_out(tmp_path, what)

    assert "failed" == outcome.status
    assert "cannot start ./program: there is no folder /nowhere" in outcome.story[0]
    assert [] == [member.name for member in scene.run.members.values() if not member.child.gone]
