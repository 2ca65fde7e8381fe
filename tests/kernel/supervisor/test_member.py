from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

from ganglion.run.plan import EnvironmentPlan, PluginPlan, Process
from ganglion.supervisor.child import State
from ganglion.supervisor.runs import Member
from ganglion.wire.messages import Lost
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


def test_admission_holds_the_digest_only() -> None:
    """The broker gets the digest of the token; who attaches comes with the common token and the uid as his name."""

    def body() -> None:
        ours, _ = _member()
        theirs, _ = _member(EnvironmentPlan("grid", attach=True))
        own, attached = ours.admission("common"), theirs.admission("common")

        assert hashlib.sha256(ours.token.encode()).digest() == own.token_sha256
        assert (None, "grid") == (own.attach, attached.attach)
        assert hashlib.sha256(b"common").digest() == attached.token_sha256

    _on_loop(body)


def test_definition_of_a_program_is_its_command() -> None:
    """A plugin's process serves whatever comes; a program stays only while its command is the same."""

    def body() -> None:
        other = EnvironmentPlan("grid", PluginPlan("other"))
        first, second = (EnvironmentPlan("grid", command=["sim", word]) for word in "ab")

        assert _member()[0].definition == _member(other)[0].definition
        assert _member(first)[0].definition != _member(second)[0].definition
        assert _member(first)[0].definition == _member(first, worker=0)[0].definition

    _on_loop(body)


def test_what_the_broker_says_of_a_connection_is_kept_until_there_is_another() -> None:
    """Whoever comes again has not been cut off; that he was here once is never forgotten."""

    def body() -> None:
        member, _ = _member()
        states = []
        for event in (lambda: None, member.came, lambda: member.cut_off(Lost("r", 1, "cut", True, True)), member.came):
            event()
            states.append((member.joined, member.here.is_set(), member.off.is_set(), member.lost_reason))

        assert [
            (False, False, False, ""),
            (True, True, False, ""),
            (False, True, True, "cut"),
            (True, True, False, ""),
        ] == states
        assert member.idle

    _on_loop(body)


def test_who_could_not_be_started_is_lost() -> None:
    """A failed start is the end of a life, with its reason."""

    def body() -> None:
        member, said = _member()
        member.start()
        member.failed("no such file")

        assert ["over"] == said
        assert member.child.lost
        assert member.gone.is_set()
        assert "could not be started: no such file" == member.end_text

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
        member.kill()
        member.end()

        assert ["ask"] == said
        assert member.gone.is_set()

    _on_loop(body)
