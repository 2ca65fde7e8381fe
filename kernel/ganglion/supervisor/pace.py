"""Pace: the progress of a phase, its speed, and its remaining time; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ganglion.supervisor import event

_SPAN_S = 30.0  # window over which the steps per second are measured
_SAMPLES = 1000  # the most samples in the window
_RETURNS = 1000  # returns kept per agent; beyond that every second one is dropped, then of the new ones too
_TOLD = 60  # the most means that are reported per agent


def thinned(values: Sequence[float], width: int) -> list[float]:
    """Return at most `width` means of neighbouring numbers."""
    count = min(width, len(values))
    cells = [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]
    return [sum(cell) / len(cell) for cell in cells]


@dataclass(slots=True)
class Pace:
    """Take in the events of a phase; the times may come from any monotonic clock.

    Episodes are numbered: a resumed phase also counts those before the resume. `limit` is the number of episodes of all
    workers, None where a condition ends the phase. `returns` are those of the phase's own episodes.
    """

    name: str
    limit: int | None
    began_s: float
    tick: int | None = None  # with bodies: the newest tick that a worker reported
    paused: tuple[int, ...] = ()
    returns: dict[str, list[float]] = field(default_factory=dict)
    ended_s: float | None = None
    _next: dict[Any, int] = field(default_factory=dict)  # worker -> number of its current episode
    _open: dict[Any, int] = field(default_factory=dict)  # worker -> steps of its current episode
    _ended: int = 0  # episodes seen, and below the steps in them
    _taken: int = 0
    _first: float | None = None  # episodes before the first event
    _samples: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    _every: int = 1  # one of this many returns is kept
    _seen: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Mapping[str, Any], now_s: float) -> Pace:
        """Return the pace of a phase from the fields of `phase.started`."""
        episodes = fields.get("episodes")
        limit = None if episodes is None else episodes * (fields.get("workers") or 1)
        return cls(str(fields.get("name", fields.get("phase"))), limit, now_s)

    def take(self, what: str, fields: Mapping[str, Any], now_s: float) -> None:
        """Take in an event of this phase."""
        worker = fields.get("worker"), fields.get("mode")
        if what == event.PHASE_ENDED:
            self.ended_s = now_s
        elif what in (event.PHASE_PAUSED, event.PHASE_RESUMED):
            self.paused = tuple(fields.get("workers") or ())
        elif what == event.STEPS_TAKEN:
            episode = int(fields.get("episode", 0))
            if "tick" in fields:
                self.tick, self._open[worker] = int(fields["tick"]), int(fields.get("steps", 0))
                self._next[worker] = max(self._next.get(worker, 0), sum(fields.get("episodes", {}).values()))
            elif episode >= self._next.get(worker, 0):  # else the end of the episode arrived first
                self._next[worker], self._open[worker] = episode, int(fields.get("steps", 0))
        elif what == event.EPISODE_ENDED:
            if "episodes" in fields:  # with bodies: the newest of an environment, and how many it stands for
                self._next[worker] = self._next.get(worker, 0) + int(fields["episodes"])
            else:
                self._taken += int(fields.get("steps", 0))
                self._open.pop(worker, None)
                self._next[worker] = int(fields.get("episode", self._next.get(worker, 0))) + 1
            if fields.get("mode") is None:  # else an episode of an evaluation
                self._ended += 1
                for agent, value in (fields.get("returns") or {}).items():
                    self._keep(agent, value)
        if what in (event.STEPS_TAKEN, event.EPISODE_ENDED):
            self._first = self.part - 1 if self._first is None else self._first
            if self.steps != (self._samples[-1][1] if self._samples else 0):
                self._samples.append((now_s, self.steps))
            while len(self._samples) > 2 and now_s - self._samples[0][0] > _SPAN_S:
                self._samples.popleft()

    def _keep(self, agent: str, value: Any) -> None:
        if not isinstance(value, int | float):
            return
        self._seen[agent] = self._seen.get(agent, 0) + 1
        if self._seen[agent] % self._every == 0:
            self.returns.setdefault(agent, []).append(float(value))
        if len(self.returns.get(agent, ())) > _RETURNS:
            self._every *= 2
            self.returns = {name: kept[1::2] for name, kept in self.returns.items()}

    @property
    def episodes(self) -> int:
        """Return how many of the phase's own episodes have ended."""
        return sum(number for (_, mode), number in self._next.items() if mode is None)

    @property
    def steps(self) -> int:
        """Return the number of steps seen, including those of evaluations."""
        return self._taken + sum(self._open.values())

    @property
    def part(self) -> float:
        """Return the number of ended episodes plus the estimated fraction of the open ones."""
        mean = self._taken / self._ended if self._ended else 0.0
        begun = sum(steps for (_, mode), steps in self._open.items() if mode is None)
        return self.episodes + (min(begun / mean, len(self._open)) if mean else 0.0)

    @property
    def steps_per_s(self) -> float | None:
        """Return the steps per second of the newest samples, None without samples."""
        if len(self._samples) < 2:
            return None
        (begin_s, begin), (end_s, end) = self._samples[0], self._samples[-1]
        return (end - begin) / (end_s - begin_s) if end_s > begin_s else None

    def left_s(self, now_s: float) -> float | None:
        """Return the estimated remaining seconds of the phase; None where that is not known."""
        if self.limit is None or self.ended_s is not None or self.paused:
            return None
        left, speed = max(0.0, self.limit - self.part), self.steps_per_s
        if self._taken and self._ended and speed:
            return left * self._taken / self._ended / speed
        done, passed_s = self.part - (self._first or 0.0), now_s - self.began_s
        return left * passed_s / done if self._ended and done > 0 and passed_s > 0 else None

    def row(self, now_s: float) -> dict[str, Any]:
        """Return the pace as plain values."""
        speed, left_s = self.steps_per_s, self.left_s(now_s)
        return {
            "name": self.name,
            "episodes": self.episodes,
            "limit": self.limit,
            "steps": self.steps,
            "steps_per_s": None if speed is None else round(speed, 2),
            "left_s": None if left_s is None else round(left_s, 1),
            "returns": {agent: thinned(kept, _TOLD) for agent, kept in self.returns.items()},
        }
