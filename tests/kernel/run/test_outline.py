from __future__ import annotations

from ganglion.run.outline import outline, outline_plugin
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


def test_a_plugin_is_a_map() -> None:
    """Name, parameters and what its errors do are written out."""
    assert DUMMY == outline_plugin(PluginPlan("dummy", at="x.yml:1:1: here"))


def test_environments() -> None:
    """Each of the three forms of an environment has its own keys."""
    hill, mill, wind = outline(_phase())["environments"]

    assert {"uid": "hill", "name": "dummy", "params": {"max_iter": 3}, "per_worker": [{"max_iter": 4}]} == hill[
        "environment"
    ]
    assert DUMMY == hill["reward"]
    assert ["mill", "{connection}"] == mill["environment"]["command"]
    assert ("sub", {"A": "b"}) == (mill["environment"]["cwd"], mill["environment"]["variables"])
    assert {"uid": "wind", "attach": True, "params": {}, "per_worker": []} == wind["environment"]


def test_agents() -> None:
    """An agent has all its parts; one that does not learn has the brain `none`."""
    [agent] = outline(_phase())["agents"]

    assert ("ada", "none", False) == (agent["name"], agent["brain"]["name"], agent["load"])
    assert (["hill.0"], ["hill.*"], ["hill"]) == (agent["sensors"], agent["actuators"], agent["rewards"])
    assert [DUMMY] == agent["filters"]


def test_conditions_stand_where_documents_have_them() -> None:
    """Episode-level conditions stand with the controller, phase-level ones with the phase's settings."""
    found = outline(_phase())

    assert "taking_turns" == found["simulation"]["name"]
    assert [("max_steps", {"steps": 3})] == [(c["name"], c["params"]) for c in found["simulation"]["conditions"]]
    assert ["max_episodes"] == [c["name"] for c in found["phase_config"]["conditions"]]
    assert (2, 5, "train") == tuple(found["phase_config"][key] for key in ("worker", "episodes", "mode"))
