"""Crossing: a worker at the begin of an episode, as plain values, and a worker put there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganglion.peer.participant import Participant
from ganglion.peer.phase import Phase
from ganglion.peer.records import Records
from ganglion.peer.renewal import Renewal
from ganglion.peer.snapshot import NotPlain, Snapshot, State
from ganglion.peer.world import World
from ganglion.wire.messages import Verdict

_OURS = ("agents", "environments")
_PASSING = [f"controller.{name}" for name in ("bus", "readings", "rewards", "step", "episode")]  # set for each episode
_BOOKS = ("tick", "heeded", "steps_left", "evaluation")
_SEEN = ("rewards", "readings", "earned", "ticks", "timestamp", "terminated", "truncated", "state", "journal")
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
        self._snapshot = Snapshot(parts, passing=_PASSING)
        self._renewal = Renewal(participant, phase.hooks.where, self._snapshot.check)

    def stand(self, verdict: Verdict, mine: list[Any], loose: bool) -> tuple[Verdict, list[Any]] | None:
        """Stand at the begin of an episode; return where a predecessor went on from here, None if it did not.

        Args:
            verdict: By which the episode begins.
            mine: What the host knows beside the phase.
            loose: Whether tasks of the controller run on behind its episode, which nobody can take.
        """
        found: list[tuple[Verdict, list[Any]]] = []

        def take() -> State:
            if loose:
                raise NotPlain("tasks of the controller run on behind its episode")
            phase = self._phase
            books = {name: getattr(phase, name) for name in _BOOKS}
            books |= {"verdict": verdict, "signals": list(phase.signals), "records": self._records.state()}
            books |= {"mine": mine, "worlds": [_world(world) for world in phase.worlds]}
            books["actors"] = [[actor.told_rewards, actor.earned] for actor in phase.actors]
            return self._snapshot.take(books, self._participant.takes_attributes)

        def put(state: State) -> None:
            read = self._snapshot.read(state)
            self._snapshot.put(read)
            books = read["books"]
            self._records.restore(books["records"])
            _cross(self._phase, books)
            found.append((books["verdict"], books["mine"]))

        self._renewal.stand(take, put)
        return found[0] if found else None


def _cross(phase: Phase, books: Mapping[str, Any]) -> None:
    """Put a worker where another one stood."""
    phase.signals.clear()
    phase.signals.extend(books["signals"])
    for name in _BOOKS:
        setattr(phase, name, books[name])
    connected = all(world.rewards is not None for world in phase.worlds)
    for world, seen in zip(phase.worlds, books["worlds"], strict=True):
        _look(world, seen)
    if not connected and all(world.rewards is not None for world in phase.worlds):
        phase.connect_rewards(declare=False)
    for actor, (told, earned) in zip(phase.actors, books["actors"], strict=True):
        actor.told_rewards, actor.earned = told, earned


def _world(world: World) -> dict[str, Any]:
    if world.journal is not None and world.journal.steps:
        raise NotPlain(f"environment {world.uid} stands in the midst of an episode")
    seeds = {name: world.setup[name] for name in _SEEDS if name in world.setup}
    return {"seeds": seeds, **{name: getattr(world, name) for name in _SEEN}}


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
