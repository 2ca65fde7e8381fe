from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.sdk import ActuatorInformation, Box, Discrete, Mode, MultiBinary, SensorInformation, Session

SENSORS = (
    SensorInformation(None, Discrete(9, start=-4), "e.count"),
    SensorInformation(None, Box(-1.0, 1.0, (2, 2), np.float32), "e.field"),
)
ACTUATORS = (ActuatorInformation(None, MultiBinary(2), "e.lamps"), ActuatorInformation(None, Discrete(3), "f.gear"))


def _session(steps: int = 3, final: bool = True, **changed: Any) -> Session:
    given: dict[str, Any] = {
        "run": "r",
        "phase": 1,
        "worker": 2,
        "agent": "ada",
        "environment": "e,f",
        "body": 0,
        "episode": 4,
        "mode": Mode.TRAIN,
        "sensors": SENSORS,
        "actuators": ACTUATORS,
        "observations": np.arange(5.0 * (steps + final)).reshape(-1, 5),
        "actions": np.arange(3 * steps).reshape(-1, 3) % 2,
        "rewards": np.arange(1.0 * steps).reshape(-1, 1),
        "reward_ids": ("e.r",),
        "objectives": np.arange(1.0 * steps),
        "terminated": np.zeros(steps, bool),
        "truncated": np.arange(steps) == steps - 1,
        "ticks": np.arange(steps),
    }
    return Session(**(given | changed))


def test_values_are_found_by_id_in_their_shape_and_dtype() -> None:
    """Columns are those of the spaces' vectors in declared order."""
    session = _session()

    assert (["e.count", "e.field"], ["e.lamps", "f.gear"]) == (list(session.readings), list(session.setpoints))
    assert [0, 5, 10, 15] == session.readings["e.count"].tolist()
    assert (4, 2, 2) == session.readings["e.field"].shape
    assert np.float32 == session.readings["e.field"].dtype
    assert [[1, 2], [3, 4]] == session.readings["e.field"][0].tolist()
    assert [[0, 1], [1, 0], [0, 1]] == session.setpoints["e.lamps"].tolist()
    assert session.actions[:, 2].tolist() == session.setpoints["f.gear"].tolist()
    with pytest.raises(KeyError):
        session.readings["e.lamps"]


def test_a_session_of_nothing_is_one() -> None:
    """An episode that was cut before its first decision has no rows, and gives none."""
    session = _session(0)

    assert (0, 0, (1, 2, 2)) == (len(session), len(session.transitions()), session.readings["e.field"].shape)
    assert 0 == len(_session(0, final=False).transitions())


def test_without_closing_readings_the_last_decision_counts_only_if_it_terminated() -> None:
    """A decision whose outcome is not known gives no transition; of one that terminated no outcome is needed."""
    assert 2 == len(_session(final=False).transitions())
    ended = _session(final=False, terminated=np.array([False, False, True]), truncated=np.zeros(3, bool))
    batch = ended.transitions()

    assert not ended.has_final
    assert [1.0, 1.0, 0.0] == batch.bootstrap.tolist()
    assert batch.observations[-1].tolist() == batch.next_observations[-1].tolist()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rewards": np.zeros((2, 1))}, "expected 3 rows of rewards, found 2"),
        ({"observations": np.zeros((5, 5))}, "expected 3 or 4 observations, found 5"),
    ],
)
def test_rows_that_do_not_fit_are_refused(changed: dict[str, Any], message: str) -> None:
    """Columns of other lengths are named with both lengths."""
    with pytest.raises(AuthorError, match=message):
        _session(**changed)
