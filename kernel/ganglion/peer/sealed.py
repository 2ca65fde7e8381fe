"""Sealed: which episode of each worker, and which evaluation of each agent, was told of last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Sealed:
    """Know how far the records have come that a store was told.

    What else is in its database was written behind them: a run that goes on from here takes it back.

    Attributes:
        episodes: (phase, mode, worker, environment or empty) -> number of the last that was sealed.
        evaluations: (phase, agent) -> number of the last.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        known = state or {"episodes": [], "evaluations": []}
        self.episodes: dict[tuple[int, str, int, str], int] = {
            (phase, mode, worker, environment): number for phase, mode, worker, environment, number in known["episodes"]
        }
        self.evaluations: dict[tuple[int, str], int] = {
            (phase, agent): number for phase, agent, number in known["evaluations"]
        }

    def hear(self, record: Sequence[Any]) -> None:
        """Take note of a record; what is no whole one is for the store to refuse."""
        kind = record[0] if record else None
        if kind == "episode" and len(record) > 5:
            _, phase, mode, worker, environment, number, *_ = record
            self.episodes[phase, mode, worker, environment or ""] = number
        elif kind == "evaluation" and len(record) > 3:
            _, phase, agent, number, *_ = record
            self.evaluations[phase, agent] = number

    def state(self, phase: int) -> dict[str, Any]:
        """Return what is known of the phases from this one on, as plain values; earlier ones are over."""
        return {
            "episodes": [[*key, number] for key, number in self.episodes.items() if key[0] >= phase],
            "evaluations": [[*key, number] for key, number in self.evaluations.items() if key[0] >= phase],
        }
