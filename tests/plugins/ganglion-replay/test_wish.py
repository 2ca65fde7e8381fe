from __future__ import annotations

from typing import Any

import pytest

from ganglion.run.agents import replaying
from ganglion.run.plan import AgentPlan, PhasePlan, PluginPlan
from ganglion_replay.wish import pick_phase, wish_of

DUMMY = PluginPlan("dummy")


def agent(*replay: dict[str, Any], brain: PluginPlan | None = DUMMY, name: str = "ada") -> AgentPlan:
    """Return an agent that is to learn from recordings."""
    places = [f"run.yml:{i}:1: replay.{i}" for i in range(len(replay))]
    return AgentPlan(name, DUMMY, brain, DUMMY, [], [], replay=list(replay), replay_at=places)


def phase(*agents: AgentPlan, mode: str = "train") -> PhasePlan:
    """Return a phase with these agents."""
    return PhasePlan(0, "one", [], list(agents), DUMMY, [], [], mode=mode)


def test_only_brains_that_train_learn_from_recordings() -> None:
    """Who has no brain, no `replay`, or no training does not."""
    agents = [agent({}), agent(name="bob"), agent({}, brain=None, name="cyd"), agent({}, {}, name="dan")]

    assert ["ada", "dan"] == [found.name for found in replaying(phase(*agents))]
    assert [] == replaying(phase(*agents, mode="test"))


@pytest.mark.parametrize(
    ("phase_", "found"),
    [
        (None, 2),
        (0, 0),
        ("two", 2),
        ("one", "phase `one` of run r has not the agent `ada`"),
        (7, "run r has no phase `7` that could be meant"),
        ("0", "run r has no phase `0` that could be meant"),
    ],
)
def test_the_phase_is_the_last_with_the_agent(phase_: Any, found: Any) -> None:
    """Unless it is asked for by index or name."""
    wish = wish_of({} if phase_ is None else {"phase": phase_}, "ada", "farm", "farm-1")

    assert found == pick_phase(wish, {0: "zero", 1: "one", 2: "two"}, [0, 2], "r")
