"""Crossing: a worker at the begin of an episode, as a tree of plain values, and a worker put there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganglion.peer.journal import Journal
from ganglion.peer.likeness import Likeness
from ganglion.peer.participant import Participant
from ganglion.peer.phase import Phase
from ganglion.peer.portrait import NoPortrait, Portrait
from ganglion.peer.records import Records
from ganglion.peer.renewal import Renewal
from ganglion.peer.world import World
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import EnvironmentReset, EnvironmentStart, FlowSignal, Verdict

_OURS = ("agents", "environments")
_PASSING = [
    f"controller.{name}" for name in ("bus", "readings", "rewards", "step", "episode")
]  # set for each episode
_SEEN = ("rewards", "readings", "earned", "ticks", "timestamp", "terminated", "truncated", "state")
_SEEDS = ("episode_seed", "episode_stream")  # of the messages that make an environment anew


class Crossing:
    """Begin a worker's tape anew at the begin of an episode, once it is long, with all that the worker is then.

    It is made at the begin of a phase's first episode, when nothing has been asked of the controller yet.
    """

    def __init__(self, participant: Participant, phase: Phase, records: Records) -> None:
        self._participant, self._phase, self._records = participant, phase, records
        parts: dict[str, Any] = {"controller": (phase.controller, _OURS)}
        for i, (name, condition) in enumerate(phase.conditions):
            parts[f"condition {i} ({name})"] = (condition, ())
        self._renewal = Renewal(participant, phase.hooks.where)
        self._likeness = Likeness(parts, passing=_PASSING)

    def stand(self, verdict: Verdict, mine: list[Any], loose: bool) -> tuple[Verdict, list[Any]] | None:
        """Stand at the begin of an episode; return where a predecessor went on from here, None if it did not.

        Args:
            verdict: By which the episode begins.
            mine: What the host knows beside the phase.
            loose: Whether tasks of the controller run on behind its episode, which nobody can take.
        """
        found: list[tuple[Verdict, list[Any]]] = []

        def take() -> list[Portrait]:
            if loose:
                raise NoPortrait("tasks of the controller run on behind its episode")
            books = {**_crossing(self._phase, verdict), "records": self._records.state(), "mine": mine}
            return self._likeness.take(books, self._participant.portraits)

        def put(state: list[Portrait]) -> None:
            read = self._likeness.read(state)
            self._likeness.put(read)
            books = read[0]["books"]
            self._records.restore(books["records"])
            found.append((_cross(self._phase, books), books["mine"]))

        self._renewal.stand(take, put)
        return found[0] if found else None


def _crossing(phase: Phase, verdict: Verdict) -> dict[str, Any]:
    """Return where a worker stands that begins an episode by this verdict.

    Raises:
        NoPortrait: An environment of another language is not at its begin.
    """
    return {
        "verdict": codec_of(Verdict).encode(verdict),
        "signals": [codec_of(FlowSignal).encode(signal) for signal in phase.signals],
        "tick": phase.tick,
        "heeded": phase.heeded,
        "steps_left": phase.steps_left,
        "evaluation": phase.evaluation,
        "worlds": [_world(world) for world in phase.worlds],
        "actors": [[actor.told_rewards, actor.earned] for actor in phase.actors],
    }


def _cross(phase: Phase, tree: Mapping[str, Any]) -> Verdict:
    """Put a worker where another one stood; return by which verdict it goes on."""
    phase.signals.clear()
    phase.signals.extend(codec_of(FlowSignal).decode(signal) for signal in tree["signals"])
    phase.tick, phase.heeded, phase.steps_left = tree["tick"], tree["heeded"], tree["steps_left"]
    phase.evaluation = tree["evaluation"]
    connected = all(world.rewards is not None for world in phase.worlds)
    for world, seen in zip(phase.worlds, tree["worlds"], strict=True):
        _look(world, seen)
    if not connected and all(world.rewards is not None for world in phase.worlds):
        phase.connect_rewards(declare=False)
    for actor, (told, earned) in zip(phase.actors, tree["actors"], strict=True):
        actor.told_rewards, actor.earned = told, earned
    return codec_of(Verdict).decode(tree["verdict"])


def _world(world: World) -> dict[str, Any]:
    found = {name: getattr(world, name) for name in _SEEN}
    found["seeds"] = {name: world.setup[name] for name in _SEEDS if name in world.setup}
    journal = world.journal
    if journal is not None:
        if journal.steps:
            raise NoPortrait(f"environment {world.uid} stands in the midst of an episode")
        reset = None if journal.reset is None else codec_of(EnvironmentReset).encode(journal.reset)
        start = codec_of(EnvironmentStart).encode(journal.start)
        found["journal"] = [start, journal.made, journal.started, reset, journal.opened]
    return found


def _look(world: World, seen: Mapping[str, Any]) -> None:
    declares = world.rewards is None and seen["rewards"] is not None
    for name in _SEEN:
        setattr(world, name, seen[name])
    world.setup.update(seen["seeds"])
    if world.checks is not None:
        if declares:
            world.checks.declare("rewards", world.rewards or [])
        world.checks.begin()
        world.checks.pass_time(world.ticks, world.timestamp)
    if "journal" in seen:
        start, made, started, reset, opened = seen["journal"]
        world.journal = Journal(codec_of(EnvironmentStart).decode(start), made, started)
        world.journal.reset = None if reset is None else codec_of(EnvironmentReset).decode(reset)
        world.journal.opened = opened
