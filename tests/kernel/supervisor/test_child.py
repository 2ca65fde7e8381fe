from __future__ import annotations

import pytest

from ganglion.limits import LEAVE_ASK_S, LEAVE_KILL_S, LEAVE_TERMINATE_S
from ganglion.supervisor.child import TRANSITIONS, Child, Effect, Event, State, exit_text


def _running() -> Child:
    """Return a child that runs since the time 0."""
    child = Child("run/muscle/ada/0")
    assert () == child.receive(Event.START, 0.0)
    assert () == child.receive(Event.STARTED, 0.0)
    return child


def test_every_state_has_a_row() -> None:
    """The table says for each state what can happen in it."""
    assert set(State) == set(TRANSITIONS)


def test_every_life_can_end() -> None:
    """From each state a sequence of events leads to GONE, so that no process is waited for without end."""
    ends = {State.GONE}
    while True:
        more = {s for s, row in TRANSITIONS.items() if any(to in ends for to, _ in row.values())}
        if more <= ends:
            break
        ends |= more

    assert set(State) == ends


def test_ladder_is_climbed_by_the_clock() -> None:
    """A process that hears nothing is asked, terminated, killed, and killed again, each after its time."""
    child = _running()
    now_s, effects = 10.0, [child.receive(Event.LEAVE, 10.0)]
    for wait_s in (LEAVE_ASK_S, LEAVE_TERMINATE_S, LEAVE_KILL_S):
        assert () == child.tick(now_s + wait_s - 0.001)
        now_s += wait_s
        effects.append(child.tick(now_s))

    assert [(Effect.ASK,), (Effect.TERMINATE,), (Effect.KILL,), (Effect.KILL, Effect.OVERDUE)] == effects


def test_one_clock_shortens_the_patience() -> None:
    """The time that is left of a common clock replaces the time of the state."""
    child = _running()
    child.receive(Event.LEAVE, 5.0, patience_s=0.25)

    assert (Effect.TERMINATE,) == child.tick(5.25)


def test_cancelled_start_has_no_clock() -> None:
    """A start that is cancelled by a common clock waits for its process without a deadline."""
    child = Child("x")
    child.receive(Event.START, 0.0)
    child.receive(Event.LEAVE, 0.1, patience_s=0.25)
    child.check()

    assert () == child.tick(100.0)


def test_cancelled_start_is_killed_when_it_comes() -> None:
    """A process that is no longer wanted before its number is known is killed as soon as it is."""
    child = Child("x")
    child.receive(Event.START, 0.0)
    child.receive(Event.LEAVE, 0.1)

    assert (Effect.KILL,) == child.receive(Event.STARTED, 0.2)


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
