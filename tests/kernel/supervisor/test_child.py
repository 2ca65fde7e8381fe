from __future__ import annotations

import pytest

from ganglion.supervisor.child import TRANSITIONS, Child, Event, State, exit_text


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


def test_cancelled_start_has_no_clock() -> None:
    """A start that is cancelled by a common clock waits for its process without a deadline."""
    child = Child("x")
    child.receive(Event.START, 0.0)
    child.receive(Event.LEAVE, 0.1, patience_s=0.25)
    child.check()

    assert () == child.tick(100.0)


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
