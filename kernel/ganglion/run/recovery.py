"""Recovery: what the loss of a process means, how often it is made good, how long calls may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ganglion.limits import (
    CHECKPOINT_S,
    DEADLINE_OTHER_S,
    DEADLINES_S,
    LOSSES_AT_ONE_STEP,
    RESTARTS_PER_NAME,
    RESTARTS_WITHIN_S,
)

__all__ = ["FAIL", "ON_LOSS", "RECOVER", "RESTART", "Deadlines", "Recovery", "span_s", "widest"]

RECOVER, RESTART, FAIL = "recover", "restart", "fail"
ON_LOSS = RECOVER
"""What the loss of a process means where no document says it."""

Deadlines = Mapping[str, "float | None"]
"""Seconds by the last word of a call; None waits for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Hold what a document says about losses and deadlines, for a run, a phase, an environment or an agent.

    `on_loss` is `recover` (as if nothing had happened), `restart` (the open episode is lost, the next begins anew) or
    `fail`. A process is replaced `restarts_max` times within `restarts_within_s` seconds, and not again if it dies
    `restarts_poison` times at one place. `checkpoint_s` is the least time between two checkpoints of a run. `run_as`
    is the user under whose name a process runs; None: ours.
    """

    on_loss: str = ON_LOSS
    deterministic: bool = True
    restarts_max: int = RESTARTS_PER_NAME
    restarts_within_s: float = RESTARTS_WITHIN_S
    restarts_poison: int = LOSSES_AT_ONE_STEP
    checkpoint_s: float = CHECKPOINT_S
    deadlines_s: dict[str, float | None] = field(default_factory=dict)
    run_as: str | None = None


_INSIDE = {
    "muscle.setup": ("think",),
    "muscle.act": ("think",),
    "muscle.shutdown": ("leave",),
    "controller.setup": ("start",),
    "controller.start": ("setup", "think"),
    "controller.shutdown": ("shutdown", "record"),
}
"""What the callee waits for in turn: its own wait must end first, so that the error names who did not answer."""

_SLACK_S = 1.0


def span_s(call: str, deadlines_s: Deadlines) -> float | None:
    """Return how long a call may take: by its last word, and by what is waited for inside it; None waits for ever."""
    word = call.rpartition(".")[2]
    total_s = _one_s(word, deadlines_s)
    for inner in _INSIDE.get(call, ()):
        inner_s = _one_s(inner, deadlines_s)
        total_s = None if total_s is None or inner_s is None else total_s + inner_s + _SLACK_S
    return total_s


def widest(tables: Iterable[Deadlines]) -> dict[str, float | None]:
    """Return for each call the longest time that one of these tables allows: who waits for all, for the slowest."""
    given = list(tables)
    words = dict.fromkeys(word for table in given for word in table)
    found: dict[str, float | None] = {}
    for word in words:
        spans_s = [_one_s(word, table) for table in given]
        finite_s = [span for span in spans_s if span is not None]
        found[word] = max(finite_s) if len(finite_s) == len(spans_s) else None
    return found


def _one_s(word: str, deadlines_s: Deadlines) -> float | None:
    return deadlines_s[word] if word in deadlines_s else DEADLINES_S.get(word, DEADLINE_OTHER_S)
