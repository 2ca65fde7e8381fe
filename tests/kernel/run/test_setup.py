from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.run.agents import resolve
from ganglion.run.plan import PluginPlan
from ganglion.run.setup import Cast, Setup


class Paths:
    """Give each path itself as its stream."""

    def words(self, path: Any) -> bytes:
        """Return the path as bytes."""
        return "/".join(map(str, path)).encode()

    def integer(self, words: bytes) -> int:
        """Return its length."""
        return len(words)


def setup_of(kit: Any, phase: Any) -> Setup:
    """Return a set-up whose seeds are their paths."""
    return Setup("farm-1", kit.plan(phase), "farm-1/store", "/results", Paths())


def cast(agents: Sequence[Any], models: Mapping[str, str] | None = None) -> Cast:
    """Return a cast of agents, without conditions and static values."""
    return Cast([], {}, agents, models or {}, {}, False)


def test_filters_have_streams_by_their_number(kit: Any) -> None:
    """Both halves of a filter are named in document order, each with its own stream; an agent without any has none."""
    filters = [PluginPlan("norm", {"epsilon": 1.0}), PluginPlan("delta_step")]
    phase = kit.phase(agents=[kit.agent(brain="dummy"), kit.agent(name="bob")], mode="train", workers=2)
    phase.agents[0].filters[:] = filters
    setup = setup_of(kit, phase)
    agents = resolve(phase, {"hill": kit.declared})
    muscle = setup._agent(phase, agents[0], 1, cast(agents), False)["filters"]
    brain = setup.brain(phase, agents[0], {}, {}).filters
    assert brain is not None

    assert [("norm", {"epsilon": 1.0}), ("delta_step", {})] == [(f["name"], f["params"]) for f in muscle]
    path = "phase/phase 0/train/agent/ada/filter"
    assert [f"{path}/0/worker/1", f"{path}/1/worker/1"] == [f["stream"].decode() for f in muscle]
    path = "phase/phase 0/agent/ada/brain/filter"
    assert [f"{path}/0", f"{path}/1"] == [f["stream"].decode() for f in brain]
    assert setup._agent(phase, agents[1], 0, cast(agents), False)["filters"] is None
    later = setup.episode_seeds(phase, 1, 4)["hill"]
    assert b"phase/phase 0/train/environment/hill/worker/1/episode/4" == later["stream"]
    assert len(later["stream"]) == later["seed"]
