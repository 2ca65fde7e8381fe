"""Excuses: what authors' code raised where the document says `on_error: continue`, noted, logged and counted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ganglion.errors import AuthorError, GanglionError
from ganglion.peer.failure import failure_of
from ganglion.wire.messages import RunEvent
from ganglion.wire.name import topic

if TYPE_CHECKING:
    from ganglion.peer.participant import Participant

EXCUSED = "excused"
"""The event that a process tells of itself: how often it has excused anything."""
_REASON_CHARACTERS = 500


class Pardoned(Exception):
    """Say that a hook raised and was excused: there is no result."""


@dataclass(frozen=True, slots=True)
class Excuse:
    """One exception that was excused: whose it is, which hook raised it, what it says, and its traceback."""

    issuer: str
    hook: str
    reason: str
    where: str
    traceback: str | None

    def to_map(self) -> dict[str, Any]:
        """Return what travels to who keeps the tables."""
        return {"issuer": self.issuer, "hook": self.hook, "reason": self.reason}


def continues(plugin: Mapping[str, Any] | None) -> bool:
    """Say whether the document excuses exceptions of a plugin."""
    return plugin is not None and plugin.get("on_error") == "continue"


class Excuses:
    """Keep the excuses of one host until they are told; log each, and tell the supervisor how many there were."""

    def __init__(self, participant: Callable[[], Participant | None], run: str) -> None:
        self._participant, self._run = participant, run
        self._due: list[Excuse] = []
        self._count = 0

    def take(self, issuer: str, hook: str, error: AuthorError) -> None:
        """Excuse an exception; raise it again if it is none of its author's own."""
        cause = error.__cause__
        if isinstance(cause, GanglionError) and not isinstance(cause, AuthorError):
            raise error
        if isinstance(cause, SystemExit):  # which is no mistake in a step
            raise error
        failure = failure_of(error)
        reason = str(error) if cause is not None else f"{type(error).__name__}: {error}"
        excuse = Excuse(issuer, hook, reason[:_REASON_CHARACTERS], failure.where or "", failure.traceback)
        self._due.append(excuse)
        self._count += 1
        participant = self._participant()
        if participant is not None and not participant.playing:  # else a predecessor has said so
            self._say(participant, excuse)

    def _say(self, participant: Participant, excuse: Excuse) -> None:
        if participant.on_excuse is not None:
            participant.on_excuse(excuse)
        else:
            sys.stderr.write(f"{excuse.traceback or excuse.reason}\nexcused: {excuse.where}\n")
            sys.stderr.flush()
        news = RunEvent(EXCUSED, {"count": self._count}, time.time())
        participant.tell(topic(self._run, "events"), "event", news)

    def pop(self) -> list[dict[str, Any]] | None:
        """Return those that were not told yet, None if there are none."""
        due, self._due = self._due, []
        return [excuse.to_map() for excuse in due] or None
