from __future__ import annotations

from ganglion.run.outline import outline
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, PluginPlan

DUMMY = {"name": "dummy", "params": {}, "on_error": "fail"}


def _phase() -> PhasePlan:
    plugin = PluginPlan("dummy")
    environments = [
        EnvironmentPlan("hill", plugin, params={"max_iter": 3}, per_worker=[{"max_iter": 4}], reward=plugin),
        EnvironmentPlan("mill", command=["mill", "{connection}"], cwd="sub", variables={"A": "b"}),
        EnvironmentPlan("wind", attach=True),
    ]
    agent = AgentPlan("ada", plugin, None, plugin, ["hill.0"], ["hill.*"], ["hill"], [plugin], load=False)
    return PhasePlan(
        0, "one", environments, [agent], PluginPlan("taking_turns"),
        [PluginPlan("max_steps", {"steps": 3})], [PluginPlan("max_episodes")], workers=2, episodes=5,
    )  # fmt: skip


def test_agents() -> None:
    """An agent has all its parts; one that does not learn has the brain `none`."""
    [agent] = outline(_phase())["agents"]

    assert ("ada", "none", False) == (agent["name"], agent["brain"]["name"], agent["load"])
    assert (["hill.0"], ["hill.*"], ["hill"]) == (agent["sensors"], agent["actuators"], agent["rewards"])
    assert [DUMMY] == agent["filters"]
