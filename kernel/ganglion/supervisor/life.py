"""Lives: what is done with a child process, as a table; what its end means, and how soon it is restarted; pure."""

from __future__ import annotations

import math
import signal
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum

from ganglion.errors import UsageError
from ganglion.limits import (
    EXIT_DIFFERS,
    LEAVE_ASK_S,
    LEAVE_KILL_S,
    LEAVE_TERMINATE_S,
    NODE_LOSS_S,
    RESTART_DELAYS_S,
    RESTARTS_PER_NAME,
    RESTARTS_PER_RUN,
    RESTARTS_WITHIN_S,
)

REFUSED = UsageError.exit_status  # of a process that cannot carry out what it was told


class State(Enum):
    """Say how far a process has come."""

    PLANNED = "planned"
    STARTING = "starting"
    CANCELLED = "cancelled"  # no longer wanted, but whether it was started is not known yet
    RUNNING = "running"
    LEAVING = "leaving"  # asked to leave
    TERMINATED = "terminated"  # SIGTERM was sent
    KILLED = "killed"  # SIGKILL was sent
    GONE = "gone"


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


class Effect(Enum):
    """Say what the supervisor has to do."""

    ASK = "ask"
    TERMINATE = "terminate"  # SIGTERM to the process group
    KILL = "kill"  # SIGKILL to the process group
    REPORT = "report"  # the life is over: read `code`, `lost` and `reason`


Row = dict[Event, tuple[State, tuple[Effect, ...]]]

_UNWANTED = (Event.LEAVE, Event.END, Event.KILL)
_END: Row = {
    Event.END: (State.TERMINATED, (Effect.TERMINATE,)),
    Event.KILL: (State.KILLED, (Effect.KILL,)),
    Event.EXITED: (State.GONE, (Effect.REPORT,)),
}
TRANSITIONS: dict[State, Row] = {
    State.PLANNED: {Event.START: (State.STARTING, ()), **dict.fromkeys(_UNWANTED, (State.GONE, (Effect.REPORT,)))},
    State.STARTING: {
        Event.STARTED: (State.RUNNING, ()),
        Event.FAILED: (State.GONE, (Effect.REPORT,)),
        **dict.fromkeys(_UNWANTED, (State.CANCELLED, ())),
    },
    State.CANCELLED: {
        Event.STARTED: (State.KILLED, (Effect.KILL,)),
        Event.FAILED: (State.GONE, (Effect.REPORT,)),
        **dict.fromkeys(_UNWANTED, (State.CANCELLED, ())),
    },
    State.RUNNING: {**_END, Event.LEAVE: (State.LEAVING, (Effect.ASK,))},
    State.LEAVING: {**_END, Event.LEAVE: (State.LEAVING, ()), Event.DEADLINE: (State.TERMINATED, (Effect.TERMINATE,))},
    State.TERMINATED: {
        **_END,
        Event.LEAVE: (State.TERMINATED, ()),
        Event.END: (State.TERMINATED, ()),
        Event.DEADLINE: (State.KILLED, (Effect.KILL,)),
    },
    State.KILLED: {
        **_END,
        **dict.fromkeys(_UNWANTED, (State.KILLED, ())),
        Event.DEADLINE: (State.KILLED, (Effect.KILL,)),
    },
    State.GONE: dict.fromkeys(_UNWANTED, (State.GONE, ())),
}
"""What is no cell cannot happen: it is a mistake of the supervisor."""

_SENT = {  # signals of ours that may have ended a process
    State.TERMINATED: (signal.SIGTERM,),
    State.KILLED: (signal.SIGTERM, signal.SIGKILL),
}
_PATIENCE_S = {State.LEAVING: LEAVE_ASK_S, State.TERMINATED: LEAVE_TERMINATE_S, State.KILLED: LEAVE_KILL_S}


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


