"""Waits: each has a name, an owner and a deadline, and is told of at 2, 4, 8 ... seconds."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ganglion.limits import WAIT_REPORT_S
from ganglion.run.plan import Process

__all__ = ["Waits", "join_text"]

_LONGEST_S = 60.0


@dataclass(slots=True)
class _Wait:
    peer: str
    text: str
    since_s: float
    span_s: float | None
    next_s: float


class Waits:
    """Keep what is waited for, and say when it is time to tell, or too late."""

    def __init__(self) -> None:
        self._waits: dict[Hashable, _Wait] = {}

    def begin(self, key: Hashable, peer: str, text: str, now_s: float, span_s: float | None) -> None:
        """Begin to wait; `text` says for whom and for what, `span_s` None has its deadline elsewhere or none."""
        self._waits[key] = _Wait(peer, text, now_s, span_s, now_s + WAIT_REPORT_S)

    def came(self, key: Hashable) -> None:
        """End a wait."""
        self._waits.pop(key, None)

    def clear(self) -> None:
        """End all waits."""
        self._waits.clear()

    def due(self, now_s: float) -> list[str]:
        """Return the sentences that are to be told now; each comes again after twice the time."""
        texts = []
        for wait in self._waits.values():
            if now_s >= wait.next_s:
                waited_s = now_s - wait.since_s
                wait.next_s = now_s + min(max(waited_s, WAIT_REPORT_S), _LONGEST_S)
                left = "" if wait.span_s is None else f"; gives up in {wait.span_s - waited_s:.1f} s"
                texts.append(f"waiting {waited_s:.1f} s for {wait.text}{left}")
        return texts

    def late(self, now_s: float) -> tuple[str, str] | None:
        """Return the peer and the sentence of a wait whose deadline has passed, or None."""
        for wait in self._waits.values():
            if wait.span_s is not None and now_s - wait.since_s >= wait.span_s:
                return wait.peer, f"waited {now_s - wait.since_s:.1f} s for {wait.text}"
        return None


def join_text(process: Process) -> str:
    """Return for what is waited until a process is there."""
    if process.attached:
        return f"{process.label} to attach: start it with GANGLION_NAME={process.uid} or ganglion attach"
    return f"{process.label} to join"
