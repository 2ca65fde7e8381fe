"""Controllers: what they ask of the bus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ganglion.sdk import Controller, EpisodeEnded, Setpoints, StepResult
from ganglion_controllers.aeb import AEB
from ganglion_controllers.taking_turns import TakingTurns
from ganglion_controllers.vanilla import Vanilla


class RecordingBus:
    """Do what a controller asks, write it down, and end the episode after so many steps."""

    def __init__(self, controller: Controller, steps: int) -> None:
        self.controller, self.steps = controller, steps
        self.asked: list[Any] = []

    async def act(self, agents: Sequence[str]) -> Setpoints:
        self.asked.append(("act", list(agents)))
        return {agent: [self.controller.step] for agent in agents}

    async def update(self, setpoints: Setpoints, agents: Sequence[str]) -> StepResult:
        self.asked.append(("update", dict(setpoints), list(agents)))
        self.controller.step += 1
        if self.controller.step == self.steps:
            raise EpisodeEnded("max_steps")
        return StepResult(self.controller.step, {}, {})

    def signal(self, signal: Any, reason: str) -> None:
        raise AssertionError("no signal is expected")


@pytest.fixture
def simulate(make: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Return a function that runs episodes of a controller and returns what it asked for."""

    def _simulate(cls: type[Controller], agents: list[str], *lengths: int) -> list[Any]:
        controller = make(cls)
        controller.agents = agents
        asked = []
        for length in lengths:
            controller.step = 0
            controller.bus = RecordingBus(controller, length)
            with pytest.raises(EpisodeEnded):
                asyncio.run(controller.simulate())
            asked.append(controller.bus.asked)
        return asked

    return _simulate


def test_it_says_that_its_phases_have_bodies() -> None:
    """The bus goes by that; controllers that say nothing have none."""
    assert [True, False, False, False] == [cls.multiplicity for cls in (AEB, Vanilla, TakingTurns, Controller)]


@pytest.mark.parametrize("end", ["all", "any", {"environment": "lake"}])
def test_ends_of_a_phase(end: Any) -> None:
    """All, any, or one environment by its uid."""
    assert end == AEB("barrier", end).end
    assert "all" == AEB("free", lead=3).end == AEB().end


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"mode": "fast"}, "mode: expected barrier or free, found 'fast'"),
        ({"mode": None}, "mode: expected barrier or free, found None"),
        ({"mode": ["barrier"]}, "mode: expected barrier or free, found"),
        ({"end": "some"}, "end: expected all, any or {environment: <uid>}, found 'some'"),
        ({"end": None}, "end: expected all, any or {environment: <uid>}, found None"),
        ({"end": {}}, "end: expected all, any or"),
        ({"end": {"environment": 3}}, "end: expected all, any or"),
        ({"end": {"environment": ""}}, "end: expected all, any or"),
        ({"end": {"environment": "lake", "body": 1}}, "end: expected all, any or"),
        ({"end": ["lake"]}, "end: expected all, any or"),
        ({"lead": 4}, "lead: expected a number of ticks of at least 1, in mode free, found 4"),
        ({"lead": 0, "mode": "free"}, "lead: expected a number of ticks of at least 1, in mode free, found 0"),
        ({"lead": True, "mode": "free"}, "lead: expected a number of ticks of at least 1, in mode free, found True"),
    ],
)
def test_wrong_params_are_named(params: dict[str, Any], text: str) -> None:
    """The error says which parameter, what is expected, what was found."""
    with pytest.raises(ValueError, match="expected") as caught:
        AEB(**params)

    assert str(caught.value).startswith(text)


def test_it_makes_no_steps_itself() -> None:
    """The bus makes the ticks; whoever calls its loop is told so."""
    with pytest.raises(NotImplementedError, match="AEB has neither advance nor a simulate"):
        asyncio.run(AEB().simulate())


def test_each_episode_begins_with_the_first_agent(simulate) -> None:
    """An episode that ended in the middle of a turn does not shift the next one."""
    episodes = simulate(TakingTurns, ["one", "two"], 3, 3)

    assert [["one", "two", "one"]] * 2 == [
        [agents[0] for kind, agents, *_ in asked if kind == "act"] for asked in episodes
    ]


def test_all_agents_act_in_every_step(simulate) -> None:
    """Each step asks all agents at once and then applies all their setpoints, until the episode ends."""
    [asked] = simulate(Vanilla, ["one", "two"], 2)

    assert [
        ("act", ["one", "two"]),
        ("update", {"one": [0], "two": [0]}, ["one", "two"]),
        ("act", ["one", "two"]),
        ("update", {"one": [1], "two": [1]}, ["one", "two"]),
    ] == asked
