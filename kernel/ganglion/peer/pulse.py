"""Pulse: a thread that reads the link while a hook runs for long, so that BEAT is answered."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable, Sequence
from threading import Event
from typing import Protocol

from ganglion.errors import RemoteProtocolError
from ganglion.limits import BEAT_AFTER_SILENCE_S
from ganglion.wire.envelope import decode_head
from ganglion.wire.verb import Verb

_PULSE_S = BEAT_AFTER_SILENCE_S / 2


class Pulsed(Protocol):
    """What the pulse needs of a participant."""

    name: str
    patience_s: float | None
    hang: Callable[[], None]

    def clock(self) -> float:
        """Return monotonic seconds."""

    def works_since_s(self) -> float | None:
        """Return since when it has been working; None if it reads itself."""

    def read_aside(self) -> bool:
        """Read what is there, and keep it for later; says whether that can be done again."""


def pulse(participant: Pulsed, closed: Event) -> None:
    """Look again and again whether a participant works for long, until it is closed."""
    since_s, looks = None, 0
    while not closed.wait(_PULSE_S):
        busy_s = participant.works_since_s()
        # Looks are counted, since time passes for who is stopped, too.
        looks = looks + 1 if busy_s is not None and busy_s == since_s else 0
        since_s = busy_s
        patience_s = participant.patience_s
        if patience_s is not None and looks * _PULSE_S > patience_s:
            text = f"a hook has run for {patience_s:g} s without an end, its deadline: the process hangs and is ended"
            sys.stderr.write(f"{participant.name}: {text}\n")
            participant.hang()
        if busy_s is None or participant.clock() - busy_s < _PULSE_S:
            continue
        if not participant.read_aside():
            return


def abort() -> None:
    """Print the stacks of all threads, and end this process."""
    faulthandler.dump_traceback(all_threads=True)
    faulthandler.disable()  # its handler would read the stacks again, without the lock of the interpreter
    os.abort()


def asks_for_beat(frames: Sequence[bytes]) -> bool:
    """Say whether a message asks whether we are there; what is no message at all is read by who hears it."""
    try:
        head = decode_head(frames[1])
    except (IndexError, RemoteProtocolError):
        return False
    return head.verb is Verb.BEAT and not head.call
