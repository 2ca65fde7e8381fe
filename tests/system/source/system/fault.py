"""Faults: what is done to which process of a run, and when; drawn by a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from system.processes import ROLES

STOPS_S = (0.3, 1.0, 3.0, None)  # None: for ever
DEEDS = ("kill", "stop", "hang", "hold", "cut", "exit", "crash")
SCENES = ("one", "several", "everything", "supervisor", "interrupt", "store")
ASKED = ("rename",)
"""Scenes that are only played where they are asked for: the usual ones of a seed stay what they are."""
_FILES = {  # below the folder of a run -> how many of them there will be: they count from their rename on
    "cuts/phase-*.json": 2,
    "brains/*/*/*": 2,
}

_PLACES = {  # role -> hooks in which it can be met, and how often they are come by in one process at most
    "environment": {"environment.start": 1, "environment.reset": 6, "environment.update": 300},
    "muscle": {"muscle.update": 30, "muscle.act": 300},
    "brain": {"brain.setup": 1, "brain.think": 300, "brain.evaluate": 2, "brain.store": 1},
    "controller": {"controller.between": 300, "controller.step": 300},
    "governor": {"governor.boundary": 10},
}
_INSIDE = [(place, most) for places in _PLACES.values() for place, most in places.items()]
_EVENTS = {  # name -> how often it is told at least
    "peer.joined": 8,
    "phase.started": 2,
    "episode.ended": 12,
    "evaluation.ended": 3,
    "brain.stored": 2,
    "phase.ended": 2,
}
_TRIPPED = {"kill": "SIGKILL", "stop": "SIGSTOP", "crash": "SIGSEGV"}
_DELAYS_S = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)


@dataclass(frozen=True, slots=True)
class Moment:
    """Say when: at a share of the run's time, after an event, inside a hook, while rows or files are written."""

    kind: str  # share, event, inside, storing, file
    share: float = 0.0
    name: str = ""
    number: int = 1
    delay_s: float = 0.0

    def __str__(self) -> str:
        if self.kind == "share":
            return f"at {100 * self.share:.0f} %"
        if self.kind == "storing":
            return f"at write {self.number} of the store + {1000 * self.delay_s:.0f} ms"
        if self.kind == "file":
            return f"after file {self.number} of {self.name} + {1000 * self.delay_s:.0f} ms"
        if self.kind == "inside":
            return f"inside {self.name} (call {self.number})"
        return f"after {self.name} {self.number} + {1000 * self.delay_s:.0f} ms"


@dataclass(frozen=True, slots=True)
class Strike:
    """Say what is done to whom; `pick` chooses among the processes of a role.

    A `stop` ends after `span_s`, or never. `own` strikes are done by the process to itself inside its hook.
    """

    moment: Moment
    deed: str
    role: str
    pick: int = 0
    span_s: float | None = None
    own: bool = False

    def __str__(self) -> str:
        span = "" if self.deed != "stop" else " for ever" if self.span_s is None else f" {self.span_s:g} s"
        return f"{self.deed}{span} {self.role} {self.moment}"

    @property
    def trip(self) -> dict[str, Any] | None:
        """Return the order for the hook, if there is one."""
        if self.moment.kind != "inside":
            return None
        deed = _TRIPPED.get(self.deed, self.deed) if self.own else "wait"
        return {"place": self.moment.name, "number": self.moment.number, "deed": deed}


@dataclass(frozen=True, slots=True)
class Scene:
    """Say all that happens in a round."""

    kind: str
    workers: int
    strikes: list[Strike] = field(default_factory=list)
    form: str = "plugin"  # of the environment: see `world.FORMS`

    def __str__(self) -> str:
        return f"{self.kind}, {self.form}, {self.workers} worker{'s' * (self.workers > 1)}: " + "; ".join(
            map(str, self.strikes)
        )


