"""Thoughts: what has come of a round of a brain, the updates that it handed out, and what it says of evaluations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ganglion.errors import AuthorError
from ganglion.peer.conversation import Request
from ganglion.sdk.brain import EvaluationResult
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import BrainEvaluated, Think, UpdateAsked


@dataclass(slots=True)
class Round:
    """What has come of one round: worker -> its request and message."""

    awaited: tuple[int, ...]
    rows: dict[int, tuple[Request, Think | UpdateAsked]] = field(default_factory=dict)


@dataclass(slots=True)
class Newest:
    """An update as it travels; `version` counts the updates of the phase."""

    version: int
    data: Any
    blobs: list[bytes]


def evaluated(found: Any) -> BrainEvaluated:
    """Return what `evaluate` gave as it travels: finite numbers by name."""
    result = found if isinstance(found, EvaluationResult) else EvaluationResult(found or {})
    if not isinstance(result.metrics, Mapping):
        raise AuthorError(f"metrics: expected a map name -> number, found {type(result.metrics).__name__}")
    metrics: dict[str, Any] = {}
    for name, value in result.metrics.items():
        if not isinstance(name, str):
            raise AuthorError(f"metrics: the names are texts, found {name!r}")
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise AuthorError(f"metrics.{name}: expected a number, found {value!r:.80}") from error
        if not math.isfinite(number):
            raise AuthorError(f"metrics.{name}: expected a finite number, found {number}")
        metrics[name] = number
    return BrainEvaluated(metrics, result.checkpoint_id, result.checkpoint_hash)


def signal_of(signal: Signal, reason: str) -> dict[str, Any]:
    """Return a brain's wish as it travels; AuthorError if it may not wish for that."""
    if signal.effect.scope == "run":
        raise AuthorError(f"a brain may signal up to STOP_PHASE, found {signal.name}")
    return {"signal": signal.name, "reason": reason}
