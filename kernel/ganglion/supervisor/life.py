"""Lives: what is done with a child process, as a table; what its end means, and how soon it is restarted; pure."""

from __future__ import annotations

import math
import signal
from collections import deque
from collections.abc import Hashable
from enum import Enum

from ganglion import limits
from ganglion.errors import UsageError

REFUSED = UsageError.exit_status  # of a process that cannot carry out what it was told


class State(Enum):
    """Say how far a process has come; whoever enters one of the last four does what stands beside it."""

    PLANNED = "planned"
    STARTING = "starting"
    CANCELLED = "cancelled"  # no longer wanted, but whether it was started is not known yet
    RUNNING = "running"
    LEAVING = "leaving"  # ask it to leave
    TERMINATED = "terminated"  # send SIGTERM to the process group
    KILLED = "killed"  # send SIGKILL to the process group
    GONE = "gone"  # report that the life is over: read `code`, `lost` and `reason`


class Event(Enum):
    """Say what happened to a process, or what is wanted of it."""

    START = "start"
    STARTED = "started"
    FAILED = "failed"  # it could not be started
    LEAVE = "leave"  # leave in order
    END = "end"  # end by signal, without being asked first
    KILL = "kill"
    DEADLINE = "deadline"
    EXITED = "exited"


_UNWANTED = (Event.LEAVE, Event.END, Event.KILL)
_ENDED = {Event.EXITED: State.GONE}
_END = {Event.END: State.TERMINATED, Event.KILL: State.KILLED, **_ENDED}
TRANSITIONS: dict[State, dict[Event, State]] = {
    State.PLANNED: {Event.START: State.STARTING, **dict.fromkeys(_UNWANTED, State.GONE)},
    State.STARTING: {
        Event.STARTED: State.RUNNING,
        Event.FAILED: State.GONE,
        **dict.fromkeys(_UNWANTED, State.CANCELLED),
    },
    State.CANCELLED: {
        Event.STARTED: State.KILLED,
        Event.FAILED: State.GONE,
        **dict.fromkeys(_UNWANTED, State.CANCELLED),
    },
    State.RUNNING: {**_END, Event.LEAVE: State.LEAVING},
    State.LEAVING: {**_END, Event.LEAVE: State.LEAVING, Event.DEADLINE: State.TERMINATED},
    State.TERMINATED: {
        **_END,
        Event.LEAVE: State.TERMINATED,
        Event.END: State.TERMINATED,
        Event.DEADLINE: State.KILLED,
    },
    State.KILLED: {**_ENDED, **dict.fromkeys(_UNWANTED, State.KILLED), Event.DEADLINE: State.KILLED},
    State.GONE: dict.fromkeys(_UNWANTED, State.GONE),
}
"""What is no cell cannot happen: it is a mistake of the supervisor."""

_SENT = {  # signals of ours that may have ended a process
    State.TERMINATED: (signal.SIGTERM,),
    State.KILLED: (signal.SIGTERM, signal.SIGKILL),
}
_PATIENCE_S = {
    State.LEAVING: limits.LEAVE_ASK_S,
    State.TERMINATED: limits.LEAVE_TERMINATE_S,
    State.KILLED: limits.LEAVE_KILL_S,
}


def exit_text(code: int | None) -> str:
    """Return how a process ended, in words; `code` is its exit status, or minus its signal, None if not known."""
    if code is None:
        return "ended, the exit status is not known"
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def end_text(code: int | None, why: str = "") -> str:
    """Return how a process ended, as it follows its name: `was killed by SIGKILL`, `ended with exit status 3`."""
    verb = "has" if code is None else "ended with" if code >= 0 else "was"
    return f"{verb} {exit_text(code)}" + (f" ({why})" if why else "")


