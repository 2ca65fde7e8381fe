from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ganglion.limits import LEAVE_ASK_S, LEAVE_KILL_S, LEAVE_TERMINATE_S
from ganglion.supervisor.child import TRANSITIONS, Child, Effect, Event, State, exit_text


def _running() -> Child:
    """Return a child that runs since the time 0."""
    child = Child("run/muscle/ada/0")
    assert (Effect.START,) == child.receive(Event.START, 0.0)
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


def test_loss_is_told_from_leaving() -> None:
    """Who ends unasked is lost, or by a signal that we did not send; orderly is only who was asked and ends with 0."""
    lost, left, clumsy, crashed = _running(), _running(), _running(), _running()
    lost.receive(Event.EXITED, 1.0, code=-9)
    left.receive(Event.LEAVE, 1.0)
    left.receive(Event.EXITED, 1.1, code=0)
    clumsy.receive(Event.LEAVE, 1.0)
    clumsy.receive(Event.EXITED, 1.1, code=3)
    crashed.receive(Event.END, 1.0)
    crashed.receive(Event.EXITED, 1.1, code=-9)

    ends = [(c.lost, c.orderly) for c in (lost, left, clumsy, crashed)]
    assert [(True, False), (False, True), (False, False), (True, False)] == ends
    assert "killed by SIGKILL" == lost.reason


@pytest.mark.parametrize(
    ("wish", "code", "lost"),
    [
        (Event.LEAVE, 0, False),
        (Event.LEAVE, 3, False),
        (Event.LEAVE, -11, True),
        (Event.END, -15, False),
        (Event.END, -9, True),
        (Event.KILL, -9, False),
        (Event.KILL, -15, False),
        (Event.KILL, -11, True),
    ],
)
def test_signal_of_ours_is_told_from_a_crash(wish: Event, code: int, lost: bool) -> None:
    """A process that ends by a signal that we have not sent has crashed, also while it was to end."""
    child = _running()
    child.receive(wish, 1.0)
    child.receive(Event.EXITED, 1.1, code=code)

    assert lost == child.lost


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


def test_known_cause_is_told_beside_the_end() -> None:
    """What the supervisor knows about an end stands beside what the system says."""
    child = _running()
    child.why = "stopped for 1.0 s"
    child.receive(Event.EXITED, 1.0, code=-9)

    assert "killed by SIGKILL (stopped for 1.0 s)" == child.reason


class ChildMachine(RuleBasedStateMachine):
    """Any order of wishes, deadlines and ends keeps the books right."""

    def __init__(self) -> None:
        super().__init__()
        self.child = Child("run/brain/ada")
        self.now_s = 0.0
        self.alive = False  # whether the system has a process
        self.reports = 0
        self.signals: list[Effect] = []

    def _carry_out(self, effects: tuple[Effect, ...]) -> None:
        self.reports += effects.count(Effect.REPORT)
        for effect in effects:
            if effect in (Effect.ASK, Effect.TERMINATE, Effect.KILL):
                assert self.alive, f"{effect} for a process that there is not"
                self.signals.append(effect)

    @precondition(lambda self: self.child.state is State.PLANNED)
    @rule()
    def start(self) -> None:
        self._carry_out(self.child.receive(Event.START, self.now_s))

    @precondition(lambda self: self.child.state in (State.STARTING, State.CANCELLED))
    @rule(works=st.booleans())
    def started(self, works: bool) -> None:
        self.alive = works
        self._carry_out(self.child.receive(Event.STARTED if works else Event.FAILED, self.now_s))

    @rule(wish=st.sampled_from([Event.LEAVE, Event.END, Event.KILL]))
    def wish(self, wish: Event) -> None:
        self._carry_out(self.child.receive(wish, self.now_s))

    @rule(pass_s=st.floats(0.0, 3.0))
    def time(self, pass_s: float) -> None:
        self.now_s += pass_s
        self._carry_out(self.child.tick(self.now_s))

    @precondition(lambda self: self.alive)
    @rule(code=st.sampled_from([0, 1, -9, -11]))
    def exits(self, code: int) -> None:
        self.alive = False
        self._carry_out(self.child.receive(Event.EXITED, self.now_s, code=code))

    @invariant()
    def books_agree(self) -> None:
        self.child.check()
        assert self.reports == self.child.gone
        assert self.alive == (self.child.state in (State.RUNNING, State.LEAVING, State.TERMINATED, State.KILLED))

    @invariant()
    def ladder_goes_up_only(self) -> None:
        order = [Effect.ASK, Effect.TERMINATE, Effect.KILL]
        rungs = [order.index(effect) for effect in self.signals]
        assert rungs == sorted(rungs)


TestChild = ChildMachine.TestCase
