"""Faults: what can befall a run, each at one event, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ganglion.limits import PAUSE_ANSWER_S
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb
from simulation.snare import MESSAGES, Kind, Snare, Strike

if TYPE_CHECKING:
    from simulation.bus import Simulation
    from simulation.process import Process

ROLES = (Role.ENVIRONMENT, Role.MUSCLE, Role.BRAIN, Role.CONTROLLER, Role.GOVERNOR, Role.STORE)
_SPANS_S = (0.05, 0.3, 1.0, 3.0, 20.0)
_UNDEAD_S = 3.5  # until a stopped process is found silent, and its successor has joined
_DOWN_S = (0.0, 0.01, 0.2, 1.0)
_KEPT = ("journals", "journals", "checkpoint", "phase")
_STRIKES = 8
_CONTROLLER = Role.CONTROLLER.value
_LAG_S = 0.005  # far from all deadlines
_SIGNAL = Kind(Verb.SIGNAL, Role.GOVERNOR, Role.CONTROLLER)
_ASKED = tuple(kind for kind in MESSAGES if kind.verb is Verb.CALL and kind.to is not None)
_ACT = Kind(Verb.CALL, Role.CONTROLLER, Role.MUSCLE, "muscle.act")
_RESET = Kind(Verb.CALL, Role.CONTROLLER, Role.ENVIRONMENT, "environment.reset")


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
        KINDS[self.kind](self, simulation)

    def __str__(self) -> str:
        return f"{self.kind} at {self.at} ({self.role.value} {self.pick}, count {self.count}, {self.span_s:g} s)"

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
    """End a process, and its next successors soon after they have begun: while they hear the journal, perhaps.

    Who is haunted twice is lost as often as in a plague, with the same pauses between restarts.
    """
    victim = fault.victim(simulation)
    if victim is not None:
        simulation.innocent &= victim.name not in simulation.mines
        simulation.mines[victim.name] = [fault.count, 3 * fault.count][: 1 + fault.pick % 2]
        simulation.kill(victim.name)


def _poison(fault: Fault, simulation: Simulation) -> None:
    """End a process, and each of its successors as soon as it begins."""
    victim = fault.victim(simulation)
    if victim is not None:
        simulation.mines[victim.name] = [0] * 6
        simulation.kill(victim.name)


def _plague(fault: Fault, simulation: Simulation) -> None:
    """End the bearers of a name again and again, a little further each time.

    The pauses between restarts grow beyond the deadlines of simulated runs: a brain that waits for the row of a worker
    whose controller is lost so often may be called late.
    """
    victim = fault.victim(simulation)
    if victim is not None:
        simulation.innocent = False
        simulation.mines[victim.name] = [20 + 12 * number for number in range(8)]
        simulation.kill(victim.name)


def _pause(fault: Fault, simulation: Simulation) -> None:
    """Stop a process; it may wake up beside its successor."""
    victim = fault.victim(simulation)
    if victim is not None:
        victim.immortal, victim.excused, simulation.innocent = bool(fault.pick & 16), True, False
        victim.freeze()
        simulation.later(fault.span_s, victim.thaw)


def _undead(fault: Fault, simulation: Simulation) -> None:
    """Stop a process until its successor is there, and let it wake up when the broker is lost: who is first?"""
    victim = fault.victim(simulation)
    if victim is None:
        return
    victim.immortal = victim.excused = True
    simulation.innocent = False
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
        victim.excused, simulation.innocent = True, False
        victim.freeze(hung=True)


def _cut(fault: Fault, simulation: Simulation) -> None:
    """Cut the connection of a process, with all that is on its way."""
    victim = fault.victim(simulation)
    if victim is not None:
        half = fault.pick & 7 == 0
        victim.excused |= half
        victim.mute |= half
        simulation.innocent &= not half
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
    simulation.innocent = False
    simulation.stop_broker(min(fault.span_s, 1.8))


def _order(fault: Fault, simulation: Simulation) -> None:
    """Let the operator end an episode early: the next one begins."""
    simulation.keeper.signal("RESET", fault.count % 3 if fault.pick & 1 else None)


def _slow(fault: Fault, simulation: Simulation) -> None:
    """Let each message of some processes be on its way for some time."""
    simulation.innocent = False
    for process in simulation.victims:
        if (fault.pick >> hash_of(process.name.partition("/")[2]) % 16) & 1:  # whatever the run is called
            simulation.slow_s[process.name] = 0.001 * fault.count


def _checkpoint(fault: Fault, simulation: Simulation) -> None:
    """Take a checkpoint of the run; this disturbs nobody."""
    simulation.keep_checkpoint()


def _all(fault: Fault, simulation: Simulation) -> None:
    """Lose everything but what is on the disk, then go on."""
    simulation.lose_all(_KEPT[fault.pick % 4])


def _halt(fault: Fault, simulation: Simulation) -> None:
    """Let the operator say PAUSE, and CONTINUE later, again and again until somebody has heard it."""
    simulation.keeper.heard.discard("CONTINUE")
    simulation.keeper.signal("PAUSE")
    simulation.later(fault.span_s, lambda: simulation.keeper.insist("CONTINUE"))
    if fault.pick & 2:  # and lose CONTINUE with the controller, or its connection
        strike = _strike(fault, simulation, 1 if fault.pick & 4 else 0)
        simulation.later(fault.span_s, lambda: simulation.snares.append(Snare(_SIGNAL, strike)))


def _snare(fault: Fault, simulation: Simulation) -> None:
    """Strike while the next message of a kind is on its way."""
    kind = MESSAGES[fault.pick % len(MESSAGES)]
    simulation.snares.append(Snare(kind, _strike(fault, simulation, fault.count % _STRIKES)))


def _echo(fault: Fault, simulation: Simulation) -> None:
    """Cut off who has asked something; the answer comes when it has been asked for again, and comes twice."""
    kind = _ASKED[fault.pick % len(_ASKED)]
    simulation.snares.append(Snare(kind, _strike(fault, simulation, 6)))


def _last(fault: Fault, simulation: Simulation) -> None:
    """Lose everything, or the store, when the end of the run is told, and nobody has heard it."""
    strike = _strike(fault, simulation, 7 if fault.count % 4 == 0 else 5)
    simulation.snares.append(Snare(MESSAGES[-1], strike))


def _again(fault: Fault, simulation: Simulation) -> None:
    """Let the operator end an episode in its midst, and cut off the controller when the next one begins."""

    def end() -> None:
        simulation.keeper.signal("RESET")
        simulation.snares.append(Snare(_RESET, _strike(fault, simulation, 2)))

    def begin(source: Process, to: Process | None) -> None:
        simulation.keeper.heard.discard("CONTINUE")
        simulation.keeper.signal("PAUSE")  # so that RESET is heard before the episode ends by itself
        simulation.later(0.5, end)
        simulation.later(1.0, lambda: simulation.keeper.insist("CONTINUE"))

    simulation.snares.append(Snare(_ACT, begin))


def _doze(fault: Fault, simulation: Simulation) -> None:
    """Stop the broker while everybody waits for the operator: it has asked them all who is there."""
    _halt(replace(fault, pick=0, span_s=5.0), simulation)
    _nap(replace(fault, span_s=1.8), simulation)


def _unanswered(fault: Fault, simulation: Simulation) -> None:
    """Let a controller hang until the operator is answered that it does not stand, and lose the governor then."""
    controllers = [p for p in simulation.victims if f"/{_CONTROLLER}/" in p.name and _is_free(p)]
    if not controllers:
        return
    victim = controllers[fault.pick % len(controllers)]
    victim.excused, simulation.innocent = True, False
    victim.freeze(hung=True)
    simulation.keeper.heard.discard("CONTINUE")
    simulation.keeper.signal("PAUSE")
    simulation.later(PAUSE_ANSWER_S + 1.0, victim.thaw)
    lost = replace(fault, kind="kill", role=Role.GOVERNOR)
    simulation.later(PAUSE_ANSWER_S + 1.0 + 20e-6 * fault.count, lambda: lost(simulation))
    simulation.later(PAUSE_ANSWER_S + 2.0, lambda: simulation.keeper.insist("CONTINUE"))


def _strike(fault: Fault, simulation: Simulation, what: int) -> Strike:
    """Return what befalls who has said a message, or to whom it has come."""

    def strike(source: Process, to: Process | None) -> None:
        if what == 0:
            _sever(to or source)
        elif what == 1:
            (to or source).kill()
        elif what == 2:
            _sever(source)
        elif what == 3:
            source.kill()
        elif what == 4:
            simulation.crash_broker(_DOWN_S[fault.pick // 32 % len(_DOWN_S)])
        elif what == 5:
            simulation.lose_all(_KEPT[fault.pick // 32 % len(_KEPT)])
        elif what == 6 and to is not None:  # the answer comes when it has been asked for again
            simulation.slow_s[to.name] = _LAG_S
            _sever(source)
        elif what == 7:
            lost = replace(fault, kind="kill", role=Role.STORE)
            lost(simulation)

    return strike


def _is_free(process: Process) -> bool:
    """Say whether a process has joined the bus."""
    return process.participant is not None and process.participant.welcome is not None


def _sever(process: Process) -> None:
    """Cut the connection of a process with all that it has not read yet."""
    for wire in process.wires:
        if not wire.ended:
            wire.cut(False, all_of_it=True)


def _commit(fault: Fault, simulation: Simulation) -> None:
    """Disturb the next transaction of the store: see `simulation.disk`."""
    simulation.innocent = False
    simulation.disk.faults.append(fault.pick)


def _relay(fault: Fault, simulation: Simulation) -> None:
    """Lose the relay of a node, if there are any."""
    if simulation.nodes:
        simulation.lose_relay(fault.pick % len(simulation.nodes))


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
    "checkpoint": _checkpoint,
    "all": _all,
    "halt": _halt,
    "snare": _snare,
    "echo": _echo,
    "last": _last,
    "again": _again,
    "doze": _doze,
    "unanswered": _unanswered,
    "relay": _relay,
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
_SCENES = ("snare", "snare", "echo", "echo", "last", "last", "halt", "again", "doze", "unanswered", "poison")
_BESIDE = ("snare", "halt", "halt", "order", "kill", "mine", "cut", "broker")
_STAGED = 0.35  # of all seeds


def staged(seed: int) -> bool:
    """Say whether what befalls the run of a seed waits for the moment at which it does most harm."""
    return random.Random(f"scene {seed}").random() < _STAGED


def drawn(seed: int, length: int) -> list[Fault]:
    """Return the faults of a seed, for a run that takes `length` events: a few kinds, up to four faults."""
    draw = random.Random(f"faults {seed}")
    if staged(seed):
        return _with_checkpoints(_scene(draw, length), draw)
    kinds = draw.sample(_USUAL, draw.randint(1, 3))
    if draw.random() < 0.02:
        kinds = [draw.choice(_RARE)]
    found: list[Fault] = []
    for _ in range(draw.choice((1, 1, 2, 2, 3, 4))):
        at = draw.randrange(length)
        if found and draw.random() < 0.4:  # during the recovery from the one before
            at = found[-1].at + draw.randint(1, 60)
        role, kind = draw.choice(ROLES), draw.choice(kinds)
        found.append(Fault(kind, at, role, draw.randrange(1 << 16), draw.randrange(30), draw.choice(_SPANS_S)))
    return _with_checkpoints(found, draw)


def _scene(draw: random.Random, length: int) -> list[Fault]:
    """Return one fault that waits for its moment, and some that may befall the run before or meanwhile."""
    found = []
    for kind in [draw.choice(_SCENES), *draw.sample(_BESIDE, draw.choice((0, 1, 1, 2)))]:
        at, pick = draw.randrange(length), draw.randrange(1 << 16)
        at = at // 3 if kind == "again" else at
        pick |= 2 if kind == "halt" else 0
        found.append(Fault(kind, at, draw.choice(ROLES), pick, draw.randrange(32), draw.choice(_SPANS_S)))
    return found


def _with_checkpoints(found: list[Fault], draw: random.Random) -> list[Fault]:
    """Return faults in their order, with checkpoints before those that lose everything."""
    found += [
        replace(fault, kind="checkpoint", at=draw.randrange(fault.at + 1))
        for fault in found
        if fault.kind in ("all", "last")
    ]
    return sorted(found, key=lambda fault: fault.at)
