"""Snares: faults that wait for a certain message, and strike while it is on its way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ganglion.wire.envelope import decode_head
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

if TYPE_CHECKING:
    from simulation.bus import Simulation
    from simulation.process import Process


@dataclass(frozen=True, slots=True)
class Kind:
    """Be a kind of message: its verb, who says it to whom, and the name of its call if it has one.

    To None is to the kernel, or to whoever it may be.
    """

    verb: Verb
    source: Role
    to: Role | None = None
    call: str = ""


_G, _C, _E, _M, _B, _S = (Role.GOVERNOR, Role.CONTROLLER, Role.ENVIRONMENT, Role.MUSCLE, Role.BRAIN, Role.STORE)
MESSAGES = (
    Kind(Verb.REPLY, _G, _C),
    Kind(Verb.REPLY, _E, _C),
    Kind(Verb.REPLY, _M, _C),
    Kind(Verb.REPLY, _B, _M),
    Kind(Verb.REPLY, _C, _G),
    Kind(Verb.REPLY, _B, _G),
    Kind(Verb.CALL, _C, _G, "governor.episode"),
    Kind(Verb.CALL, _C, _E, "environment.update"),
    Kind(Verb.CALL, _C, _E, "environment.reset"),
    Kind(Verb.CALL, _C, _M, "muscle.act"),
    Kind(Verb.CALL, _M, _B, "brain.think"),
    Kind(Verb.CALL, _G, _C, "controller.start"),
    Kind(Verb.CALL, _G, _C, "controller.shutdown"),
    Kind(Verb.TELL, _G, _S, "record.batch"),
    Kind(Verb.TELL, _C, _S, "record.batch"),
    Kind(Verb.TELL, _S, _G, "record.ack"),
    Kind(Verb.TELL, _S, _C, "record.ack"),
    Kind(Verb.CALL, _G, None, "kernel.watch"),
    Kind(Verb.CALL, _G, None, "kernel.need"),
    Kind(Verb.CALL, _G, None, "kernel.ended"),
)
"""What a snare may wait for; the last one is how a run's end is told."""

Strike = Callable[["Process", "Process | None"], None]
"""Let something befall the one who has said a message, or the one to whom it has come but who has not read it yet."""


@dataclass(frozen=True, slots=True)
class Snare:
    """Strike at the next message of a kind, once."""

    kind: Kind
    strike: Strike


def snared(simulation: Simulation, source: Process, frames: Sequence[bytes]) -> None:
    """Let the snares strike that have waited for this message, which has just been delivered."""
    head, to = decode_head(frames[1]), frames[0].decode()
    for snare in list(simulation.snares):
        kind = snare.kind
        if head.verb is not kind.verb or head.call != kind.call or not _is(source.name, kind.source):
            continue
        if kind.to is not None and not _is(to, kind.to):
            continue
        simulation.snares.remove(snare)
        simulation.count("snare")
        snare.strike(source, next((p for p in simulation.victims if to and p.name == to), None))


def _is(name: str, role: Role) -> bool:
    return f"/{role.value}" in name
