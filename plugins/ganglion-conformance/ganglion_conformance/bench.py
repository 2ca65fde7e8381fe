"""What a case has to work with: sessions with the peer, opened as they are needed and closed behind it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from ganglion_conformance.case import Skip
from ganglion_conformance.drivers import Driver, Place
from ganglion_conformance.session import Session

NAME = "kit/{role}/{uid}/0"
TOKEN = "conformance-kit-" + "A" * 27  # 43 characters; nobody's secret
JOIN_S = 30.0  # as a run waits
DEADLINE_S = 10.0  # for an answer
STEPS = 10_000  # of the long run
LONG_S = 20.0  # which ends earlier for the slowest languages


@dataclass(frozen=True, slots=True)
class Order:
    """Say what is to be judged.

    `params` are those of the plugin or program, `steps` how many a long run has, `long_s` when it ends nevertheless,
    `deadline_s` how long an answer may take. `more` holds what only one role knows: see the cases of muscles.
    """

    role: str = "environment"
    uid: str = "peer"
    params: dict[str, Any] = field(default_factory=dict)
    plugin: str | None = None
    steps: int = STEPS
    long_s: float = LONG_S
    deadline_s: float = DEADLINE_S
    curve: bool = True
    attached: bool = False
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name under which the peer is to join: of one that attaches, the uid alone."""
        return self.uid if self.attached else NAME.format(role=self.role, uid=self.uid)


class Bench:
    """Give a case the sessions that it needs.

    `session` is shared by the cases, one after the other, until one of them has spoilt it. `fresh` is a session with a
    peer of its own, which ends with its case.
    """

    def __init__(self, driver: Driver, order: Order) -> None:
        self.driver = driver
        self.order = order
        self.joined_s = JOIN_S
        self._shared: Session | None = None
        self._opened: list[Session] = []
        self._used = False
        self.seen: list[dict[str, Any]] = []  # every ERROR that a peer has answered
        self.notes: dict[str, Any] = {}

    def session(self, newborn: bool = False) -> Session:
        """Return the shared session, which has joined; with `newborn` one in which no phase was begun."""
        found = self._shared
        if found is not None and (found.lost or (newborn and found.started)):
            self._close(found)
            found = None
        if found is None:
            if self.notes.get("unjoined"):
                raise Skip("it did not join: see join.speaks")
            found = self._shared = self._open(Place(self.order.role, self.order.name, TOKEN))
            self.notes["unjoined"] = True  # until it has
            found.listen(self.joined_s)
            self.notes["unjoined"] = False
            self.notes.setdefault("hello", found.hello_fields())
            found.welcome()
        return found

    def hello(self) -> dict[str, Any]:
        """Return what the peer of the shared session said in HELLO, nothing if there was none."""
        found: dict[str, Any] = self.notes.get("hello", {})
        return found

    def fresh(self, *, join: bool = True, curve: str = "", silence_ms: int | None = None) -> Session:
        """Return a session with a peer of its own, which has joined unless `join` is false."""
        if self.notes.get("unjoined"):
            raise Skip("it did not join: see join.speaks")
        session = self._open(Place(self.order.role, self.order.name, TOKEN, curve, silence_ms))
        self._opened.append(session)
        if join:
            session.listen(self.joined_s)
            session.welcome()
        return session

    def endure(self, step: Callable[[], object], spans_s: list[float]) -> int:
        """Take as many steps as the order has, or as its time holds; note how fast their answers were, return how many.

        `spans_s` is where the session keeps what each answer took.
        """
        spans_s.clear()
        until_s = time.perf_counter() + self.order.long_s
        count = 0
        while count < self.order.steps and time.perf_counter() < until_s:
            count += 1
            step()
        ordered = sorted(spans_s)
        if ordered:
            median_us = 1e6 * statistics.median(ordered)
            self.notes["speed"] = (median_us, 1e6 * ordered[int(0.99 * (len(ordered) - 1))], len(ordered))
        return count

    def aside(self) -> Bench:
        """Return a bench for a case that is carried out beside others: it shares no session with them."""
        part = Bench(self.driver, self.order)
        part.seen, part.notes = self.seen, self.notes
        return part

    def spoil(self) -> None:
        """Let the next case begin with another session."""
        if self._shared is not None:
            self._shared.lost = True

    def tidy(self) -> None:
        """Close what a case has opened."""
        for session in self._opened:
            self._close(session)
        self._opened.clear()

    def close(self) -> None:
        """Close everything."""
        self.tidy()
        if self._shared is not None:
            self._close(self._shared)
            self._shared = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _open(self, place: Place) -> Session:
        if self._used and not self.driver.again:
            raise Skip("it would have to be started again")
        self._used = True
        return Session(self.driver.start(place), place, self.order.deadline_s)

    def _close(self, session: Session) -> None:
        self.seen += session.errors
        session.errors = []
        session.peer.stop()
