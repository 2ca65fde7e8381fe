from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.peer.phase import Phase
from ganglion.run.plan import span_s


def phase_of(it: Any) -> Phase:
    """Return the phase that a worker is in."""
    phase = it.hosted.host._phase
    assert isinstance(phase, Phase)
    return phase


def test_places_of_values(worker: Any, world: Any) -> None:
    """A full id says in which environment a value lies, and where in its row."""
    it = worker({"v": world(["a", "b"]), "w": world()})
    it.setup()
    phase = phase_of(it)

    assert {"v.s": (0, 0), "w.s": (1, 0)} == phase.sensor_places
    assert {"v.a": (0, 0), "v.b": (0, 1), "w.a": (1, 0)} == phase.actuator_places


def test_rewards_declared_late_reach_agent_and_store(worker: Any, world: Any) -> None:
    """Where the first update declares the rewards, they are recorded then, and told to each muscle once."""
    it = worker({"w": world(ends=3, late=True)})
    it.run()
    rows = [(record[2], record[3], [row[0] for row in record[5]]) for record in it.records("declare")]

    assert [(None, "one", ["w.r"]), ("w", None, ["w.r"])] == rows
    assert [None, ["w.r"], None, None] == [
        act.reward_ids and [row["id"] for row in act.reward_ids] for act in it.agents["one"].acts
    ]
    assert [10.0, 20.0, 30.0] == [row[7] for row in it.records("actions")[0][-1]]


@pytest.mark.parametrize(
    ("wanted", "found"), [(None, [10, 10]), (["v.r"], [10]), (["w"], [10]), (["w.r", "v"], [10, 10]), ([], [])]
)
def test_an_agent_gets_the_rewards_that_it_names(
    worker: Any, world: Any, agent: Any, wanted: list[str] | None, found: list[int]
) -> None:
    """Ids or environments; none named means those of the environments that it touches, here both of three."""
    one = agent(["v.a"], ["w.s"], rewards=wanted)
    it = worker({"v": world(ends=1), "w": world(), "x": world([])}, {"one": one})
    it.run()

    assert [found] == one.acts[-1].rewards


def test_a_strange_reward_is_refused(worker: Any, agent: Any) -> None:
    """A reward that no environment declares is named, with those that there are."""
    it = worker(agents={"one": agent(rewards=["w.luck"])})
    it.setup()
    with pytest.raises(RemoteProtocolError, match=r"agent one: rewards: 'w\.luck' is no reward of w\.r"):
        it.start()


def test_own_spans_go_before_those_for_all(worker: Any, agent: Any) -> None:
    """What a document says of one agent's calls holds for that agent, what it says of all for the others."""
    it = worker(agents={"one": agent(deadlines_s={"act": 3.0, "think": 1.0}), "two": agent()})
    it.setup()
    it.start()
    phase = phase_of(it)

    assert span_s("muscle.act", {"act": 3.0, "think": 1.0}) == phase.span_s("muscle.act", "r/muscle/one/0")
    assert span_s("muscle.act", {}) == phase.span_s("muscle.act", "r/muscle/two/0")
    assert span_s("governor.episode", {}) == phase.span_s("governor.episode")


def test_moment_of_an_evaluation(worker: Any) -> None:
    """A row of training stands in its round, a row of an evaluation behind the round, at its own steps."""
    it = worker()
    it.setup()
    phase = phase_of(it)
    phase.tick = 7

    assert (7, 0) == phase.moment
    phase.evaluation = (5, 4)
    assert (5, 3) == phase.moment