class Child:
    """Decide what is done with one process; never act.

    After `receive` and `tick` the caller does what the state asks for that they return, and calls `tick` again at
    `deadline_s`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.PLANNED
        self.started = False
        self.code: int | None = None
        self.deadline_s: float | None = None
        self.why = ""  # why it was killed or could not be started, where that is known
        self.lost = False  # it ended although it was not asked to, or crashed

    def receive(
        self, event: Event, now_s: float, code: int | None = None, patience_s: float | None = None, why: str = ""
    ) -> State | None:
        """Take in an event; return the state that was entered, None if there is nothing to do.

        `patience_s` replaces the usual time in it. One that is killed in vain is killed again.
        """
        former = self.state
        row = TRANSITIONS[former]
        assert event in row, f"{self.name}: {event.value} cannot happen to a process that is {former.value}"
        self.state = row[event]
        self.started |= event is Event.STARTED
        if event in (Event.EXITED, Event.FAILED):
            self.code, self.why = code, self.why or why
            crashed = code is not None and code < 0 and -code not in _SENT.get(former, ()) and not self.why
            self.lost = crashed or former in (State.STARTING, State.RUNNING)
        if self.state is former and event is not Event.DEADLINE:
            return None
        usual_s = _PATIENCE_S.get(self.state)
        self.deadline_s = None if usual_s is None else now_s + (usual_s if patience_s is None else patience_s)
        return self.state

    def tick(self, now_s: float) -> State | None:
        """Look at the clock; return the state that was entered since a deadline has passed."""
        if self.deadline_s is None or now_s < self.deadline_s:
            return None
        return self.receive(Event.DEADLINE, now_s)

    @property
    def gone(self) -> bool:
        """Say whether the life is over."""
        return self.state is State.GONE

    @property
    def way(self) -> str:
        """Return how the process ended, in words that are equal for equal ways."""
        if self.code is None:
            return "an end that is not known" if self.started else "not being started"
        return exit_text(self.code).removeprefix("killed by ")


class Verdict(Enum):
    """Say what the end of a process means for its run."""

    WANTED = "wanted"  # nothing, or it is no longer needed
    RESTART = "restart"
    REWIND = "rewind"  # its results differ: the phase begins again
    NOTE = "note"  # it was asked to leave, and ended otherwise: an incident
    LOST = "lost"  # no successor can replace it


def judge(
    *,
    lost: bool,
    code: int | None,
    over: bool,
    dismissed: bool,
    replaced: bool,
    joined: bool,
    incarnation: int,
    ours: bool,
    disturbed: bool,
) -> Verdict:
    """Return what the end of a process means for its run, which may be `over`.

    `dismissed` says that its end was wanted, `replaced` that its name has no other process and losses of its kind are
    made good in this phase. `joined` says that it was on the bus, once; `ours` that it runs a program of ours;
    `disturbed` that there was no broker for a moment while it lived.
    """
    if not lost or (over and code == 0):
        return Verdict.WANTED
    if over:
        return Verdict.LOST
    if dismissed:
        return Verdict.NOTE
    # A first process that ended by itself before it joined does so again, unless there was no broker to join.
    refuses = (code or 0) > 0 or (code in (None, 0) and not ours)
    again = (refuses and incarnation == 1 and not disturbed) or (ours and code == REFUSED)
    if not replaced or (again and not joined):
        return Verdict.LOST
    return Verdict.REWIND if code == limits.EXIT_DIFFERS and incarnation > 1 else Verdict.RESTART


class Restarts:
    """Count the restarts and deaths of one run."""

    def __init__(self) -> None:
        self._restarted_s: dict[str, deque[float]] = {}
        self._all = 0
        self._nodes_s: dict[str, float] = {}  # when a loss on a node was counted last
        self._places: dict[str, tuple[Hashable, int]] = {}

    def next_s(
        self,
        name: str,
        now_s: float,
        most: int = limits.RESTARTS_PER_NAME,
        within_s: float = limits.RESTARTS_WITHIN_S,
        at: str = "",
    ) -> float | None:
        """Return the delay of the next restart; None after `most` within `within_s`, or too many in all.

        What is lost at once on a launcher's node, `at`, is one loss of all.
        """
        moments_s = self._restarted_s.setdefault(name, deque())
        while moments_s and now_s - moments_s[0] > within_s:
            moments_s.popleft()
        if len(moments_s) >= most or self._all >= limits.RESTARTS_PER_RUN:
            return None
        delay_s = limits.RESTART_DELAYS_S[min(len(moments_s), len(limits.RESTART_DELAYS_S) - 1)]
        moments_s.append(now_s)
        if not at or now_s - self._nodes_s.get(at, -math.inf) > limits.NODE_LOSS_S:
            self._all += 1
            self._nodes_s[at] = now_s
        return delay_s

    def died(self, name: str, place: Hashable) -> int:
        """Record where and how a process of a name died; return how often in a row at this place."""
        former, times = self._places.get(name, (None, 0))
        times = times + 1 if former == place else 1
        self._places[name] = (place, times)
        return times
