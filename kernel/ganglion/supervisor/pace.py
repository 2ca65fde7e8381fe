"""Pace: how far a phase is, how fast it goes, and how long it may still take; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ganglion.supervisor import event

_SPAN_S = 30.0  # over which the steps per second are taken
_SAMPLES = 1000  # of these, at most
_RETURNS = 1000  # of each agent; of more every second one stays, and after that of those that come
_TOLD = 60  # means of them, of each agent, in a row


def thinned(values: Sequence[float], width: int) -> list[float]:
    """Return at most `width` means of neighbouring numbers."""
    count = min(width, len(values))
    cells = [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]
    return [sum(cell) / len(cell) for cell in cells]


@dataclass(slots=True)
class Pace:
    """Take in the events of a phase, with times of any clock that goes on evenly.

    An episode has its number: a phase that goes on after a resume has those that were there before. `limit` is how many
    there will be over all workers, None where a condition ends them; `returns` are those of the phase's own episodes.
    """

    name: str
    limit: int | None
    began_s: float
    tick: int | None = None  # with bodies: the newest of which a worker has told
    paused: tuple[int, ...] = ()
    returns: dict[str, list[float]] = field(default_factory=dict)
    ended_s: float | None = None
    _next: dict[Any, int] = field(default_factory=dict)  # worker -> number of the episode that it is in
    _open: dict[Any, int] = field(default_factory=dict)  # worker -> steps of the episode that it is in
    _ended: int = 0  # episodes seen, and the steps in them
    _taken: int = 0
    _first: float | None = None  # episodes that were there before
    _samples: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    _every: int = 1  # of so many returns one is kept
    _seen: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Mapping[str, Any], now_s: float) -> Pace:
        """Return the pace of a phase by the fields of `phase.started`."""
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
            elif episode >= self._next.get(worker, 0):  # else its end came before
                self._next[worker], self._open[worker] = episode, int(fields.get("steps", 0))
        elif what == event.EPISODE_ENDED:
            if "episodes" in fields:  # with bodies: the newest of some environment, and for how many it stands
                self._next[worker] = self._next.get(worker, 0) + int(fields["episodes"])
            else:
                self._taken += int(fields.get("steps", 0))
                self._open.pop(worker, None)
                self._next[worker] = int(fields.get("episode", self._next.get(worker, 0))) + 1
            if fields.get("mode") is None:  # else of an evaluation: none of the phase's own
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
        """Return how many steps were seen, those of evaluations too."""
        return self._taken + sum(self._open.values())

    @property
    def part(self) -> float:
        """Return the episodes that have ended and what is done of the open ones."""
        mean = self._taken / self._ended if self._ended else 0.0
        begun = sum(steps for (_, mode), steps in self._open.items() if mode is None)
        return self.episodes + (min(begun / mean, len(self._open)) if mean else 0.0)

    @property
    def steps_per_s(self) -> float | None:
        """Return the speed of the newest seconds, None before there is one."""
        if len(self._samples) < 2:
            return None
        (begin_s, begin), (end_s, end) = self._samples[0], self._samples[-1]
        return (end - begin) / (end_s - begin_s) if end_s > begin_s else None

    def left_s(self, now_s: float) -> float | None:
        """Return how many seconds the phase may still take; None where that is not known."""
        if self.limit is None or self.ended_s is not None or self.paused:
            return None
        left, speed = max(0.0, self.limit - self.part), self.steps_per_s
        if self._taken and self._ended and speed:
            return left * self._taken / self._ended / speed
        done, passed_s = self.part - (self._first or 0.0), now_s - self.began_s
        return left * passed_s / done if self._ended and done > 0 and passed_s > 0 else None

    def row(self, now_s: float) -> dict[str, Any]:
        """Return how far it is as plain values."""
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
