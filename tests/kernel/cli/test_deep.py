from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ganglion import registry
from ganglion.cli.deep import deeply, misfits
from ganglion.errors import LaunchError
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan


def plan(folder: Path, muscle: str) -> Plan:
    """Return a plan whose muscle is a class beside the document."""
    plugin = PluginPlan(muscle, at="run.yml:2:3: schedule.one.agents.ada.muscle")
    agent = AgentPlan("ada", plugin, None, PluginPlan("aggregate_rewards"), [], [])
    environments = [EnvironmentPlan("hill", attach=True)]
    phase = PhasePlan(0, "one", environments, [agent], PluginPlan("vanilla"), [], [PluginPlan("max_episodes")])
    return Plan("u", "u", "1", [phase], source="run.yml", folder=str(folder), document="first\nsecond line")


def test_authors_code_runs_in_the_child_only(tmp_path: Path) -> None:
    """A class is imported and judged elsewhere, whatever its module prints; its fault has the document's line."""
    (tmp_path / "mine.py").write_text("print('noise')\nclass Thing: pass\n")

    (fault,) = deeply(plan(tmp_path, "mine:Thing"))

    assert ("run.yml", 2, 3, "second line") == (fault.file, fault.line, fault.column, fault.text)
    assert "muscle `mine:Thing` is not a subclass of Muscle" == fault.message
    assert "mine" not in sys.modules


def test_a_brain_is_asked_for_its_spaces(tmp_path: Path) -> None:
    """A brain gets what its agent sees and sets, with its parameters; what it refuses is a fault at its place."""
    (tmp_path / "mine.py").write_text(
        "from ganglion.sdk import Brain\nclass Picky(Brain):\n"
        "    def thinking(self, *_): pass\n"
        "    @classmethod\n"
        "    def check_spaces(cls, sensors, actuators, least=0):\n"
        "        found = [it.space.to_string() for it in (*sensors, *actuators)]\n"
        "        if len(actuators) < least: raise ValueError(f'too few for {least}: {found}')\n"
    )
    hill = EnvironmentPlan("hill", PluginPlan("dummy"))

    def faults(least: int, *filters: PluginPlan) -> list[str]:
        brain = PluginPlan("mine:Picky", {"least": least}, at="run.yml:2:3: schedule.one.agents.ada.brain")
        dummy = PluginPlan("dummy")
        agent = AgentPlan("ada", dummy, brain, dummy, ["hill.0"], ["hill.1"], filters=list(filters))
        phase = PhasePlan(0, "one", [hill], [agent], PluginPlan("vanilla"), [], [PluginPlan("max_episodes")])
        return [f"{it.place}: {it.message}" for it in deeply(Plan("u", "u", "1", [phase], folder=str(tmp_path)))]

    assert [] == faults(1)
    assert ["run.yml:2:3: agent ada: too few for 2: ['Discrete(11)', 'Discrete(100)']"] == faults(2)
    assert [] == faults(2, PluginPlan("norm"))


def test_a_warning_beside_an_error_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What an environment does wrong in two hooks is told once, as an error; its traceback goes to standard error."""
    (tmp_path / "mine.py").write_text(
        "from ganglion.sdk import Environment\nclass World(Environment):\n"
        "    def start_environment(self): raise ValueError('no such game')\n"
        "    def update(self, actuators): pass\n"
        "    @classmethod\n"
        "    def longest_episode(cls): raise ValueError('no such game')\n"
    )
    hill = EnvironmentPlan("hill", PluginPlan("mine:World", at="run.yml:2:3: schedule.one.environments.hill"))
    phase = PhasePlan(0, "one", [hill], [], PluginPlan("vanilla"), [], [PluginPlan("max_episodes")])
    (fault,) = deeply(Plan("u", "u", "1", [phase], folder=str(tmp_path)))

    assert ("error", 2) == (fault.severity, fault.line)
    assert fault.message.endswith("no such game")
    assert capsys.readouterr().err.startswith("Traceback")


def test_child_that_dies_is_named(tmp_path: Path) -> None:
    """A module that ends its process is an error that says so, no answer is made up."""
    (tmp_path / "mine.py").write_text("import os\nos._exit(7)\n")

    with pytest.raises(LaunchError, match="exit status 7"):
        deeply(plan(tmp_path, "mine:Thing"))


def test_installed_plugins_fit() -> None:
    """The toys' environments fit, and one that does not exist is a misfit."""
    good = registry.find("environment", "dummy")
    bad = registry.Entry("nowhere", "environment", "ganglion-toys", "0", "x:y")

    assert [("environment", "ganglion-toys", "nowhere")] == list(misfits([good, bad]))
