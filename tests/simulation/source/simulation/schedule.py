"""Who runs next, and what time it is: everything that can happen is drawn from one seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

EVENT_S = 20e-6
"""Virtual time that each event takes, so that clocks go on while there is work, too."""


class Stuck(AssertionError):
    """The simulation did not end within its bounds."""


class Runnable(Protocol):
    """Be something that can happen.

    `queued` says that it stands in the schedule's list. `wake_s` is when it is to happen by itself, infinite for never.
    """

    queued: bool
    wake_s: float

    def act(self) -> None:
        pass


class Schedule:
    """Choose among all that can happen; time leaps where nothing can.

    `events` counts what happens, up to `events_max`. `random` is for whoever disturbs the run: it is drawn from the
    same seed, but apart, so that a disturbance does not change the choices.
    """

    def __init__(self, seed: int, events_max: int, virtual_s_max: float) -> None:
        self.seed = seed
        self.now_s = 0.0
        self.events = 0
        self.random = random.Random(f"disturbances {seed}")
        self._choose = random.Random(f"schedule {seed}").random
        self.events_max, self._virtual_s_max = events_max, virtual_s_max
        self._ready: list[Runnable] = []
        self._sleepers: dict[Runnable, None] = {}
        self._due_s = float("inf")  # no sleeper wakes earlier

    def clock(self) -> float:
        return self.now_s

    def ready(self, one: Runnable) -> None:
        """Let something happen as soon as it is drawn."""
        if not one.queued:
            one.queued = True
            self._ready.append(one)

    def sleep(self, one: Runnable, wake_s: float) -> None:
        """Let something happen at a time, or earlier if it is made ready."""
        one.wake_s = wake_s
        self._sleepers[one] = None
        self._due_s = min(self._due_s, wake_s)

    def forget(self, one: Runnable) -> None:
        """Take out what cannot happen any more."""
        one.wake_s = float("inf")
        self._sleepers.pop(one, None)

    def run(self, over: Callable[[], bool]) -> None:
        """Let things happen until it is over; Stuck if that takes too long or nothing is left to happen."""
        ready = self._ready
        while not over():
            if self.now_s >= self._due_s:
                self._wake()
            if not ready:
                self._leap()
                continue
            place = int(self._choose() * len(ready))
            one = ready[place]
            last = ready.pop()
            if place < len(ready):
                ready[place] = last
            one.queued = False
            self.events += 1
            self.now_s += EVENT_S
            if self.events > self.events_max or self.now_s > self._virtual_s_max:
                raise Stuck(f"not over after {self.events} events, {self.now_s:.1f} virtual seconds")
            one.act()

    def _wake(self) -> None:
        """Make ready whoever is due."""
        for one in [one for one in self._sleepers if one.wake_s <= self.now_s]:
            self.forget(one)
            self.ready(one)
        self._due_s = min((one.wake_s for one in self._sleepers), default=float("inf"))

    def _leap(self) -> None:
        """Go on to the time at which the next sleeper wakes."""
        self._due_s = min((one.wake_s for one in self._sleepers), default=float("inf"))
        if self._due_s == float("inf"):
            raise Stuck(f"nothing can happen any more after {self.events} events")
        self.now_s = max(self.now_s, self._due_s)
