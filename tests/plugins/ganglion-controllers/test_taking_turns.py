from __future__ import annotations

from ganglion_controllers.taking_turns import TakingTurns


def test_each_episode_begins_with_the_first_agent(simulate) -> None:
    """An episode that ended in the middle of a turn does not shift the next one."""
    episodes = simulate(TakingTurns, ["one", "two"], 3, 3)

    assert [["one", "two", "one"]] * 2 == [
        [agents[0] for kind, agents, *_ in asked if kind == "act"] for asked in episodes
    ]
