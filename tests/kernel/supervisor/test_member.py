from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ganglion.run.plan import EnvironmentPlan, PluginPlan, Process
from ganglion.supervisor.child import Event, State
from ganglion.supervisor.runs import Member, definition
from ganglion.wire.name import Role

PLUGIN = EnvironmentPlan("grid", PluginPlan("dummy"))


def _member(environment: EnvironmentPlan = PLUGIN, worker: int = 0) -> tuple[Member, list[str]]:
    """Return a member and the list of what it has asked for."""
    said: list[str] = []
    place = Process(f"r/environment/grid/{worker}", Role.ENVIRONMENT, "grid", worker, environment)
    return Member(place, "r", 1, lambda m: said.append("ask"), lambda m: said.append("over")), said


def _on_loop(body: Callable[[], Any]) -> Any:
    async def run() -> Any:
        return body()

    return asyncio.run(run())


def test_definition_of_a_program_is_its_command() -> None:
    """A plugin's process serves whatever comes; a program stays only while its command is the same."""

    def body() -> None:
        other = EnvironmentPlan("grid", PluginPlan("other"))
        first, second = (EnvironmentPlan("grid", command=["sim", word]) for word in "ab")

        assert definition(_member()[0].place) == definition(_member(other)[0].place)
        assert definition(_member(first)[0].place) != definition(_member(second)[0].place)

    _on_loop(body)


def test_who_has_not_been_started_need_not_leave() -> None:
    """Leaving before the start is the end; nobody is asked."""

    def body() -> None:
        member, said = _member()
        member.leave()

        assert (["over"], State.GONE) == (said, member.child.state)
        assert not member.stays

    _on_loop(body)


def test_who_attached_is_asked_and_not_waited_for() -> None:
    """A program of somebody else is asked to leave if it is there; its process is not our business."""

    def body() -> None:
        member, said = _member(EnvironmentPlan("grid", attach=True))
        member.joined = True
        assert member.stays
        member.leave()
        member.end(Event.KILL)
        member.end()

        assert ["ask"] == said
        assert member.gone.is_set()

    _on_loop(body)
