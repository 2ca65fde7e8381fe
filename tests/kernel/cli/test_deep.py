from __future__ import annotations

from pathlib import Path

import pytest

from ganglion import registry
from ganglion.cli.child import deeply, find_misfits
from ganglion.errors import LaunchError
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan


def plan(folder: Path, muscle: str) -> Plan:
    """Return a plan whose muscle is a class beside the document."""
    plugin = PluginPlan(muscle, at="run.yml:2:3: schedule.one.agents.ada.muscle")
    agent = AgentPlan("ada", plugin, None, PluginPlan("aggregate_rewards"), [], [])
    environments = [EnvironmentPlan("hill", attach=True)]
    ends = [PluginPlan("max_episodes")]
    phase = PhasePlan(0, "one", environments, [agent], PluginPlan("vanilla"), [], ends, episodes=1)
    return Plan("u", "u", "1", [phase], source="run.yml", folder=str(folder), document="first\nsecond line")


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
    phase = PhasePlan(0, "one", [hill], [], PluginPlan("vanilla"), [], [PluginPlan("max_episodes")], episodes=1)
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

    assert [("environment", "ganglion-toys", "nowhere")] == list(find_misfits([good, bad]))
