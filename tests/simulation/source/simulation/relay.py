"""Relays of the simulation: the real core between the broker and the processes of a node; each uplink is two wires."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ganglion.broker.link import Link, Note
from ganglion.broker.relay import Relay
from ganglion.transport.exchange import Exchange
from ganglion.transport.memory import MemoryBus, MemorySink, never_later

if TYPE_CHECKING:
    from simulation.bus import Simulation

KEY = "own"
"""Stands for the key by which processes of a node may come from there."""


class _Lane(MemorySink):
    """Be one direction of an uplink: what is put on it arrives in order, when the schedule draws it."""

    def __init__(self, link: Link, simulation: Simulation, deliver: Callable[[Sequence[bytes] | None], None]) -> None:
        super().__init__(link)
        self.queued, self.wake_s = False, float("inf")
        self._simulation, self._deliver = simulation, deliver
        self._waiting: deque[Sequence[bytes] | None] = deque()

    def send(self, frames: Sequence[bytes]) -> None:
        self._put(frames)

    def finish(self, reason: str) -> None:
        if not self.ended:
            self.ended = reason
            self._put(None)

    def drop(self) -> None:
        self._waiting.clear()
        self.ended = self.ended or "it was lost"
        self._simulation.schedule.forget(self)

    def act(self) -> None:
        if self._waiting:
            frames = self._waiting.popleft()
            self._deliver(frames)
            if self._waiting:
                self._simulation.schedule.ready(self)

    def _put(self, frames: Sequence[bytes] | None) -> None:
        self._waiting.append(frames)
        self._simulation.schedule.ready(self)


class _Uplink:
    """Join one connection of a relay to the broker."""

    def __init__(self, node: Node, up: Link) -> None:
        simulation = node.simulation
        self.up, self.node, self.top = up, node, simulation.bus.exchange
        self.link, effects = self.top.broker.connect(simulation.schedule.now_s)
        self.link.curve_key = node.key
        up.sink = self.rising = _Lane(up, simulation, self._rise)
        self.link.sink = self.falling = _Lane(self.link, simulation, self._fall)
        self.top.perform(effects)

    def lose(self) -> None:
        """Lose the broker, and all that is on its way."""
        self.rising.drop()
        self.falling.drop()
        self._fall(None)

    def _rise(self, frames: Sequence[bytes] | None) -> None:
        now_s = self.node.simulation.schedule.now_s
        if frames is None:
            self.top.perform(self.top.broker.disconnect(self.link, "its connection ended", now_s))
        else:
            self.node.crossed += 1
            self.top.perform(self.top.broker.receive(self.link, frames, now_s))
        self.top.flush()

    def _fall(self, frames: Sequence[bytes] | None) -> None:
        exchange, now_s = self.node.exchange, self.node.simulation.schedule.now_s
        relay = exchange.broker
        assert isinstance(relay, Relay)
        if frames is None:
            exchange.perform(relay.fall(self.up, "the kernel's broker is gone", now_s))
        else:
            self.node.crossed += 1
            exchange.perform(relay.descend(self.up, frames, now_s))
        exchange.flush()


class Node(MemoryBus):
    """Be a node with a relay; `crossed` is how many messages have travelled between it and the broker."""

    def __init__(self, simulation: Simulation, number: int, note: Callable[[Note], None]) -> None:
        super().__init__()
        self.simulation, self.number, self.key = simulation, number, f"relay {number}"
        self.lost, self.crossed = False, 0
        self._uplinks: list[_Uplink] = []
        clock = simulation.schedule.clock
        self.exchange = Exchange(Relay("memory", 0, clock()), note, clock, never_later)
        self.exchange.climb = self._climb

    def tick(self) -> None:
        """Let the relay look at its clocks."""
        self.now_s = self.simulation.schedule.now_s
        self.exchange.tick()

    def lose_broker(self) -> None:
        uplinks, self._uplinks = self._uplinks, []
        for uplink in uplinks:
            uplink.lose()

    def end(self) -> None:
        """Lose the relay itself: nobody reads any more what is on its way."""
        self.lost = True
        for uplink in self._uplinks:
            uplink.rising.drop()
            uplink.falling.drop()
            uplink._rise(None)

    def _climb(self, up: Link) -> None:
        if self.simulation.brokerless:
            self.exchange.perform(self.exchange.broker.fall(up, "nobody listens", self.now_s))  # type: ignore[attr-defined]
        else:
            self._uplinks = [one for one in self._uplinks if not (one.rising.ended and one.falling.ended)]
            self._uplinks.append(_Uplink(self, up))
