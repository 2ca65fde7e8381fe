"""Calls: a link that notes which calls pass it, for tracers; what passes is not changed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgpack

OPEN_MAX = 4_096
"""The most calls that are open in each direction; the oldest is forgotten where there are more."""

_CALL, _REPLY, _ERROR = 3, 4, 5  # the verb is the head's second byte: PROTOCOL.md, "Heads"


class Link(Protocol):
    """What a process sends and receives by."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return one message, or None after a while."""

    def close(self) -> None:
        """Close it."""


Connect = Callable[[], Link]


@dataclass(slots=True)
class Passed:
    """Name one call: caller, callee, what for, when; `position` is (phase, worker, episode, attempt, step, leg)."""

    caller: str
    callee: str
    serial: int
    call: str
    position: tuple[int, ...] | None
    begun_ns: int
    under: Passed | None = None


class Notes(Protocol):
    """What is done about calls."""

    def asked(self, call: Passed) -> None:
        """Record that this process asks."""

    def answered(self, call: Passed, failed: bool) -> None:
        """Record the answer to that."""

    def began(self, call: Passed) -> None:
        """Record that this process is asked."""

    def ended(self, call: Passed, failed: bool) -> None:
        """Record that it has answered."""

    def close(self) -> None:
        """Let go of everything."""


class NotingLink:
    """Pass messages on, and note the calls among them. A repeat of a call that is open is the same call."""

    def __init__(self, inner: Link, name: str, notes: Notes) -> None:
        self._inner, self._name, self._notes = inner, name, notes
        self._out: dict[int, Passed] = {}
        self._in: dict[tuple[str, int], Passed] = {}

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""
        verb = frames[1][1]
        if verb in (_CALL, _REPLY, _ERROR):
            self._note(self._sent, verb, frames)
        self._inner.send(frames)

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return one message, or None after a while."""
        frames = self._inner.receive(timeout_s)
        if frames is not None and len(frames) > 1 and len(frames[1]) > 1:
            verb = frames[1][1]
            if verb in (_CALL, _REPLY, _ERROR):
                self._note(self._received, verb, frames)
        return frames

    def close(self) -> None:
        """Close it."""
        self._inner.close()
        self._notes.close()

    def _note(self, take: Callable[[int, str, list[Any]], None], verb: int, frames: Sequence[bytes]) -> None:
        """Record a message; whatever is wrong with a record, the message is not held up."""
        try:
            take(verb, bytes(frames[0]).decode(), msgpack.unpackb(frames[1]))
        except Exception as error:  # noqa: BLE001 - a tracer is no reason to end a run
            sys.stderr.write(f"{self._name}: a call was not noted: {type(error).__name__}: {error}\n")

    def _sent(self, verb: int, peer: str, head: list[Any]) -> None:
        if verb == _CALL:
            if head[1] not in self._out:
                doing = next(reversed(self._in.values()), None)
                self._out[head[1]] = call = self._passed(self._name, peer, head, doing)
                _bound(self._out)
                self._notes.asked(call)
            return
        ended = self._in.pop((peer, head[1]), None)
        if ended is not None:
            self._notes.ended(ended, verb == _ERROR)

    def _received(self, verb: int, peer: str, head: list[Any]) -> None:
        if verb == _CALL:
            if (peer, head[1]) not in self._in:
                self._in[peer, head[1]] = call = self._passed(peer, self._name, head, None)
                _bound(self._in)
                self._notes.began(call)
            return
        answered = self._out.pop(head[1], None)
        if answered is not None:
            self._notes.answered(answered, verb == _ERROR)

    @staticmethod
    def _passed(caller: str, callee: str, head: list[Any], under: Passed | None) -> Passed:
        position = tuple(head[3]) if len(head) > 3 and head[3] is not None else None
        call = str(head[2]) if len(head) > 2 else ""
        return Passed(caller, callee or "kernel", int(head[1]), call, position, time.time_ns(), under)


def _bound(found: dict[Any, Passed]) -> None:
    if len(found) > OPEN_MAX:
        del found[next(iter(found))]


def noting(connect: Connect, name: str, notes: Notes) -> Connect:
    """Return a way to connect by which calls are noted."""
    return lambda: NotingLink(connect(), name, notes)


def role_of(peer: str) -> str:
    """Return the role in the name of a peer: `demo-1/muscle/scout/0` is a muscle."""
    parts = peer.split("/")
    return parts[1] if len(parts) > 1 else parts[0]
