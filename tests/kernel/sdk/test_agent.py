from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, OutOfActionSpaceError
from ganglion.sdk.brain import Brain, Transitions, Update, carries_update
from ganglion.sdk.flow import Mode, Signal
from ganglion.sdk.information import ActuatorInformation, SensorInformation
from ganglion.sdk.models import Models
from ganglion.sdk.muscle import Batch, Muscle, objective_value, read_batch_proposal, read_proposal
from ganglion.sdk.spaces import Box, Discrete


class Counting(Brain):
    """Answer with the data, and keep it as the model."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.weights = np.zeros(2)

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        self.seen.append((muscle_id, data_from_muscle))
        return data_from_muscle

    def arrays(self) -> dict[str, Any]:
        return {"weights": self.weights}

    def load_arrays(self, arrays: Any) -> None:
        self.weights = arrays["weights"]


class Async(Counting):
    async def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        return data_from_muscle


def _transitions(*data: Any) -> Transitions:
    k = len(data)
    rows, flags = np.zeros((k, 1)), np.zeros(k, dtype=bool)
    muscles, numbers = [f"a/{i}" for i in range(k)], np.arange(k)
    return Transitions(rows, rows, flags, rows, rows, flags, flags, muscles, [0] * k, numbers, numbers, list(data))


class Ambiguous:
    """Be several numbers of somebody else's, such as a tensor."""

    def __bool__(self) -> bool:
        raise RuntimeError("ambiguous")


@pytest.mark.parametrize(
    ("result", "carries"),
    [
        (None, False),
        (0, False),
        ([], False),
        ({}, False),
        (False, False),
        (1, True),
        ({"a": 0}, True),
        (np.zeros(1), True),
        (np.zeros(0), True),
        (Update(None), False),
        (Update(np.zeros(1), only=["a/0"]), True),
        (Ambiguous(), True),
    ],
)
def test_what_counts_as_an_update(result: Any, carries: bool) -> None:
    """None and what `bool` calls false are none; an array always is one, and so is what has no truth."""
    assert carries is carries_update(result)


def test_the_default_learn_thinks_row_by_row() -> None:
    """In canonical order; the last update of the round is the round's."""
    brain = Counting()

    assert brain.learn(_transitions(1, 2, None)) == 2
    assert [("a/0", 1), ("a/1", 2), ("a/2", None)] == brain.seen
    assert brain.learn(_transitions(None)) is None
    assert len(_transitions(1, 2)) == 2


def test_the_default_learn_says_that_it_cannot_await() -> None:
    """A coroutine is never mistaken for an update."""
    with pytest.raises(AuthorError, match="async"):
        Async().learn(_transitions(1))


def test_arrays_may_be_async(tmp_path: Path) -> None:
    """The defaults of `store` and `load` wait for what their author made `async def`."""
    found: list[Any] = []

    class Slow(Counting):
        async def arrays(self) -> Any:  # type: ignore[override]
            return {"w": np.arange(3)}

        async def load_arrays(self, arrays: Any) -> None:  # type: ignore[override]
            found.append(arrays["w"].tolist())

    async def play() -> None:
        brain = Slow()
        brain.models = Models(tmp_path)
        for hook in (brain.store, brain.load):
            waited = hook()
            assert waited is not None
            await waited

    asyncio.run(play())

    assert [[0, 1, 2]] == found


def test_the_greatest_signal_wins() -> None:
    """Of several signals in one call the greatest goes out, with the first reason given for it; then none is left."""
    brain = Counting()
    assert brain.pop_signal() is None
    brain.signal(Signal.RESET, "stuck")
    brain.signal(Signal.STOP_PHASE, "solved")
    brain.signal(Signal.STOP_PHASE, "again")

    assert (Signal.STOP_PHASE, "solved") == brain.pop_signal()
    assert brain.pop_signal() is None


SPACE = Box(-1, 1, (2,))


