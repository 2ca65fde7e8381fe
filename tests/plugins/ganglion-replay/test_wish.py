from __future__ import annotations

from typing import Any

import pytest

from ganglion.run.agents import replaying
from ganglion.run.plan import AgentPlan, PhasePlan, PluginPlan
from ganglion_replay.wish import missing, pick_phase, told, wish_of

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


WISHES = [
    ({}, ("ada", "farm", None, None, True, False)),
    ({"agent": "bob", "phase": 0}, ("bob", "farm", None, 0, True, False)),
    ({"experiment_run": "far"}, ("ada", "far", None, None, False, True)),
    ({"experiment_run": "farm"}, ("ada", "farm", None, None, True, True)),
    ({"instance": "far-3", "phase": "one"}, ("ada", None, "far-3", "one", False, True)),
    ({"base": "kept"}, ("ada", "farm", None, None, True, False)),
]


@pytest.mark.parametrize(("entry", "wish"), WISHES)
def test_missing_keys_are_filled_in(entry: dict[str, Any], wish: tuple[Any, ...]) -> None:
    """The agent's own name, this run, its latest earlier phase: as of `load`."""
    found = wish_of({**entry, "repeat": 2, "strict": False}, "ada", "farm", "farm-1")

    assert wish == (found.agent, found.uid, found.run, found.phase, found.here, found.elsewhere)
    assert entry.get("base") == found.base


def test_what_is_looked_for_is_told() -> None:
    """The sentence names agent, run, phase, and what narrows the choice."""
    entry = {"experiment_run": "far", "worker": 2, "mode": "test"}
    text = told(entry, wish_of(entry, "ada", "farm", "farm-1"))

    run = "the newest finished run of `far` (the last phase with that agent)"
    assert f"recorded episodes of agent `ada` from {run}, mode test, worker 2" == text
    assert f"here: {text} were not found\n  in a: no\n  in b: why" == missing(
        "here", entry, wish_of(entry, "ada", "farm", "farm-1"), [("a", "no"), ("b", "why")]
    )


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


def test_a_run_without_the_agent_has_no_phase_of_it() -> None:
    """The sentence names run and agent."""
    wish = wish_of({}, "ada", "farm", "farm-1")

    assert "run r has no rows of an agent `ada`" == pick_phase(wish, {0: "zero"}, [], "r")
