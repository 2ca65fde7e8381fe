"""Orders of operators: why one is refused, and the row that tells of it."""

from __future__ import annotations

from collections.abc import Sequence

from ganglion.run.effect import Record
from ganglion.run.plan import PhasePlan
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import FlowSignal

__all__ = ["order_record", "refusal"]


def refusal(wish: FlowSignal, wanted: str | None, phase: PhasePlan | None, workers: Sequence[int]) -> str:
    """Return why an order cannot be carried out, empty if it can.

    `wanted` is the name or index of the phase that it is meant for, None for whichever. `phase` is the one that is
    running, None if there is none, with those of its `workers` that still run.
    """
    if wish.signal not in Signal.__members__:
        return f"unknown signal {wish.signal!r}; there are {', '.join(Signal.__members__)}"
    if phase is None:
        return "no phase is running"
    if wanted is not None and wanted not in (phase.name, str(phase.index)):
        return f"the running phase is {phase.index} ({phase.name})"
    if wish.worker is not None and wish.worker not in workers:
        return f"no worker {wish.worker} is running; there are {workers}"
    if wish.steps is not None and (wish.steps < 1 or wish.signal != Signal.CONTINUE.name):
        return f"steps: expected CONTINUE for at least one, found {wish.signal} for {wish.steps}"
    return ""


def order_record(wish: FlowSignal, reason: str, phase: int, position: int = 0, inner: int = 0) -> Record:
    """Return the row of an order: `position` is the round, `inner` the moment of the evaluation that it came in."""
    row = ["signal", phase, wish.worker, None, None, wish.signal, wish.issuer, reason]
    return Record([*row, wish.data, position, inner], order=True)
