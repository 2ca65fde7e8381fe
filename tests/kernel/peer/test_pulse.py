from __future__ import annotations

import threading
from typing import Any

import pytest

from ganglion.limits import BEAT_AFTER_SILENCE_S
from ganglion.peer.participant import Participant
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Leave
from ganglion.wire.envelope import Head
from ganglion.wire.messages import Done, Hello, MuscleReset, Nothing
from ganglion.wire.verb import Verb

A = "r/muscle/a/0"


class FakeWire:
    """Be a link that a test fills from another thread; time is real."""

    def __init__(self) -> None:
        self.change = threading.Condition()
        self.inbox: list[list[bytes]] = []
        self.sent: list[Any] = []

    def send(self, frames: Any) -> None:
        """Take a message."""
        with self.change:
            self.sent.append(list(frames))
            self.change.notify_all()

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return a message that has come."""
        with self.change:
            self.change.wait_for(lambda: bool(self.inbox), timeout_s)
            return self.inbox.pop(0) if self.inbox else None

    def close(self) -> None:
        """Do nothing."""


def wire_with(link: Any) -> FakeWire:
    """Return a wire that already holds what was delivered to the fake link, after a WELCOME."""
    wire = FakeWire()
    link.send([b"", b"\x92\x01\x01", codec_of(Hello).encode(Hello(1, "muscle", "a"))])
    wire.inbox = list(link.inbox)
    return wire


def test_who_works_longer_than_patience_allows_is_ended(link: Any) -> None:
    """A hook that never returns is ended by the pulse; one that hears something now and then is not."""
    hung = threading.Event()

    def endless(*_: Any) -> Done:
        if not hung.wait(10.0):
            raise AssertionError("nobody ended it")
        return Done()

    wire = wire_with(link)
    made = Participant(lambda: wire, {"muscle.reset": endless})  # type: ignore[arg-type]
    made.hang = hung.set
    made.patience_s = 0.3
    made.join(made.hello("muscle", "a", "?"))
    link.inbox.clear()
    link.request("r/controller/0", "muscle.reset", MuscleReset(1), 77)

    def tick() -> None:
        if hung.is_set():
            made.leaving = Leave("seen")
            return
        for _ in range(12):  # together more than is allowed, each less
            made.pump(0.1)
        assert not hung.is_set()
        wire.inbox += list(link.inbox)

    made.serve(tick, idle_s=0.05)
    made.leave()


@pytest.mark.parametrize("where", ["handler", "tick"])
def test_the_pulse_answers_beats_while_a_hook_runs_long(link: Any, where: str) -> None:
    """A hook that runs for long keeps nobody from hearing that the process is alive; requests wait for its end."""
    link.deliver("", Head(Verb.BEAT))
    beaten = threading.Event()
    order: list[str] = []
    wire: FakeWire

    def long_hook(*_: Any) -> Done:
        if beaten.is_set():
            return Done()
        link.inbox.clear()
        link.deliver("", Head(Verb.BEAT))
        link.request("r/controller/0", "muscle.shutdown", Nothing(), 78)
        with wire.change:
            wire.inbox += list(link.inbox)
            sent = len(wire.sent)
            wire.change.notify_all()
            if not wire.change.wait_for(lambda: len(wire.sent) > sent, 5.0):
                order.append("nobody answered")
        order.append("long hook")
        beaten.set()
        return Done()

    def shut(request: Any, message: Any) -> Done:
        order.append("shutdown")
        return Done()

    link.inbox.clear()
    wire = wire_with(link)
    handlers = {"muscle.reset": long_hook, "muscle.shutdown": shut}
    made = Participant(lambda: wire, handlers)  # type: ignore[arg-type]
    made.join(made.hello("muscle", "a", "?"))
    link.inbox.clear()
    if where == "handler":
        link.request("r/controller/0", "muscle.reset", MuscleReset(1), 77)
    else:
        link.deliver("", Head(Verb.BEAT, 0, "here"))
    wire.inbox += list(link.inbox)

    def tick() -> None:
        if where == "tick":
            long_hook()
        if "shutdown" in order:
            made.leaving = Leave("seen")

    made.serve(tick, BEAT_AFTER_SILENCE_S)
    made._closed.set()

    assert ["long hook", "shutdown"] == order
