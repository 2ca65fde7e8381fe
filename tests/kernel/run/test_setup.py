from __future__ import annotations

from typing import Any

from ganglion.run.agents import resolve
from ganglion.run.plan import PluginPlan
from ganglion.run.setup import Cast, Setup
from ganglion.wire.messages import Verdict


class Paths:
    """Give each path itself as its stream."""

    def words(self, path: Any) -> bytes:
        """Return the path as bytes."""
        return "/".join(map(str, path)).encode()

    def integer(self, words: bytes) -> int:
        """Return its length."""
        return len(words)


def test_filters_have_streams_by_their_number(kit: Any) -> None:
    """Both halves of a filter are named in document order, each with its own stream; an agent without any has none."""
    filters = [PluginPlan("norm", {"epsilon": 1.0}), PluginPlan("delta_step")]
    phase = kit.phase(agents=[kit.agent(brain="dummy"), kit.agent(name="bob")], mode="train", workers=2)
    phase.agents[0].filters[:] = filters
    setup = Setup("farm-1", kit.plan(phase), "farm-1/store", "/results", Paths())
    agents = resolve(phase, {"hill": kit.declared})
    cast = Cast([], {}, agents, {}, {}, False)
    muscle = setup.start(phase, 1, cast, Verdict("RESET")).agents[0]["filters"]
    brain = setup.brain(phase, agents[0], {}, {}).filters
    assert brain is not None

    assert [("norm", {"epsilon": 1.0}), ("delta_step", {})] == [(f["name"], f["params"]) for f in muscle]
    path = "phase/phase 0/train/agent/ada/filter"
    assert [f"{path}/0/worker/1", f"{path}/1/worker/1"] == [f["stream"].decode() for f in muscle]
    path = "phase/phase 0/agent/ada/brain/filter"
    assert [f"{path}/0", f"{path}/1"] == [f["stream"].decode() for f in brain]
    assert setup.start(phase, 0, cast, Verdict("RESET")).agents[1]["filters"] is None
    later = setup.episode_seeds(phase, 1, 4)["hill"]
    assert b"phase/phase 0/train/environment/hill/worker/1/episode/4" == later["stream"]
    assert len(later["stream"]) == later["seed"]
