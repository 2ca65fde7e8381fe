from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import PluginInvalid, UsageError
from ganglion.sdk import ActuatorInformation, Box, Discrete, RewardInformation, SensorInformation
from ganglion.testing import make_agent

WORLD: dict[str, Any] = {
    "sensors": [SensorInformation(None, Box(-1.0, 1.0, ()), "world.level")],
    "actuators": [ActuatorInformation(0, Discrete(2), "world.push")],
    "rewards": [RewardInformation(None, Box(-1.0, 1.0, ()), "world.gain")],
}


def test_an_agent_of_a_document_acts_and_learns(tmp_path: Path) -> None:
    """Names and maps of a definition become an agent whose objective, filters and model are those of a run."""
    definition = {
        "name": "keeper",
        "brain": "sarsa",
        "muscle": {"name": "sarsa"},
        "objective": {"name": "aggregate_rewards", "params": {"factor": 2.0}},
        "filters": [{"name": "merge_steps", "params": {"steps": 2}}],
    }
    agent = make_agent(definition, models=tmp_path, **WORLD)
    first = agent.setpoints(agent.begin([0.5]))
    last = agent.step([0.25], [0.1], terminated=True)
    agent.store()
    agent.close()

    assert first[0] in (0, 1)
    assert [0.5] == last.objective
    assert list(tmp_path.rglob("*.npz"))


def test_what_is_not_there_is_named() -> None:
    """A key that no agent has and a name that means nothing are refused with what there is."""
    with pytest.raises(UsageError, match="found 'muscel'"):
        make_agent({"muscel": "random"}, **WORLD)
    for wrong, key in (({}, "muscle"), ({"muscle": 7}, "muscle"), ({"muscle": "random", "filters": [{}]}, "filter")):
        with pytest.raises(UsageError, match=f"definition.{key}: expected the name of a plugin, or a map"):
            make_agent(wrong, **WORLD)
    with pytest.raises(PluginInvalid, match="there is no muscle `randon`"):
        make_agent({"muscle": "randon"}, **WORLD)
