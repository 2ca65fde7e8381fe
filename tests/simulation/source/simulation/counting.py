"""What happened on the way of a simulated run: counted where the cores decide it."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ganglion.broker.core import Broker
from ganglion.peer.results.store import StoreHost
from ganglion.peer.worker.controller import ControllerHost
from ganglion.wire.conversation import Conversation, Notice
from ganglion.wire.verb import Verb

UNJUST = "overdue although nobody was slow"

SOMETIMES = (
    "answer from memory",
    "repeat of what is being done",
    "absent callee",
    "batch said again",
    "signal said again",
    "reconnect",
    "new broker",
    "half-open connection",
    "zombie refused",
    "zombie refused by a new broker",
    "torn",
    "overdue",
    "poison",
    "intensity",
    "difference",
    "going back",
    "resume with journals",
    "resume with checkpoint",
    "resume with phase",
    "killed while it hears its journal",
    "transaction disturbed",
    "unreachable",
    "snare",
    "episode ended by an operator",
    *(f"replay of a {role}" for role in ("environment", "muscle", "brain", "controller", "governor", "store")),
)
"""What a campaign must have seen."""


@contextlib.contextmanager
def counting(counts: Counter[str]) -> Iterator[None]:
    """Count what conversations and hosts do meanwhile."""
    repeated, postpone, told = Conversation._repeated_request, Conversation._postpone, ControllerHost.told
    comes_next, forward, nobody = StoreHost._comes_next, Broker._forward, Broker._nobody

    def counted_repeat(self: Conversation, one: Any) -> Any:
        answers = repeated(self, one)
        counts["answer from memory" if answers else "repeat of what is being done"] += 1
        return answers

    def counted_postpone(self: Conversation, serial: int, tree: dict[str, Any], now_s: float) -> bool:
        found = postpone(self, serial, tree, now_s)
        pending = self._pending.get(serial)
        counts["absent callee"] += pending is not None and pending.absent
        return found

    def counted_told(self: ControllerHost, one: Notice) -> None:
        before = len(self._phase.signals) if self._phase is not None else 0
        told(self, one)
        if one.head.call == "" and self._phase is not None and len(self._phase.signals) == before:
            counts["signal said again"] += 1

    def counted_batch(self: StoreHost, peer: str, number: int) -> bool:
        fresh = comes_next(self, peer, number)
        counts["batch said again"] += not fresh
        return fresh

    def answered_forward(self: Broker, link: Any, peer: Any, head: Any, to: Any, *rest: Any) -> Any:
        effects = forward(self, link, peer, head, to, *rest)
        assert effects or head.verb is not Verb.CALL, f"{peer.name}: {head.call} of {to!r} is lost at the broker"
        return effects

    def counted_nobody(self: Broker, link: Any, peer: Any, head: Any, to: Any, now_s: float) -> Any:
        counts["unreachable"] += head.verb is Verb.CALL and self.register.awaited(to.decode()) is None
        return nobody(self, link, peer, head, to, now_s)

    replaced: list[tuple[type, str, Callable[..., Any]]] = [
        (Conversation, "_repeated_request", counted_repeat),
        (Conversation, "_postpone", counted_postpone),
        (ControllerHost, "told", counted_told),
        (StoreHost, "_comes_next", counted_batch),
        (Broker, "_forward", answered_forward),
        (Broker, "_nobody", counted_nobody),
    ]
    former = [(kind, name, getattr(kind, name)) for kind, name, _ in replaced]
    for kind, name, function in replaced:
        setattr(kind, name, function)
    try:
        yield
    finally:
        for kind, name, function in former:
            setattr(kind, name, function)
