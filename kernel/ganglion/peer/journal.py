"""Journals: what an environment was told since its object was made, so that a successor can be told it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ganglion.wire.messages import EnvironmentReset, EnvironmentUpdate


@dataclass(frozen=True, slots=True)
class Told:
    """One step: what the environment was given, and what stands for its answer."""

    update: EnvironmentUpdate
    answer: bytes


@dataclass(slots=True)
class Journal:
    """Keep the open episode of one environment.

    `start` is the message with which its object was made, in episode `made`; `reset` the one that opened the open
    episode, with the state of its generators before that; None if the start opened it.
    """

    start: Any
    made: int
    started: bytes
    reset: EnvironmentReset | None = None
    opened: bytes = b""
    steps: list[Told] = field(default_factory=list)
    losses: dict[int, int] = field(default_factory=dict)  # step -> how often it was lost there

    def began(self, reset: EnvironmentReset, answer: bytes) -> None:
        """Begin the next episode; what was before is not needed any more."""
        self.reset, self.opened = reset, answer
        self.steps, self.losses = [], {}
