from __future__ import annotations

from ganglion_controllers.taking_turns import TakingTurns


def test_one_agent_acts_in_each_step(simulate) -> None:
    """Agents act in document order, one per step, and only their setpoints are applied."""
    [asked] = simulate(TakingTurns, ["one", "two", "three"], 4)

    assert ["one", "two", "three", "one"] == [agents[0] for kind, agents, *_ in asked if kind == "act"]
    assert [
        ("update", {"one": [0]}, ["one"]),
        ("update", {"two": [1]}, ["two"]),
        ("update", {"three": [2]}, ["three"]),
        ("update", {"one": [3]}, ["one"]),
    ] == asked[1::2]


def test_each_episode_begins_with_the_first_agent(simulate) -> None:
    """An episode that ended in the middle of a turn does not shift the next one."""
    episodes = simulate(TakingTurns, ["one", "two"], 3, 3)

    assert [["one", "two", "one"]] * 2 == [
        [agents[0] for kind, agents, *_ in asked if kind == "act"] for asked in episodes
    ]
