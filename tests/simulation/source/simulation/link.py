"""Links of the simulation: what is sent waits on a wire until the schedule delivers it to the real broker."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ganglion.broker.link import Link
from ganglion.errors import PeerLost
from ganglion.transport.memory import MemoryBus, MemorySink
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.verb import Verb

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.schedule import Schedule

Delay = Callable[[random.Random, str], float]
"""Return how many seconds the next message of a peer is on its way; it never overtakes those before it."""

_HERE = [b"", encode_head(Head(Verb.BEAT, 0, "here")), b""]


class Arrivals(MemorySink):
    """Be the inbox of one connection, whose process runs when something arrives."""

    def __init__(self, link: Link, wire: Wire) -> None:
        super().__init__(link)
        self._wire = wire

    def send(self, frames: Sequence[bytes]) -> None:
        """Take one message; what the broker says to a connection that was cut reaches nobody."""
        if self.ended:
            return
        super().send(frames)
        self._wire.arrived()

    def finish(self, reason: str) -> None:
        super().finish(reason)
        self._wire.arrived()


class Wire:
    """Be one connection of a process, and the wire behind it.

    Messages of one wire keep their order, those of different wires do not: which is delivered next is drawn.
    """

    def __init__(
        self,
        bus: MemoryBus,
        schedule: Schedule,
        process: Process,
        delay: Delay | None,
        asleep_s: Callable[[], float] = lambda: 0.0,
        delivered: Callable[[Process, Sequence[bytes]], None] = lambda process, frames: None,
    ) -> None:
        self.queued = False
        self.wake_s = float("inf")
        self.delivered = 0
        self._schedule, self._process, self._delay = schedule, process, delay
        self._asleep_s = asleep_s  # until when nobody reads at the other end
        self._delivered = delivered
        self._orphan = False  # its broker has ended
        self.bus, self._memory = bus, bus.connect()
        link = self._memory._link
        self._inbox = self._memory._sink = link.sink = Arrivals(link, self)
        # When each message arrives, at the earliest; None instead of frames is the end of the connection.
        self._waiting: deque[tuple[float, list[bytes] | None]] = deque()

    # -- for the participant ------------------------------------------------------------------------------------------
    def send(self, frames: Sequence[bytes]) -> None:
        """Put one message on the wire; PeerLost when the connection has ended."""
        self._process.step()
        if self._inbox.ended:
            raise PeerLost("broker", self._inbox.ended)
        if self._process.lives:
            self._put([bytes(frame) for frame in frames])
        self._process.step()

    def receive(self, timeout_s: float | None = None) -> list[bytes] | None:
        """Return the next message, None after `timeout_s`; let others run meanwhile."""
        inbox = self._inbox
        if not inbox.inbox:
            if inbox.ended:
                raise PeerLost("broker", inbox.ended)
            self._process.wait(timeout_s)
        if inbox.inbox:
            return inbox.pop()
        if inbox.ended:
            raise PeerLost("broker", inbox.ended)
        return None

    def close(self, linger_s: float = 0.5) -> None:
        self._put(None)

    # -- for the schedule ---------------------------------------------------------------------------------------------
    def act(self) -> None:
        if not self._waiting:
            return  # it was cut
        if self._asleep_s() > self._schedule.now_s:
            self._schedule.sleep(self, self._asleep_s())
            return
        _, frames = self._waiting.popleft()
        if frames is None:
            self._disconnect()
            self._waiting.clear()
            return
        self.delivered += 1
        if not self._inbox.ended:
            self._memory.send(frames)
            self._delivered(self._process, frames)
        if self._waiting:
            self._next()

    # -- for disturbances ---------------------------------------------------------------------------------------------
    @property
    def ended(self) -> bool:
        """Say whether the connection has ended, as far as its process can see."""
        return bool(self._inbox.ended)

    @property
    def link(self) -> Link:
        """Return what the broker knows it by."""
        return self._memory._link

    def end(self) -> None:
        """End the connection of a process that is killed: some of what it has sent still arrives."""
        if self._waiting:
            kept = self._schedule.random.randint(0, len(self._waiting))
            self._waiting = deque(list(self._waiting)[:kept])
        self._put(None)

    def cut(self, half: bool, all_of_it: bool = False) -> None:
        """End the connection; what is on its way is lost, and some, or `all_of_it`, of what has come.

        If only `half` of the connection has ended the broker does not notice.
        """
        self._waiting.clear()
        self._schedule.forget(self)
        kept = 0 if all_of_it else self._schedule.random.randint(0, len(self._inbox.inbox))
        while len(self._inbox.inbox) > kept:
            self._inbox.inbox.pop()
        self._inbox.finish("it was cut")
        if not half:
            self._put(None)

    def orphan(self) -> None:
        """Lose the broker: what was sent to it is lost, what it has sent can still be read."""
        self._waiting.clear()
        self._schedule.forget(self)
        self._orphan = True
        self._inbox.finish("the broker has ended")

    def arrived(self) -> None:
        """Let the process run: something has come."""
        if self._process.hung:
            self._answer_beats()
        if self._process.waiting:
            self._schedule.ready(self._process)

    def look_aside(self) -> None:
        """Let the pulse look at what has come before its process hung."""
        if not self._inbox.ended:
            self._answer_beats()

    # -- inside -------------------------------------------------------------------------------------------------------
    def _disconnect(self) -> None:
        """Let the broker see the end of the connection."""
        if not self._orphan:
            exchange = self.bus.exchange
            reason = "it closed the connection"
            exchange.perform(exchange.broker.disconnect(self._memory._link, reason, self._schedule.now_s))
            exchange.flush()
            self._inbox.finish(reason)

    def _answer_beats(self) -> None:
        """Do what the pulse of a process does while a hook runs."""
        for frames in [frames for frames in self._inbox.inbox if decode_head(frames[1]).verb is Verb.BEAT]:
            self._inbox.inbox.remove(frames)
            self._put(_HERE)

    def _put(self, frames: list[bytes] | None) -> None:
        due_s = self._waiting[-1][0] if self._waiting else 0.0
        if self._delay is not None and frames is not None:
            delay_s = self._delay(self._schedule.random, self._process.name)
            due_s = max(due_s, self._schedule.now_s + delay_s)
        self._waiting.append((due_s, frames))
        if len(self._waiting) == 1:
            self._next()

    def _next(self) -> None:
        due_s = self._waiting[0][0]
        if due_s > self._schedule.now_s:
            self._schedule.sleep(self, due_s)
        else:
            self._schedule.ready(self)
