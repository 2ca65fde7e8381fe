from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.peer.portrait import portray, restored
from ganglion.peer.sitter import attributes_of, found_in, put_attributes, way_of
from ganglion.sdk import CheckpointableBrain, TerminationCondition


class Plain:
    """Have attributes."""

    def __init__(self) -> None:
        self.one = 1

    @property
    def two(self) -> int:
        """Return something that is no attribute."""
        return 2


@dataclass(slots=True)
class Slotted:
    """Have slots."""

    one: int = 1
    rows: list[int] = field(default_factory=list)


class Mixed(Plain):
    """Have both."""

    __slots__ = ("three",)


@dataclass(frozen=True)
class Frozen:
    """Be frozen."""

    one: int = 1


@dataclass(frozen=True, slots=True)
class Stiff:
    """Be frozen, with slots."""

    one: int = 1


class Copied(Plain):
    """Say itself how it is copied."""

    def __reduce__(self) -> Any:
        return (Copied, ())


class Numbers(dict):  # type: ignore[type-arg]
    """Be more than its attributes."""


def test_attributes_are_found_and_put_back() -> None:
    """Attributes in maps and slots come back, and those that were not there are gone."""
    mixed, slotted, plain = Mixed(), Slotted(3, [1]), Plain()
    mixed.three = 3
    assert ({"one": 1, "three": 3}, {"one": 3, "rows": [1]}) == (attributes_of(mixed), attributes_of(slotted))

    fresh, other = Mixed(), Slotted()
    put_attributes(fresh, attributes_of(mixed) or {})
    put_attributes(other, attributes_of(slotted) or {})
    plain.__dict__["later"] = 1
    put_attributes(plain, {"two": 5})
    stiff = object.__new__(Stiff)  # as one that is made again is at first
    put_attributes(stiff, attributes_of(Stiff(4)) or {})
    assert Stiff(4) == stiff
    frozen = Frozen()
    put_attributes(frozen, {"one": 7})
    assert Frozen(7) == frozen
    assert (3, slotted) == (fresh.three, other)
    assert {"two": 5} == vars(plain)


@pytest.mark.parametrize(
    "one",
    [Copied(), Numbers(), threading.Lock(), [1], Path(), np.zeros(1), np.random.default_rng(1), deque()],
)
def test_what_is_more_than_its_attributes_has_none(one: Any) -> None:
    """Objects with a state of their own in C, and those that say how they are copied, are not taken for others."""
    assert attributes_of(one) is None


class Keeps(Plain):
    """Say itself what it is."""

    def save_state(self) -> Mapping[str, Any]:
        """Return it."""
        return {"one": self.one}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take it."""
        self.one = state["one"]


class Stops(TerminationCondition):
    """Be a condition that says what a checkpoint has to keep."""

    def state(self) -> Mapping[str, Any]:
        """Return it."""
        return {"n": 3}


def test_who_says_itself_what_it_is() -> None:
    """A class does so by save_state and load_state, a condition by state and restore if it has its own."""
    keeps, stops = Keeps(), Stops()

    assert (keeps.save_state, keeps.load_state) == way_of(keeps)
    assert (stops.state, stops.restore) == way_of(stops)
    assert way_of(TerminationCondition()) is way_of(Plain()) is None


class Exports(CheckpointableBrain):
    """Be a brain that is taken as its checkpoints are; attributes of it could not be."""

    CHECKPOINT_FORMAT, CHECKPOINT_SCHEMA_VERSION = "own", 1

    def __init__(self, state: Mapping[str, Any] | bytes) -> None:
        self.state, self.lock = state, threading.Lock()

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Do nothing."""

    def export_checkpoint_state(self) -> Mapping[str, Any] | bytes:
        """Return it."""
        return self.state

    def restore_checkpoint_state(self, state: Mapping[str, Any] | bytes) -> None:
        """Take it."""
        self.state = state


@pytest.mark.parametrize("state", [{"a": np.arange(3.0)}, b"bytes", {}], ids=["arrays", "bytes", "nothing"])
def test_a_brain_says_it_by_its_checkpoints(state: Any) -> None:
    """Where no checkpoint is taken of a brain that could have one, it is what its checkpoint would be."""
    one, other = Exports(state), Exports(b"")
    taken = portray({"brain": one}, {}, {"brain": one})
    restored(taken, {"brain": other})

    np.testing.assert_equal(other.state, state)


def test_objects_within_are_found_by_their_paths() -> None:
    """Objects of authors within one are found, wherever they are; the host's are not looked into."""
    one, other, host = Plain(), Plain(), Plain()
    log = logging.getLogger("x")
    one.__dict__ |= {"other": other, "host": host, "log": log, "lock": threading.Lock()}
    other.__dict__ |= {"rows": [{"deep": Slotted()}], "back": one, "rule": np.tanh}
    host.__dict__["hidden"] = Plain()
    inner, constants = found_in({"muscle": one}, {"host": host})

    assert ["muscle", "muscle.other", "muscle.other.rows[0]['deep']"] == list(inner)
    assert {"muscle.log": log, "muscle.other.rule": np.tanh} == constants
    assert not found_in({"muscle": lambda: one}, {})[1]  # what it has closed over may change