class Child:
    """Decide what is done with one process; never act.

    After `receive` and `tick` the caller carries out the effects in order, and calls `tick` again at `deadline_s`.
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
    ) -> tuple[Effect, ...]:
        """Take in an event and return the effects; `patience_s` replaces the usual time in the new state."""
        former = self.state
        row = TRANSITIONS[former]
        assert event in row, f"{self.name}: {event.value} cannot happen to a process that is {former.value}"
        self.state, effects = row[event]
        self.started |= event is Event.STARTED
        if event in (Event.EXITED, Event.FAILED):
            self.code, self.why = code, self.why or why
            crashed = code is not None and code < 0 and -code not in _SENT.get(former, ()) and not self.why
            self.lost = crashed or former in (State.STARTING, State.RUNNING)
        if self.state is not former or event is Event.DEADLINE:
            usual_s = _PATIENCE_S.get(self.state)
            self.deadline_s = None if usual_s is None else now_s + (usual_s if patience_s is None else patience_s)
        return effects

    def tick(self, now_s: float) -> tuple[Effect, ...]:
        """Look at the clock; return the effects of a deadline that has passed."""
        if self.deadline_s is None or now_s < self.deadline_s:
            return ()
        return self.receive(Event.DEADLINE, now_s)

    @property
    def gone(self) -> bool:
        """Say whether the life is over."""
        return self.state is State.GONE

    @property
    def orderly(self) -> bool:
        """Say whether the process left as it should: wanted, by itself, with exit status 0, or was never started."""
        return self.gone and not self.lost and self.code in (0, None)

    @property
    def reason(self) -> str:
        """Return how the process ended, in words."""
        text = self.why if self.code is None and self.why else exit_text(self.code)
        return f"{text} ({self.why})" if self.why and self.code is not None else text

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


@dataclass(frozen=True, slots=True)
class Death:
    """Hold what is known when the end of a process is judged.

    `over` is its run. `dismissed` says that its end was wanted, `current` that its name has no other process, `mended`
    that losses of its kind are made good in this phase. `joined` says that it was on the bus, once; `ours` that it runs
    a program of ours; `disturbed` that there was no broker for a moment while it lived.
    """

    lost: bool
    code: int | None
    over: bool
    dismissed: bool
    current: bool
    mended: bool
    joined: bool
    incarnation: int
    ours: bool
    disturbed: bool

    def judge(self) -> Verdict:
        """Return what follows."""
        if not self.lost or (self.over and self.code == 0):
            return Verdict.WANTED
        if self.over:
            return Verdict.LOST
        if self.dismissed:
            return Verdict.NOTE
        # A first process that ended by itself before it joined does so again, unless there was no broker to join.
        refused = not self.joined and self.incarnation == 1 and refuses_to_start(self.code, self.ours)
        refused = (refused and not self.disturbed) or (self.ours and not self.joined and self.code == REFUSED)
        if not (self.current and self.mended) or refused:
            return Verdict.LOST
        return Verdict.REWIND if self.code == EXIT_DIFFERS and self.incarnation > 1 else Verdict.RESTART


def refuses_to_start(code: int | None, ours: bool) -> bool:
    """Say whether a process that never joined ended by itself, so that a successor would, too."""
    return (code or 0) > 0 or (code in (None, 0) and not ours)


class Restarts:
    """Count the restarts and deaths of one run."""

    def __init__(self) -> None:
        self._restarted_s: dict[str, deque[float]] = {}
        self._all = 0
        self._nodes_s: dict[str, float] = {}  # when a loss on a node was counted last
        self._places: dict[str, tuple[Hashable, int]] = {}

    def next_s(
        self, name: str, now_s: float, most: int = RESTARTS_PER_NAME, within_s: float = RESTARTS_WITHIN_S, at: str = ""
    ) -> float | None:
        """Return the delay of the next restart; None after `most` within `within_s`, or too many in all.

        What is lost at once on a launcher's node, `at`, is one loss of all.
        """
        moments_s = self._restarted_s.setdefault(name, deque())
        while moments_s and now_s - moments_s[0] > within_s:
            moments_s.popleft()
        if len(moments_s) >= most or self._all >= RESTARTS_PER_RUN:
            return None
        delay_s = RESTART_DELAYS_S[min(len(moments_s), len(RESTART_DELAYS_S) - 1)]
        moments_s.append(now_s)
        if not at or now_s - self._nodes_s.get(at, -math.inf) > NODE_LOSS_S:
            self._all += 1
            self._nodes_s[at] = now_s
        return delay_s

    def died(self, name: str, place: Hashable) -> int:
        """Record where and how a process of a name died; return how often in a row at this place."""
        former, times = self._places.get(name, (None, 0))
        times = times + 1 if former == place else 1
        self._places[name] = (place, times)
        return times
