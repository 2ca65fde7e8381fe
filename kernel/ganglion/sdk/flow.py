"""Flow: signals in ascending order of force; what an episode is for; the time inside an environment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, IntEnum
from typing import NamedTuple


class Mode(str, Enum):  # noqa: UP042 - StrEnum would print `train`; a `repr` in a message must show that it is a Mode
    """Name the purpose of an episode.

    In `TRAIN` the brain receives every completed decision. In `TEST` no brain is called and muscles act by the loaded
    policy. `EVALUATE` is the mode of the evaluation episodes within a training phase, and of phases with this mode.
    """

    TRAIN = "train"
    TEST = "test"
    EVALUATE = "evaluate"


class Signal(IntEnum):
    """Steer a worker, a phase or a run; of several signals at once the greatest wins.

    | signal | scope | effect, at the next step boundary |
    |---|---|---|
    | `CONTINUE` | worker, phase, run | goes on; ends a pause |
    | `PAUSE` | worker, phase, run | stands until CONTINUE or a greater signal; everything keeps its state |
    | `RESET` | worker | the episode ends; the next begins with the same objects |
    | `RESTART` | worker | the episode ends; the next begins with new objects; brains stay |
    | `STOP_SIMULATION` | worker | the episode ends and the worker takes no further part in the phase |
    | `STOP_PHASE` | phase | the episodes of all workers end; the next phase begins |
    | `SHUTDOWN` | run | as STOP_PHASE, and no phase follows |

    An episode that has ended by itself where a pause begins is closed when the pause is over.
    """

    CONTINUE = 0
    PAUSE = 1
    RESET = 2
    RESTART = 3
    STOP_SIMULATION = 4
    STOP_PHASE = 5
    SHUTDOWN = 6

    @property
    def effect(self) -> SignalEffect:
        """Return the effect of the signal."""
        return _EFFECTS[self]


class SignalEffect(NamedTuple):
    """Describe the effect of a signal at the next step boundary."""

    scope: str  # `worker` if a single worker may be addressed, else `phase` or `run`
    ends_episode: bool = False  # whether the open episode ends
    rebuilds: bool = False  # whether the next one begins with new objects
    stops: bool = False  # whether the worker takes no further part in the phase


_EFFECTS = {
    Signal.CONTINUE: SignalEffect("worker"),
    Signal.PAUSE: SignalEffect("worker"),
    Signal.RESET: SignalEffect("worker", ends_episode=True),
    Signal.RESTART: SignalEffect("worker", ends_episode=True, rebuilds=True),
    Signal.STOP_SIMULATION: SignalEffect("worker", ends_episode=True, stops=True),
    Signal.STOP_PHASE: SignalEffect("phase", ends_episode=True, stops=True),
    Signal.SHUTDOWN: SignalEffect("run", ends_episode=True, stops=True),
}


@dataclass(frozen=True, slots=True)
class SimTime:
    """State a simulated time, which never decreases within an episode."""

    simtime_ticks: int | None = None  # count of ticks, >= 0; None without ticks
    simtime_timestamp: datetime | None = None  # simulated date and time; None without a calendar

    def falls_behind(self, earlier: SimTime) -> bool:
        """Return whether this time is before `earlier` in a component that both have."""
        ticks, before = self.simtime_ticks, earlier.simtime_ticks
        if ticks is not None and before is not None and ticks < before:
            return True
        now, then = self.simtime_timestamp, earlier.simtime_timestamp
        return now is not None and then is not None and now < then
