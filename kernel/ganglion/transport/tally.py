"""Count the notes that anybody can cause; one of each kind a second goes through to the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ganglion.broker.effect import Note

__all__ = ["Tally"]

_SPAN_S = 1.0
_COUNTED = frozenset(
    {
        "connection.broken",
        "connection.failed",
        "listener.resting",
        "message.forbidden",
        "message.undeliverable",
        "peer.refused",
    }
)


@dataclass(slots=True)
class _Held:
    since_s: float
    count: int = 0
    last: Note | None = None


class Tally:
    """Hand notes on; of those that anybody can cause as often as he likes, one a second.

    The first of its kind passes at once, the others of the next second are counted: `tick` then says the last of them
    with the `count`. Of one kind are notes of one event, about one peer; all strangers together are one.
    """

    def __init__(self, note: Callable[[Note], None], clock: Callable[[], float]) -> None:
        self._note = note
        self._clock = clock
        self._held: dict[tuple[str, str, str], _Held] = {}

    def __call__(self, note: Note) -> None:
        """Hand a note on, or count it."""
        if note.event not in _COUNTED:
            self._note(note)
            return
        key = _kind(note)
        held = self._held.get(key)
        if held is None:
            self._held[key] = _Held(self._clock())
            self._note(note)
        else:
            held.count += 1
            held.last = note

    def tick(self, now_s: float) -> None:
        """Say what was counted for a second."""
        for key, held in list(self._held.items()):
            if now_s - held.since_s < _SPAN_S:
                continue
            if held.last is None:
                del self._held[key]
                continue
            said, count = held.last, held.count
            self._held[key] = _Held(now_s)
            self._note(Note(said.level, said.event, {**said.fields, "count": count}))


def _kind(note: Note) -> tuple[str, str, str]:
    name = str(note.fields.get("name", note.fields.get("source", "")))
    return note.event, str(note.fields.get("kind", "")), "" if name.startswith("stranger ") else name
