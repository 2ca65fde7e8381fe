"""What a controller knows of its environments and agents: columns, open decisions, flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from ganglion.errors import RemoteProtocolError
from ganglion.wire.messages import EnvironmentDeclared, EnvironmentUpdated

__all__ = ["Actor", "Decision", "World", "select"]


@dataclass(slots=True)
class World:
    """One environment of this worker: what it declared and what it last said."""

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

    @property
    def ended(self) -> bool:
        """Say whether it waits for its reset."""
        return self.terminated or self.truncated

    def declare(self, declared: EnvironmentDeclared) -> None:
        """Take the answer to `environment.start`."""
        self.sensors, self.actuators, self.rewards = declared.sensors, declared.actuators, declared.rewards
        self.static_model = declared.static_model
        self.readings = _row(declared.readings, len(self.sensors), f"{self.uid}: readings")
        self.ticks, self.timestamp = declared.ticks, declared.timestamp
        self.terminated = self.truncated = False

    def began(self, answer: EnvironmentUpdated) -> None:
        """Take the answer to `environment.reset`."""
        self.readings = _row(answer.readings, len(self.sensors), f"{self.uid}: readings")
        self.ticks, self.timestamp = answer.ticks, answer.timestamp
        self.terminated = self.truncated = False

    def updated(self, answer: EnvironmentUpdated, step: int) -> bool:
        """Take the answer to `environment.update`; says whether rewards were declared by it."""
        declared = self.rewards is None
        if declared:
            self.rewards = answer.reward_ids or []
        assert self.rewards is not None
        self.readings = _row(answer.readings, len(self.sensors), f"{self.uid}: readings")
        self.earned = _row(answer.rewards, len(self.rewards), f"{self.uid}: rewards")
        self.ticks = step if answer.ticks is None else answer.ticks
        self.timestamp = answer.timestamp
        if answer.terminated and answer.truncated:
            raise RemoteProtocolError(f"environment {self.uid}: terminated and truncated exclude each other")
        self.terminated, self.truncated = answer.terminated, answer.truncated
        return declared

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
    statistics: bytes | None
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
    earned: list[Any] = field(default_factory=list)


def _row(rows: Sequence[Any], length: int, what: str) -> list[Any]:
    if len(rows) != 1 or type(rows[0]) is not list or len(rows[0]) != length:
        found = f"{len(rows)} rows" if len(rows) != 1 else f"{len(rows[0])} values"
        raise RemoteProtocolError(f"{what}: expected one row of {length} values, found {found}")
    row: list[Any] = rows[0]
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
