from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)

from ganglion.sdk import ActuatorInformation, Box, Discrete, Mode, SensorInformation, Session
from ganglion_learners import Recording
from ganglion_sb3.codec import Actions, Observations
from ganglion_sb3.recording import Recorded

SEEN, SET = Box(-9.0, 9.0, (2,)), Discrete(3, start=5)
LENGTH = 4


def _session(**more: Any) -> Session:
    """Return an episode whose first reading counts the decisions; nobody knows what followed the last one."""
    seen = np.column_stack([np.arange(LENGTH), np.zeros(LENGTH)]).astype(np.float64)
    given = {
        "sensors": [SensorInformation(None, SEEN, "e.s")],
        "actuators": [ActuatorInformation(5, SET, "e.a")],
        "observations": seen,
        "actions": np.array([[5], [6], [7], [5]]),
        "rewards": np.zeros((LENGTH, 0)),
        "objectives": np.arange(LENGTH, dtype=np.float64),
        "terminated": np.zeros(LENGTH, dtype=bool),
        "truncated": np.zeros(LENGTH, dtype=bool),
        "ticks": np.arange(LENGTH),
        **more,
    }
    return Session("past-1", 2, 1, "a", "e", 0, 3, Mode.TRAIN, reward_ids=[], **given)


def _recording(*sessions: Session) -> Recorded:
    sensors, actuators = [SensorInformation(None, SEEN, "e.s")], [ActuatorInformation(5, SET, "e.a")]
    checked = Recording(sessions, "sb3", sensors, actuators, Actions([("e.a", SET)]).check)
    return Recorded(checked, Observations([("e.s", SEEN)], False))


def test_an_episode_is_cut_where_nobody_knows_how_it_went_on() -> None:
    """The last decision is left out, and the one before it is truncated, with what it led to; one that ended is not."""
    [episode] = _recording(_session())
    assert 3 == len(episode)
    assert [(True, False), (False, False), (False, True)] == [(it.first, it.truncated) for it in episode]
    assert [3.0] == episode[-1].following[:, 0].tolist()

    [ended] = _recording(_session(terminated=np.arange(LENGTH) == LENGTH - 1))
    assert [False, False, False, True] == [it.done for it in ended]


HOLES = np.array([0.0, np.nan, 0.0, 0.0])
OTHER = [SensorInformation(None, SEEN, "e.t")]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"actions": np.full((LENGTH, 1), 8)}, r"action 8 \(column 0\), expected a whole number in \[5, 7\]"),
        ({"actions": np.full((LENGTH, 1), 5.5)}, r"the action 5\.5 \(column 0\)"),
        ({"objectives": HOLES}, "decision 1 has none as an objective"),
        ({"observations": np.full((LENGTH, 2), np.nan)}, r"decision 0 has none as a reading \(column 0\)"),
        ({"sensors": OTHER}, r"expected the sensors e\.s, found e\.t"),
        ({"actuators": []}, r"expected the actuators e\.a, found $"),
    ],
)
def test_what_does_not_fit_is_refused(changed: Any, told: str) -> None:
    """The message names the session and what is wrong with it."""
    place = "sb3 cannot learn from run past-1, phase 2, agent a, worker 1, episode 3: "
    with pytest.raises(ValueError, match=f"{place}.*{told}"):
        list(_recording(_session(**changed)))


def test_a_recording_without_decisions_is_refused() -> None:
    """Nobody is to believe that something was learned of nothing."""
    with pytest.raises(ValueError, match="found none in 0 sessions"):
        list(_recording())