def draw(
    seed: str,
    workers: Sequence[int],
    roles: Sequence[str] = ROLES,
    kinds: Sequence[str] = (),
    forms: Sequence[str] = ("plugin",),
) -> Scene:
    """Draw what happens in a round, and to which form of environment."""
    return replace(_draw(seed, workers, roles, kinds), form=random.Random(f"{seed}/form").choice(forms))


def _draw(seed: str, workers: Sequence[int], roles: Sequence[str], kinds: Sequence[str]) -> Scene:
    dice = random.Random(seed)
    kind = dice.choice(kinds or ["one"] * 6 + ["several"] * 2 + list(SCENES[2:]))
    count = dice.choice(workers)
    if kind == "one":
        return Scene(kind, count, [_strike(dice, dice.choice(roles))])
    if kind == "several":
        return Scene(kind, count, _several(dice, roles))
    if kind == "store":
        deed = dice.choice(["lock", "move", "fill"])
        return Scene(kind, count, [Strike(_outside(dice), deed, "store", span_s=dice.choice([0.3, 1.0, 3.0]))])
    if kind == "rename":
        return _renamed(dice, count)
    moment = dice.choice([_outside, _outside, _inside])(dice)
    return Scene(kind, count, [Strike(moment, kind, "supervisor")])


def _renamed(dice: random.Random, count: int) -> Scene:
    """Draw what happens between the rename of a checkpoint's file and the transaction that names it, or just after."""
    name = dice.choice(list(_FILES))
    delay_s = dice.choice([0.0, 0.0, 0.0, 0.001, 0.003, 0.01])
    moment = Moment("file", name=name, number=dice.randint(1, _FILES[name]), delay_s=delay_s)
    role = dice.choice(["governor", "brain", "store", "broker", "everything", "supervisor"])
    if role in ("everything", "supervisor"):
        return Scene(role, count, [Strike(moment, role, "supervisor")])
    return Scene("one", count, [Strike(moment, "kill", role)])


def _several(dice: random.Random, roles: Sequence[str]) -> list[Strike]:
    """Draw two or three: at one moment, or each at its own."""
    count = dice.choice([2, 2, 3])
    # Nobody twice at one place: who dies there again and again is poison, and that ends a run.
    chosen = dice.sample(list(roles), min(count, len(roles)))
    if dice.random() < 0.5:
        return [_strike(dice, role) for role in chosen]
    moment = _outside(dice)
    return [Strike(moment, "kill", role, dice.randrange(100)) for role in chosen]


def _strike(dice: random.Random, role: str) -> Strike:
    if role in _PLACES and dice.random() < 0.5:
        name, most = dice.choice(list(_PLACES[role].items()))
        moment = Moment("inside", name=name, number=dice.randint(1, most))
        deed = dice.choice([*DEEDS, "kill", "kill"])
        return Strike(moment, deed, role, span_s=_span(dice, deed), own=True)
    moment = dice.choice([_outside, _outside, _outside, _inside])(dice)
    deed = dice.choice(["kill", "kill", "stop"])
    return Strike(moment, deed, role, dice.randrange(100), _span(dice, deed))


def _span(dice: random.Random, deed: str) -> float | None:
    return dice.choice(STOPS_S) if deed == "stop" else None


def _outside(dice: random.Random) -> Moment:
    kind = dice.choice(["share", "event", "storing"])
    if kind == "share":
        return Moment(kind, share=dice.uniform(0.0, 1.02))
    number = dice.randint(1, 12)
    if kind == "event":
        name = dice.choice(list(_EVENTS))
        number = dice.randint(1, _EVENTS[name])
        return Moment(kind, name=name, number=number, delay_s=dice.choice(_DELAYS_S))
    return Moment(kind, number=number, delay_s=dice.choice(_DELAYS_S[:4]))


def _inside(dice: random.Random) -> Moment:
    name, most = dice.choice(_INSIDE)
    return Moment("inside", name=name, number=dice.randint(1, most))
