from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal, Optional

import pytest

from ganglion import registry
from ganglion.cli.child import Children, check_deeply, find_misfits, form_of, schema_of, try_environments
from ganglion.errors import LaunchError
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan

if TYPE_CHECKING:
    from nowhere import Thing

NONE = PluginPlan("dummy")
LONG_S = 60.0

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


# -- children ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module that children find; the test writes it."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "child_module"


def _write(folder: Path, text: str) -> None:
    (folder / "child_module.py").write_text(f"import json, os, subprocess, sys, time\n{text}\n")


def test_silence_is_ended(tmp_path: Path, module: str) -> None:
    """Who does not end in time is killed, and what it has written up to then is there."""
    _write(tmp_path, "print('begun', flush=True)\ntime.sleep(600)")
    answer = Children().ask(module, None, 0.5)

    assert None is answer.status
    assert answer.text in ("", "begun\n")


def test_nobody_waits_after_the_end(tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`end` ends the children that run, and those that are begun later."""
    _write(tmp_path, "open('began', 'w').close()\ntime.sleep(600)")
    children = Children()
    found = []
    monkeypatch.chdir(tmp_path)
    thread = Thread(target=lambda: found.append(children.ask(module, None, LONG_S)))
    thread.start()
    while not (tmp_path / "began").exists():
        assert thread.is_alive()
    children.end()
    thread.join(LONG_S)

    assert [-9] == [answer.status for answer in found]
    assert -9 == children.ask(module, None, LONG_S).status


# -- environments, each started once ----------------------------------------------------------------------------------
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
        (20, "agent ada: sensors: 'good.1' was not declared by its environment; did you mean `good.x`?"),
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


# -- plugins ----------------------------------------------------------------------------------------------------------
def test_a_warning_beside_an_error_is_left_out(plan: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What an environment does wrong in two hooks is told once, as an error; its traceback goes to standard error."""
    (tmp_path / "mine.py").write_text(
        "from ganglion.sdk import Environment\nclass World(Environment):\n"
        "    def start_environment(self): raise ValueError('no such game')\n"
        "    def update(self, actuators): pass\n"
        "    @classmethod\n"
        "    def longest_episode(cls): raise ValueError('no such game')\n"
    )
    (fault,) = check_deeply(plan([EnvironmentPlan("hill", PluginPlan("mine:World", at="run.yml:2:3: hill"))]))

    assert ("error", 2) == (fault.severity, fault.line)
    assert fault.message.endswith("no such game")
    assert capsys.readouterr().err.startswith("Traceback")


def test_child_that_dies_is_named(plan: Any, tmp_path: Path) -> None:
    """A module that ends its process is an error that says so, no answer is made up."""
    (tmp_path / "mine.py").write_text("import os\nos._exit(7)\n")

    with pytest.raises(LaunchError, match="exit status 7"):
        check_deeply(plan([EnvironmentPlan("hill", PluginPlan("mine:World"))]))


def test_installed_plugins_fit() -> None:
    """The toys' environments fit, and one that does not exist is a misfit."""
    good = registry.find("environment", "dummy")
    bad = registry.Entry("nowhere", "environment", "ganglion-toys", "0", "x:y")

    assert [("environment", "ganglion-toys", "nowhere")] == list(find_misfits([good, bad]))


@pytest.mark.parametrize(
    ("hint", "form"),
    [
        (int, {"type": "integer"}),
        (str, {"type": "string"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045 - authors write it
        (Literal["sum", "min", 3], {"enum": ["sum", "min", 3]}),
        (Sequence[float], {"type": "array", "items": {"type": "number"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Any, {}),
        (int | Thread, {}),
        (list[Thread], {}),
    ],
)
def test_types(hint: Any, form: dict[str, Any]) -> None:
    """Plain types, and what is made of them, are said; of anything else nothing is said, so that it is not refused."""
    assert form == schema_of(hint)


class Open:
    def __init__(self, size: int = 3, *, thing: Any = object(), **more: Any) -> None: ...  # noqa: B008 - authors do


class Hidden:
    """Name what is imported for type checkers only."""

    def __init__(self, thing: Thing, size: int = 2) -> None: ...


def test_constructor() -> None:
    """Parameters have type and default; what is not declared is refused unless any keyword is taken."""
    assert {"type": "object", "properties": {"size": {"type": "integer", "default": 3}, "thing": {}}} == form_of(Open)
    assert {
        "type": "object",
        "properties": {"thing": {}, "size": {"default": 2}},
        "additionalProperties": False,
        "description": "Name what is imported for type checkers only.",
    } == form_of(Hidden)
