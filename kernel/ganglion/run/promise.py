"""Promises: who is told when workers stand, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ganglion.limits import PAUSE_ANSWER_S
from ganglion.run.effect import Answer, Effect
from ganglion.wire.messages import Signalled

__all__ = ["Promises", "Stand"]

Stand = Mapping[int, "tuple[int, int] | None"]
"""Worker -> episode and step where it stands, None while it moves."""


@dataclass(frozen=True, slots=True)
class _Promise:
    token: Any
    worker: int | None  # None: all of them
    until_s: float


class Promises:
    """Keep the signals whose answer is where the workers stand."""

    def __init__(self) -> None:
        self._open: list[_Promise] = []

    def give(self, token: Any, worker: int | None, now_s: float) -> None:
        """Promise an answer when this worker stands, or all do."""
        self._open.append(_Promise(token, worker, now_s + PAUSE_ANSWER_S))

    def keep(self, workers: Stand, kind: str, now_s: float) -> list[Effect]:
        """Answer those whose workers stand, and those who have waited long enough; `kind` is what a worker is called.

        Without workers there is nobody left who could stand.
        """
        done: list[Effect] = []
        for promise in list(self._open):
            meant = {w: at for w, at in workers.items() if promise.worker in (None, w)}
            if all(at is not None for at in meant.values()) or now_s >= promise.until_s:
                self._open.remove(promise)
                lines = [_line(kind, worker, at) for worker, at in sorted(meant.items())]
                text = "\n".join(lines) if lines else "no worker runs any more"
                done.append(Answer(promise.token, Signalled(bool(lines), text)))
        return done


def _line(kind: str, worker: int, at: tuple[int, int] | None) -> str:
    if at is None:
        return f"{kind} {worker} has not reached its next step boundary within {PAUSE_ANSWER_S:g} s"
    return f"{kind} {worker} is paused after step {at[1]} of episode {at[0]}"
