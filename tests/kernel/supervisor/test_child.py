from __future__ import annotations

from typing import Any

import pytest

from ganglion.limits import EXIT_DIFFERS, LEAVE_ASK_S, LEAVE_KILL_S, LEAVE_TERMINATE_S, RESTARTS_PER_RUN
from ganglion.run.plan import EnvironmentPlan, PluginPlan, Process, ProgramPlan
from ganglion.supervisor.life import TRANSITIONS, Child, Event, Restarts, State, Verdict, exit_text, judge
from ganglion.supervisor.runs import Member
from ganglion.wire.name import Role


def _running() -> Child:
    """Return a child that runs since the time 0."""
    child = Child("run/muscle/ada/0")
    assert State.STARTING is child.receive(Event.START, 0.0)
    assert State.RUNNING is child.receive(Event.STARTED, 0.0)
    return child


def test_every_life_can_end() -> None:
    """From each state a sequence of events leads to GONE, so that no process is waited for without end."""
    ends = {State.GONE}
    while True:
        more = {s for s, row in TRANSITIONS.items() if any(to in ends for to in row.values())}
        if more <= ends:
            break
        ends |= more

    assert set(State) == ends


def test_ladder_is_climbed_by_the_clock() -> None:
    """A process that hears nothing is asked, terminated, killed, and killed again, each after its time."""
    child = _running()
    now_s, states = 10.0, [child.receive(Event.LEAVE, 10.0)]
    for wait_s in (LEAVE_ASK_S, LEAVE_TERMINATE_S, LEAVE_KILL_S):
        assert child.tick(now_s + wait_s - 0.001) is None
        now_s += wait_s
        states.append(child.tick(now_s))

    assert [State.LEAVING, State.TERMINATED, State.KILLED, State.KILLED] == states


def test_cancelled_start_is_killed_when_it_comes() -> None:
    """A process that is no longer wanted before its number is known is killed as soon as it is."""
    child = Child("x")
    child.receive(Event.START, 0.0)
    child.receive(Event.LEAVE, 0.1)

    assert State.KILLED is child.receive(Event.STARTED, 0.2)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exit status 0"),
        (139, "exit status 139"),
        (-9, "killed by SIGKILL"),
        (-11, "killed by SIGSEGV"),
        (-63, "killed by signal 63"),
        (None, "ended, the exit status is not known"),
    ],
)
def test_end_in_words(code: int | None, text: str) -> None:
    """Exit status and signal are told apart, and signals have their names."""
    assert text == exit_text(code)


def test_a_document_sets_the_bound() -> None:
    """How many restarts within how long are no accident any more is the document's to say."""
    restarts = Restarts()

    assert [0.0, 0.1, None] == [restarts.next_s("a", 0.0, 2, 10.0) for _ in range(3)]
    assert 0.0 == restarts.next_s("a", 10.1, 2, 10.0)


def test_what_a_node_loses_at_once_is_one_loss() -> None:
    """A node with more processes than a run may lose is one loss; each process counts for itself elsewhere."""
    lost = [f"environment/hut/{worker}" for worker in range(RESTARTS_PER_RUN + 1)]
    on_nodes, here = Restarts(), Restarts()

    assert {0.0} == {on_nodes.next_s(name, 0.1 * place, at="a") for place, name in enumerate(lost)}
    assert [0.0] * RESTARTS_PER_RUN + [None] == [here.next_s(name, 0.0) for name in lost]


def test_equal_deaths_are_counted_until_there_is_another() -> None:
    """Who dies again where and how it died before is told from who dies elsewhere, or otherwise."""
    restarts = Restarts()
    found = [restarts.died("a", place) for place in ((1, "SIGSEGV"), (1, "SIGSEGV"), (2, "SIGSEGV"))]
    others = [restarts.died("b", (2, "SIGSEGV")), restarts.died("a", (2, "SIGKILL"))]

    assert ([1, 2, 1], [1, 1]) == (found, others)


PLUGIN = EnvironmentPlan("grid", PluginPlan("dummy"))


def _member(environment: EnvironmentPlan = PLUGIN, worker: int = 0) -> tuple[Member, list[str]]:
    """Return a member and the list of what it has asked for."""
    said: list[str] = []
    place = Process(f"r/environment/grid/{worker}", Role.ENVIRONMENT, "grid", worker, environment)
    return Member(place, "r", 1, lambda m: said.append("ask"), lambda m: said.append("over")), said


async def test_who_has_not_been_started_need_not_leave() -> None:
    """Leaving before the start is the end; nobody is asked."""
    member, said = _member()
    member.leave()

    assert (["over"], State.GONE) == (said, member.child.state)
    assert not member.stays


async def test_who_attached_is_asked_and_not_waited_for() -> None:
    """A program of somebody else is asked to leave if it is there; its process is not our business."""
    member, said = _member(EnvironmentPlan("grid", program=ProgramPlan()))
    member.joined = True
    assert member.stays
    member.leave()
    member.end(Event.KILL)
    member.end()

    assert ["ask"] == said
    assert member.gone.is_set()


DEATH: dict[str, Any] = {
    "lost": True,
    "code": -9,
    "over": False,
    "dismissed": False,
    "replaced": True,
    "joined": True,
    "incarnation": 1,
    "ours": True,
    "disturbed": False,
}
VERDICTS: list[tuple[dict[str, object], Verdict]] = [
    ({}, Verdict.RESTART),
    ({"code": 0}, Verdict.RESTART),
    ({"code": None}, Verdict.RESTART),
    ({"replaced": False}, Verdict.LOST),
    ({"lost": False}, Verdict.WANTED),
    ({"lost": False, "dismissed": True}, Verdict.WANTED),
    ({"dismissed": True}, Verdict.NOTE),
    ({"dismissed": True, "replaced": False}, Verdict.NOTE),
    ({"dismissed": True, "over": True}, Verdict.LOST),
    ({"over": True}, Verdict.LOST),
    ({"over": True, "code": 0}, Verdict.WANTED),
    # before it has joined, once
    ({"joined": False}, Verdict.RESTART),
    ({"joined": False, "code": 1}, Verdict.LOST),
    ({"joined": False, "code": 1, "disturbed": True}, Verdict.RESTART),
    ({"joined": False, "code": 1, "incarnation": 2}, Verdict.RESTART),
    ({"joined": False, "code": 2, "incarnation": 2}, Verdict.LOST),
    ({"joined": False, "code": 2, "incarnation": 2, "ours": False}, Verdict.RESTART),
    ({"joined": False, "code": 0}, Verdict.RESTART),
    ({"joined": False, "code": 0, "ours": False}, Verdict.LOST),
    ({"joined": False, "code": None, "ours": False}, Verdict.LOST),
    # it says that it does not do the same again
    ({"code": EXIT_DIFFERS}, Verdict.RESTART),
    ({"code": EXIT_DIFFERS, "incarnation": 2}, Verdict.REWIND),
    ({"code": EXIT_DIFFERS, "incarnation": 2, "replaced": False}, Verdict.LOST),
]


@pytest.mark.parametrize(("changes", "verdict"), VERDICTS)
def test_what_the_end_of_a_process_means(changes: dict[str, object], verdict: Verdict) -> None:
    """Wanted, replaced, noted, the phase anew, or lost: by what is known when it has ended, and by nothing else."""
    assert verdict is judge(**{**DEATH, **changes})
