from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, OutOfActionSpaceError
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import ActuatorInformation, SensorInformation
from ganglion.sdk.muscle import Batch, Muscle, read_batch_proposal, read_proposal
from ganglion.sdk.spaces import Box, Discrete

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
