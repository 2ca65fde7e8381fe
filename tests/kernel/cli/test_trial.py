from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ganglion.cli.child import try_environments
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan

WORLD = """import os, sys, time
from ganglion.sdk import *
class World(Environment):
    def __init__(self, do=""):
        self.do = do
    def start_environment(self):
        open("trials", "a").write(self.do + " ")
        exec(self.do)
        return [SensorInformation(0, Discrete(2), "x")], [ActuatorInformation(0, Discrete(2), "y")]
    def update(self, actuators): raise NotImplementedError
"""
NONE = PluginPlan("dummy")


def _world(uid: str, do: str = "", line: int = 1, **more: Any) -> EnvironmentPlan:
    return EnvironmentPlan(uid, PluginPlan("trial_world:World", at=f"x.yml:{line}:1: {uid}"), params={"do": do}, **more)


def _agent(sensors: list[str], actuators: list[str], rewards: list[str] | None = None) -> AgentPlan:
    places = {
        f"{key}_at": [f"x.yml:20:{i + 1}: {key}.{i}" for i in range(9)] for key in ("sensors", "actuators", "rewards")
    }
    return AgentPlan("ada", NONE, None, NONE, sensors, actuators, rewards, **places)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes a plan of one phase, or of the same phase again."""
    (tmp_path / "trial_world.py").write_text(WORLD)
    monkeypatch.chdir(tmp_path)

    def make(environments: list[EnvironmentPlan], *agents: AgentPlan, phases: int = 1, **more: Any) -> Plan:
        found = [
            PhasePlan(i, f"p{i}", environments, list(agents), PluginPlan("vanilla"), [], [], **more)
            for i in range(phases)
        ]
        return Plan("x", "x", "1", found, source="x.yml", folder=str(tmp_path))

    return make


def _said(rows: list[dict[str, Any]]) -> list[tuple[int, str]]:
    assert {"error"} >= {row["severity"] for row in rows}
    return [(row["line"], row["message"]) for row in rows]


def test_sound_environments_are_started_once_each(plan: Any, tmp_path: Path) -> None:
    """One trial is enough for all phases and workers that have the same environment."""
    agent = _agent(["hill.x", "dummy.3"], ["hill.*"], ["hill.late", "dummy.Dummy Reward", "dummy"])
    worlds = [_world("hill", "0"), EnvironmentPlan("dummy", PluginPlan("dummy"))]

    assert [] == try_environments(plan(worlds, agent, phases=3, workers=4))
    assert "0 " == (tmp_path / "trials").read_text()


def test_processes_that_end_or_hang_are_named(plan: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever an author's code does to its process is a fault at its line, and the others are tried all the same."""
    worlds = [
        _world("gone", "os._exit(7)", 1),
        _world("shot", "os.kill(os.getpid(), 9)", 2),
        _world("stuck", "time.sleep(600)", 3),
        _world("wrong", "1 / 0", 4),
        _world("good", "0", 5),
    ]
    agent = _agent(["gone.1", "good.1"], [])
    found = _said(try_environments(plan(worlds, agent, deadlines_s={"start": 0.5})))

    assert [
        (1, "environment gone (worker 0): its process ended while it was started: exit status 7"),
        (2, "environment shot (worker 0): its process ended while it was started: killed by SIGKILL"),
        (3, "environment stuck (worker 0): it hangs: expected it to start within 0.5 s and to shut down within 30 s"),
        (4, "environment wrong (worker 0), class World, hook start_environment: ZeroDivisionError: division by zero"),
        (20, "agent ada: sensors: 'good.1' was not declared by its environment; did you mean 'good.x'?"),
    ] == found
    shown = capfd.readouterr().err
    assert 'trial_world.py", line 8 in start_environment' in shown  # of the one that hangs
    assert "ZeroDivisionError: division by zero\n" in shown


def test_workers_that_declare_otherwise(plan: Any) -> None:
    """The entries of `per_worker` that a phase uses are tried, too; all workers must declare the same."""
    entries = [{}, {"max_iter": 3}, {"max_iter": 0}]
    hill = EnvironmentPlan("hill", PluginPlan("dummy", at="x.yml:4:1: hill"), per_worker=entries)

    assert [] == try_environments(plan([hill]))
    assert [(4, "environment hill declares otherwise in worker 1 than in worker 0")] == _said(
        try_environments(plan([hill], workers=2))
    )
    (row,) = try_environments(plan([hill], workers=3))
    assert "environment hill (worker 2)" in row["message"]
    assert "max_iter is at least 1, found 0" in row["message"]
