"""Life cycle of a child process: the state table, the meaning of its end, and its restart delays; pure."""

from __future__ import annotations

import math
import signal
from collections import deque
from collections.abc import Hashable
from enum import Enum

from ganglion import limits
from ganglion.errors import UsageError

REFUSED = UsageError.exit_status  # exit status of a process that cannot carry out its instructions


class State(Enum):
    """State of a process; on entering one of the last four, the caller does what the comment says."""

    PLANNED = "planned"
    STARTING = "starting"
    CANCELLED = "cancelled"  # no longer wanted, and not known yet whether it was started
    RUNNING = "running"
    LEAVING = "leaving"  # ask it to leave
    TERMINATED = "terminated"  # send SIGTERM to the process group
    KILLED = "killed"  # send SIGKILL to the process group
    GONE = "gone"  # report the end of the process: read `code`, `lost` and `why`


class Event(Enum):
    """Something that happened to a process, or a request to end it."""

    START = "start"
    STARTED = "started"
    FAILED = "failed"  # it could not be started
    LEAVE = "leave"  # leave in order
    END = "end"  # end by signal, without being asked to leave first
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
"""An event without an entry cannot happen: it would be a fault of the supervisor."""

_SENT = {  # signals of the supervisor that may have ended a process
    State.TERMINATED: (signal.SIGTERM,),
    State.KILLED: (signal.SIGTERM, signal.SIGKILL),
}
_PATIENCE_S = {
    State.LEAVING: limits.LEAVE_ASK_S,
    State.TERMINATED: limits.LEAVE_TERMINATE_S,
    State.KILLED: limits.LEAVE_KILL_S,
}


def exit_text(code: int | None) -> str:
    """Return how a process ended; `code` is the exit status, or minus the signal, None if not known."""
    if code is None:
        return "ended, the exit status is not known"
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def end_text(code: int | None, why: str = "") -> str:
    """Return how a process ended, phrased to follow its name: `was killed by SIGKILL`, `ended with exit status 3`."""
    verb = "has" if code is None else "ended with" if code >= 0 else "was"
    return f"{verb} {exit_text(code)}" + (f" ({why})" if why else "")


class Child:
    """Decide what is done with one process; never act.

    After `receive` and `tick` the caller performs the action of the returned state, and calls `tick` again at
    `deadline_s`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.PLANNED
        self.started = False
        self.code: int | None = None
        self.deadline_s: float | None = None
        self.why = ""  # the reason of a kill or of a failed start, where it is known
        self.lost = False  # it ended without being asked to, or crashed

    def receive(
        self, event: Event, now_s: float, code: int | None = None, patience_s: float | None = None, why: str = ""
    ) -> State | None:
        """Take in an event; return the state that was entered, None if there is nothing to do.

        `patience_s` replaces the usual time limit of the state. A process that survives SIGKILL is killed again.
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
        """Check the deadline; return the state that was entered because it has passed, None otherwise."""
        if self.deadline_s is None or now_s < self.deadline_s:
            return None
        return self.receive(Event.DEADLINE, now_s)

    @property
    def gone(self) -> bool:
        """Whether the process has ended."""
        return self.state is State.GONE

    @property
    def way(self) -> str:
        """Return how the process ended; equal texts for equal kinds of end."""
        if self.code is None:
            return "an end that is not known" if self.started else "not being started"
        return exit_text(self.code).removeprefix("killed by ")


class Verdict(Enum):
    """What the end of a process means for its run."""

    WANTED = "wanted"  # no effect: it was no loss, or the process is no longer needed
    RESTART = "restart"
    REWIND = "rewind"  # its results differ: the phase begins again
    NOTE = "note"  # it was asked to leave and ended otherwise: an incident
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
    """Return what the end of a process means for its run; `over` is True if the run has ended.

    `dismissed`: the process was asked to end. `replaced`: its name has no other process, and losses of its kind are
    recovered in this phase. `joined`: it was on the bus at some time. `ours`: it runs a program of Ganglion.
    `disturbed`: there was a time without a broker while it lived.
    """
    if not lost or (over and code == 0):
        return Verdict.WANTED
    if over:
        return Verdict.LOST
    if dismissed:
        return Verdict.NOTE
    # A first process that ended by itself before joining would end again, unless there was no broker to join.
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
        self._nodes_s: dict[str, float] = {}  # when a loss on a node was last counted
        self._places: dict[str, tuple[Hashable, int]] = {}

    def next_s(
        self,
        name: str,
        now_s: float,
        most: int = limits.RESTARTS_PER_NAME,
        within_s: float = limits.RESTARTS_WITHIN_S,
        at: str = "",
    ) -> float | None:
        """Return the delay of the next restart; None after `most` within `within_s`, or too many in the run.

        Simultaneous losses on one launcher's node, `at`, count as one loss of the run.
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
        """Record where and how a process of a name died; return the number of consecutive deaths at this place."""
        former, times = self._places.get(name, (None, 0))
        times = times + 1 if former == place else 1
        self._places[name] = (place, times)
        return times
