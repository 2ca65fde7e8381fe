"""Faults: what can befall a run, each at one event, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ganglion.wire.name import Role

if TYPE_CHECKING:
    from simulation.bus import Simulation
    from simulation.process import Process

__all__ = ["KINDS", "ROLES", "Fault", "drawn"]

ROLES = (Role.ENVIRONMENT, Role.MUSCLE, Role.BRAIN, Role.CONTROLLER, Role.GOVERNOR, Role.STORE)
_SPANS_S = (0.05, 0.3, 1.0, 3.0, 20.0)
_UNDEAD_S = 3.5  # until a stopped process is found silent, and its successor has joined
_DOWN_S = (0.0, 0.01, 0.2, 1.0)


@dataclass(frozen=True, slots=True)
class Fault:
    """Befall a run before its event number `at`.

    `role` and `pick` say whom, `count` and `span_s` how much, where the kind needs it.
    """

    kind: str
    at: int
    role: Role
    pick: int
    count: int
    span_s: float

    def __call__(self, simulation: Simulation) -> None:
        """Let it happen."""
        KINDS[self.kind](self, simulation)

    def __str__(self) -> str:
        return (
            f"{self.kind} at {self.at} ({self.role.value} {self.pick}, count {self.count}, {self.span_s:g} s)"
        )

    def victim(self, simulation: Simulation) -> Process | None:
        """Return whom it hits: one of its role, anybody if there is none."""
        found = simulation.victims
        mine = [p for p in found if f"/{self.role.value}" in p.name] or found
        return mine[self.pick % len(mine)] if mine else None


def _kill(fault: Fault, simulation: Simulation) -> None:
    """End a process while it waits."""
    victim = fault.victim(simulation)
    if victim is not None:
        simulation.kill(victim.name)


def _mine(fault: Fault, simulation: Simulation) -> None:
    """End a process after some more moments, between two system calls."""
    victim = fault.victim(simulation)
    if victim is not None:
        victim.mine = fault.count


def _massacre(fault: Fault, simulation: Simulation) -> None:
    """End several processes, or all, at once."""
    found = simulation.victims
    for place, process in enumerate(found):
        if fault.count % 3 == 0 or (fault.pick >> place % 16) & 1:
            simulation.kill(process.name)


def _haunt(fault: Fault, simulation: Simulation) -> None:
    """End a process, and its next successors soon after they have begun: while they hear the tape, perhaps."""
    victim = fault.victim(simulation)
    if victim is not None:
        simulation.mines[victim.name] = [fault.count, 3 * fault.count][: 1 + fault.pick % 2]
        simulation.kill(victim.name)


def _poison(fault: Fault, simulation: Simulation) -> None:
    """End a process, and each of its successors as soon as it begins."""
    victim = fault.victim(simulation)
    if victim is not None:
        simulation.mines[victim.name] = [0] * 6
        simulation.kill(victim.name)


def _plague(fault: Fault, simulation: Simulation) -> None:
    """End the bearers of a name again and again, a little further each time."""
    victim = fault.victim(simulation)
    if victim is not None:
        simulation.mines[victim.name] = [20 + 12 * number for number in range(8)]
        simulation.kill(victim.name)


def _pause(fault: Fault, simulation: Simulation) -> None:
    """Stop a process; it may wake up beside its successor."""
    victim = fault.victim(simulation)
    if victim is not None:
        victim.immortal, victim.excused = bool(fault.pick & 16), True
        victim.freeze()
        simulation.later(fault.span_s, victim.thaw)


def _undead(fault: Fault, simulation: Simulation) -> None:
    """Stop a process until its successor is there, and let it wake up when the broker is lost: who is first?"""
    victim = fault.victim(simulation)
    if victim is None:
        return
    victim.immortal = victim.excused = True
    victim.freeze()

    def wake() -> None:
        simulation.crash_broker(_DOWN_S[fault.pick % len(_DOWN_S)])
        victim.thaw()

    simulation.later(_UNDEAD_S, wake)


def _hang(fault: Fault, simulation: Simulation) -> None:
    """Let a process hang for ever in what it was asked to do, and has to answer in time; its pulse answers."""
    victim = fault.victim(simulation)
    if victim is None or victim.participant is None or "/governor" in victim.name:
        return
    if victim.participant._conversation._doing:
        victim.excused = True
        victim.freeze(hung=True)


def _cut(fault: Fault, simulation: Simulation) -> None:
    """Cut the connection of a process, with all that is on its way."""
    victim = fault.victim(simulation)
    if victim is not None:
        half = fault.pick & 7 == 0
        victim.excused |= half
        victim.mute |= half
        simulation.counts["half-open connection"] += half
        for wire in victim.wires:
            if not wire.ended:
                wire.cut(half)


def _broker(fault: Fault, simulation: Simulation) -> None:
    """End the broker."""
    simulation.crash_broker(_DOWN_S[fault.pick % len(_DOWN_S)])


def _nap(fault: Fault, simulation: Simulation) -> None:
    """Stop the broker when it has asked who is there: it must not accuse those whom it has not heard meanwhile."""
    for victim in simulation.victims:
        victim.excused = True
    simulation.stop_broker(min(fault.span_s, 1.8))


def _order(fault: Fault, simulation: Simulation) -> None:
    """Let the operator end an episode early: the next one begins."""
    simulation.keeper.signal("RESET", fault.count % 3 if fault.pick & 1 else None)


def _slow(fault: Fault, simulation: Simulation) -> None:
    """Let each message of some processes be on its way for some time."""
    for process in simulation.victims:
        if (fault.pick >> hash_of(process.name.partition("/")[2]) % 16) & 1:  # whatever the run is called
            simulation.slow_s[process.name] = 0.001 * fault.count


def _moment(fault: Fault, simulation: Simulation) -> None:
    """Take a checkpoint of the run; this disturbs nobody."""
    simulation.keep_moment()


def _all(fault: Fault, simulation: Simulation) -> None:
    """Lose everything but what is on the disk, then go on."""
    simulation.lose_all(("tapes", "tapes", "moment", "cut")[fault.pick % 4])


def _halt(fault: Fault, simulation: Simulation) -> None:
    """Let the operator say PAUSE, and CONTINUE later, again and again until somebody has heard it."""
    simulation.keeper.heard.discard("CONTINUE")
    simulation.keeper.signal("PAUSE")
    simulation.later(fault.span_s, lambda: simulation.keeper.insist("CONTINUE"))
    if fault.pick & 2:  # and cut off a controller while CONTINUE is on its way
        severed = replace(fault, kind="cut", role=Role.CONTROLLER, pick=fault.pick | 1)
        simulation.later(fault.span_s + 20e-6 * fault.count, lambda: severed(simulation))


def _commit(fault: Fault, simulation: Simulation) -> None:
    """Disturb the next transaction of the store: see `simulation.disk`."""
    simulation.disk.faults.append(fault.pick)


def hash_of(text: str) -> int:
    """Return a number that a text has in every process."""
    return sum(text.encode())


KINDS: dict[str, Callable[[Fault, Simulation], None]] = {
    "kill": _kill,
    "mine": _mine,
    "massacre": _massacre,
    "haunt": _haunt,
    "poison": _poison,
    "plague": _plague,
    "pause": _pause,
    "undead": _undead,
    "hang": _hang,
    "cut": _cut,
    "broker": _broker,
    "slow": _slow,
    "nap": _nap,
    "order": _order,
    "commit": _commit,
    "moment": _moment,
    "all": _all,
    "halt": _halt,
}
_USUAL = (
    "undead",
    "all",
    "halt",
    "kill",
    "kill",
    "mine",
    "mine",
    "massacre",
    "haunt",
    "pause",
    "hang",
    "cut",
    "broker",
    "slow",
    "nap",
    "order",
    "commit",
)
_RARE = ("poison", "plague")


def drawn(seed: int, length: int) -> list[Fault]:
    """Return the faults of a seed, for a run that takes `length` events: a few kinds, up to four faults."""
    draw = random.Random(f"faults {seed}")
    kinds = draw.sample(_USUAL, draw.randint(1, 3))
    if draw.random() < 0.02:
        kinds = [draw.choice(_RARE)]
    found: list[Fault] = []
    for _ in range(draw.choice((1, 1, 2, 2, 3, 4))):
        at = draw.randrange(length)
        if found and draw.random() < 0.4:  # during the recovery from the one before
            at = found[-1].at + draw.randint(1, 60)
        role, kind = draw.choice(ROLES), draw.choice(kinds)
        found.append(
            Fault(kind, at, role, draw.randrange(1 << 16), draw.randrange(30), draw.choice(_SPANS_S))
        )
    found += [
        replace(fault, kind="moment", at=draw.randrange(fault.at + 1))
        for fault in found
        if fault.kind == "all"
    ]
    return sorted(found, key=lambda fault: fault.at)
