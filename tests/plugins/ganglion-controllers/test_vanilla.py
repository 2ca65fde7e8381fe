from __future__ import annotations

from ganglion_controllers.vanilla import Vanilla


def test_all_agents_act_in_every_step(simulate) -> None:
    """Each step asks all agents at once and then applies all their setpoints, until the episode ends."""
    [asked] = simulate(Vanilla, ["one", "two"], 2)

    assert [
        ("act", ["one", "two"]),
        ("update", {"one": [0], "two": [0]}, ["one", "two"]),
        ("act", ["one", "two"]),
        ("update", {"one": [1], "two": [1]}, ["one", "two"]),
    ] == asked
