"""Excused: the rows that tell of exceptions of authors which the document excuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ganglion.run.effect import Effect, Record
from ganglion.wire.messages import BrainPretrained, BrainStored

__all__ = ["record_of", "records"]


def record_of(
    excuse: Mapping[str, Any],
    phase: int,
    place: Sequence[int | None],
    moment: Sequence[int],
    mode: str | None = None,
) -> list[Any]:
    """Return the row of `signals` that tells of an excuse.

    Args:
        excuse: As it travels: {issuer, hook, reason}.
        phase: Its index.
        place: Worker, episode and step; None where it concerns no one of them.
        moment: Round, and steps of the evaluation within it.
        mode: If it is not the phase's own.
    """
    data = {"hook": str(excuse.get("hook", ""))} | ({} if mode is None else {"mode": mode})
    issuer, reason = str(excuse.get("issuer", "")), str(excuse.get("reason", ""))
    return ["signal", phase, *place, "CONTINUE", issuer, reason, data, *moment]


def records(replies: Iterable[BrainPretrained | BrainStored], phase: int, position: int) -> list[Effect]:
    """Return the records of excuses that concern no worker: of brains, before or behind their episodes."""
    place, moment = (None, None, None), (position, 0)
    excuses = (excuse for reply in replies for excuse in reply.excused or ())
    return [Record(record_of(excuse, phase, place, moment)) for excuse in excuses]
