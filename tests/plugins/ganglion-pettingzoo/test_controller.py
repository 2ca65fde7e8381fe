from __future__ import annotations

import asyncio

import pytest

from ganglion_pettingzoo.controller import PettingZooController


class _Bus:
    """Note what is asked for; three agents act in each step."""

    def __init__(self) -> None:
        self.asked = []

    async def act(self, agents):
        self.asked.append(("act", list(agents)))
        return {agent: [0] for agent in agents}

    async def update(self, setpoints, agents):
        self.asked.append(("update", list(setpoints), list(agents)))


def _controller(make, sensors, readings):
    controller = make(PettingZooController)
    controller.agents, controller.sensors, controller.readings = list(sensors), sensors, readings
    controller.bus = _Bus()
    return controller


def test_only_who_is_in_turn_is_asked(make) -> None:
    """In turns one agent acts, and its decision stays open for what comes of the others' moves."""
    sensors = {"x": ["g.a.observation", "g.a.turn"], "o": ["g.b.alive", "g.b.turn"]}
    controller = _controller(make, sensors, {"x": [7, 0], "o": [1, 1]})
    asyncio.run(controller.advance())

    assert [("act", ["o"]), ("update", ["o"], [])] == controller.bus.asked


def test_the_dead_are_not_asked(make) -> None:
    """In parallel all that are alive act, one that plays two if one of them is; each gets its rewards at once."""
    sensors = {"x": ["g.a.alive"], "y": ["g.b.alive"], "z": ["g.c.alive", "g.d.alive"]}
    controller = _controller(make, sensors, {"x": [1], "y": [0], "z": [0, 1]})
    asyncio.run(controller.advance())

    assert [("act", ["x", "z"]), ("update", ["x", "z"], ["x", "z"])] == controller.bus.asked


def test_an_agent_must_be_seen(make) -> None:
    """An agent of which nobody can tell whether it may act is an error that names the sensors."""
    controller = _controller(make, {"x": ["g.a.observation"]}, {"x": [1]})
    with pytest.raises(ValueError, match="agent x has neither a sensor `turn` nor `alive`"):
        asyncio.run(controller.advance())