def _actuator(uid: str, value: Any, space: Any = None) -> ActuatorInformation:
    return ActuatorInformation(value, space or Discrete(9), uid)


class Echo(Muscle):
    """Set the first actuator to the first reading, the second to a pair; say the body's number."""

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        first, second = actuators_available
        first(sensors[0]())
        second([0.5, sensors[0]() / 10])
        return [second, first], {"seen": sensors[0]()}

    def update(self, update: Any) -> None:
        self.updates = [*getattr(self, "updates", []), update]


def _muscle() -> Echo:
    muscle = Echo()
    muscle.sensors = [SensorInformation(None, Discrete(9), "e.s")]
    muscle.actuators = [_actuator("e.a", 0), _actuator("e.b", None, SPACE)]
    return muscle


@pytest.mark.parametrize(
    ("result", "match"),
    [
        (None, "list of ActuatorInformation"),
        ([1, 2], "list of ActuatorInformation"),
        ([_actuator("a", 1)], "actuator b has no value"),
        ([_actuator("a", 1), _actuator("b", None)], "actuator b has no value"),
        ([_actuator("a", 1), _actuator("c", 1)], "no actuator c; expected a, b"),
        ([_actuator("a", 1), _actuator("a", 2), _actuator("b", 1)], "twice"),
    ],
)
def test_wrong_proposals_are_named(result: Any, match: str) -> None:
    """What lacks, is unknown or comes twice is an author's error with the actuator's id."""
    with pytest.raises(AuthorError, match=match):
        read_proposal(result, ["a", "b"])


def test_the_default_batch_asks_for_one_body_after_the_other() -> None:
    """The rows of `propose_batch` are the vectors of what `propose_actions` gives for each body."""
    readings = np.array([3, 7])
    batch = Batch(readings.reshape(2, 1), {"e.s": readings}, [0, 1], np.zeros(2), np.zeros(2), Mode.TRAIN)
    muscle = _muscle()
    setpoints, data = muscle.propose_batch(batch)  # type: ignore[misc]

    assert [[3, 0.5, 0.3], [7, 0.5, 0.7]] == setpoints.tolist()
    assert [{"seen": 3}, {"seen": 7}] == data
    rows, again = read_batch_proposal((setpoints, data), muscle.actuators, 2)
    assert ([3, 7], data) == ([row[0] for row in rows], again)
    assert [0.5, 0.3] == rows[0][1].tolist()


@pytest.mark.parametrize(
    ("result", "error", "match"),
    [
        (np.zeros((2, 2)), AuthorError, r"\(2, 3\)"),
        (np.zeros((1, 3)), AuthorError, r"\(2, 3\)"),
        ({"e.a": np.zeros(2)}, AuthorError, "actuator e.b: expected 2 values, found none"),
        ({"e.a": np.zeros(1), "e.b": np.zeros((2, 2))}, AuthorError, "e.a: expected 2 values, found array"),
        ({"e.a": 1, "e.b": np.zeros((2, 2))}, AuthorError, "e.a: expected 2 values, found 1"),
        (np.full((2, 3), 0.5), OutOfActionSpaceError, "e.a"),
        ({"e.a": np.full(2, 0.5), "e.b": np.zeros((2, 2))}, OutOfActionSpaceError, "e.a"),
        (np.full((2, 3), 2.0), OutOfActionSpaceError, "e.b"),
    ],
)
def test_wrong_batch_proposals_are_named(result: Any, error: type[Exception], match: str) -> None:
    """Another shape, a missing id, a fraction for an integer: each with the actuator's id."""
    with pytest.raises(error, match=match):
        read_batch_proposal(result, _muscle().actuators, 2)


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (None, None),
        (1.5, 1.5),
        (2, 2.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.array([[3]]), 3.0),
        (np.array(4), 4.0),
    ],
)
def test_numbers(result: Any, value: float | None) -> None:
    """None is no value; a number, also as array of one element, is a float."""
    found = objective_value(result)

    assert (value, type(value)) == (found, type(found))
