"""What a controller knows of its environments and agents: columns, open decisions, flags."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from ganglion.errors import CallFailed, RemoteProtocolError
from ganglion.peer.failure import wrong_answer
from ganglion.peer.foreign import Declared
from ganglion.peer.journal import Journal
from ganglion.peer.layout import Layout
from ganglion.peer.records import pack
from ganglion.wire.messages import EnvironmentDeclared, EnvironmentUpdated


@dataclass(slots=True)
class World:
    """One environment of this worker: what it declared and what it last said.

    An answer that cannot be taken is blamed on the environment, by CallFailed. Our own hosts have checked what they
    send; what a program sends that brings its own class is checked here.
    """

    uid: str
    peer: str
    setup: dict[str, Any]
    sensors: list[dict[str, Any]] = field(default_factory=list)
    actuators: list[dict[str, Any]] = field(default_factory=list)
    rewards: list[dict[str, Any]] | None = None
    static_model: dict[str, Any] | None = None
    readings: list[Any] = field(default_factory=list)
    earned: list[Any] = field(default_factory=list)
    ticks: int | None = 0
    timestamp: str | None = None
    terminated: bool = False
    truncated: bool = False
    state: Any = None  # what a transformer left in place of the world's state, for the store
    checks: Declared | None = None
    journal: Journal | None = None  # of the open episode, where a lost environment is mended

    @property
    def ended(self) -> bool:
        """Say whether it waits for its reset."""
        return self.terminated or self.truncated

    def declare(self, declared: EnvironmentDeclared) -> None:
        """Take the answer to `environment.start`."""
        self.sensors, self.actuators, self.rewards = declared.sensors, declared.actuators, declared.rewards
        self.static_model = declared.static_model
        self.checks = Declared() if self.setup.get("plugin") is None else None
        try:
            if self.checks is not None:
                self.checks.declare("sensors", self.sensors)
                self.checks.declare("actuators", self.actuators)
                self.checks.declare("rewards", self.rewards or [])
            self._begin(declared.readings, declared.ticks, declared.timestamp)
        except RemoteProtocolError as error:
            raise self._blame("environment.start", error) from error

    def began(self, answer: EnvironmentUpdated) -> None:
        """Take the answer to `environment.reset`."""
        try:
            self._begin(answer.readings, answer.ticks, answer.timestamp)
        except RemoteProtocolError as error:
            raise self._blame("environment.reset", error) from error

    def updated(self, answer: EnvironmentUpdated, step: int) -> bool:
        """Take the answer to `environment.update`; says whether rewards were declared by it."""
        try:
            return self._update(answer, step)
        except RemoteProtocolError as error:
            raise self._blame("environment.update", error) from error

    def declares(self, what: str, before: Sequence[Mapping[str, Any]]) -> None:
        """Refuse declarations of a new object that are not those of the phase."""
        old = [(row["id"], row["space"]) for row in before]
        new = [(row["id"], row["space"]) for row in getattr(self, what)]
        if old != new:
            ids = [uid for uid, _ in old]
            other = [uid for uid, _ in new if uid not in ids] or [uid for uid in ids if uid not in dict(new)]
            hint = other[0] if other else "their order or a space"
            text = f"{what} changed between episodes: {hint}"
            raise self._blame("environment.start", RemoteProtocolError(text))

    def rest(self) -> None:
        """Earn nothing in a step in which it waits for its reset: it has no rewards then, not those of before."""
        self.earned = [None] * len(self.rewards or [])

    def _begin(self, readings: Sequence[Any], ticks: int | None, timestamp: str | None) -> None:
        self.readings = self._row("sensors", readings, len(self.sensors), "readings")
        self.ticks, self.timestamp = ticks, timestamp
        self.terminated = self.truncated = False
        if self.checks is not None:
            self.checks.begin()
            self.checks.pass_time(ticks, timestamp)

    def _update(self, answer: EnvironmentUpdated, step: int) -> bool:
        declared = self.rewards is None
        if declared:
            self.rewards = answer.reward_ids or []
            if self.checks is not None:
                self.checks.declare("rewards", self.rewards)
        assert self.rewards is not None
        self.readings = self._row("sensors", answer.readings, len(self.sensors), "readings")
        self.earned = self._row("rewards", answer.rewards, len(self.rewards), "rewards")
        self.ticks = step if answer.ticks is None else answer.ticks
        self.timestamp = answer.timestamp
        if self.checks is not None:
            self.checks.pass_time(self.ticks, self.timestamp)
        if answer.terminated and answer.truncated:
            raise RemoteProtocolError("terminated and truncated exclude each other")
        self.terminated, self.truncated = answer.terminated, answer.truncated
        self.state = answer.world_state
        return declared

    def _row(self, what: str, rows: Sequence[Any], length: int, name: str) -> list[Any]:
        row = _only(rows, length, name)
        return row if self.checks is None else self.checks.row(what, row, name)

    def _blame(self, call: str, error: RemoteProtocolError) -> CallFailed:
        return wrong_answer(self.peer, call, error)

    def declarations(self) -> dict[str, Any]:
        """Return what the governor is told."""
        return {
            "sensors": self.sensors,
            "actuators": self.actuators,
            "rewards": self.rewards,
            "static_model": self.static_model,
        }


@dataclass(slots=True)
class Decision:
    """A decision on its way to a row of `actions`; values are encoded at once, so that nothing changes them."""

    index: int
    tick: int
    readings: bytes
    setpoints: bytes
    proposed: bytes | None
    statistics: Mapping[str, Any] | None
    rewards: list[Any] | None = None
    packed_rewards: bytes = b""
    objective: float | None = None
    settled: bool = False


@dataclass(slots=True)
class Actor:
    """One agent in this worker: where its columns lie, and its open decision."""

    name: str
    peer: str
    setup: dict[str, Any]
    readings: Callable[[Sequence[World]], list[Any]]
    targets: list[tuple[int, int]]
    rewards: Callable[[Sequence[World]], list[Any]] | None = None
    reward_declarations: list[dict[str, Any]] | None = None
    told_rewards: bool = False
    decision: Decision | None = None
    decisions: int = 0
    objectives: list[float | None] = field(default_factory=list)
    given: list[float] = field(default_factory=list)  # those of them that are values
    row: list[Any] = field(default_factory=list)  # its readings as the worlds show them now
    earned: list[Any] = field(default_factory=list)
    checks: Layout | None = None  # its actuators, where a program acts

    def earn(self, worlds: Sequence[World]) -> None:
        """Be given the rewards of a step; the open decision takes those of the first that it is given."""
        if self.rewards is None:
            return
        self.earned = self.rewards(worlds)
        if self.decision is not None and self.decision.rewards is None:
            self.decision.rewards = self.earned
            self.decision.packed_rewards = pack(self.earned)

    def take_rewards(self, worlds: Sequence[World]) -> None:
        """Let an open decision that no update has named take the rewards of the newest step."""
        if self.decision is not None and self.decision.rewards is None:
            self.earn(worlds)

    @property
    def summary(self) -> dict[str, float | None]:
        """Return sum and mean of its objectives in this episode; None where there is no value."""
        if not self.given:
            return {"sum": None, "mean": None}
        total = math.fsum(self.given)
        return {"sum": total, "mean": total / len(self.given)}

    @property
    def unsettled(self) -> list[Any] | None:
        """Return the rewards of the open decision that the muscle was not told yet; None if there are none."""
        decision = self.decision
        return None if decision is None or decision.settled else decision.rewards


def _only(rows: Sequence[Any], length: int, what: str) -> list[Any]:
    """Return the one row of the one body."""
    if len(rows) != 1:
        raise RemoteProtocolError(f"{what}: expected one row of {length} values, found {len(rows)} rows")
    row = rows[0]
    if type(row) is not list or len(row) != length:
        found = f"{len(row)} values" if type(row) is list else type(row).__name__
        raise RemoteProtocolError(f"{what}: expected one row of {length} values, found {found}")
    return row


def select(
    ids: Sequence[str], columns: Mapping[str, tuple[int, int]], what: str
) -> Callable[[Sequence[World]], list[Any]]:
    """Return a function that picks the values of full ids out of the worlds' rows; `what` is readings or earned."""
    places = [columns[uid] for uid in ids]
    worlds = {world for world, _ in places}
    row_of: Callable[[World], list[Any]] = _readings if what == "readings" else _earned
    if len(worlds) == 1:
        (world,) = worlds
        positions = [position for _, position in places]
        if len(positions) == 1:
            only = positions[0]
            return lambda found: [row_of(found[world])[only]]
        pick = itemgetter(*positions)
        return lambda found: list(pick(row_of(found[world])))
    return lambda found: [row_of(found[w])[position] for w, position in places]


def _readings(world: World) -> list[Any]:
    return world.readings


def _earned(world: World) -> list[Any]:
    return world.earned
