from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import DocumentError, StoreError
from ganglion.sdk import ActuatorInformation, Box, Discrete, SensorInformation
from ganglion.wire.messages import BrainPretrain
from ganglion_replay.spooled import Kin, Sessions

Spooled = Callable[..., BrainPretrain]
COUNT, LAMPS = Discrete(9), Box(-1.0, 1.0, (2,), np.float32)
SENSORS = [SensorInformation(None, COUNT, "w.s"), SensorInformation(None, LAMPS, "w.lamps")]
ACTUATORS = [ActuatorInformation(None, COUNT, "w.a")]


def of(told: BrainPretrain, sensors: Any = SENSORS, actuators: Any = ACTUATORS) -> Sessions:
    """Return the sessions that a brain is told of."""
    return Sessions(Path(told.folder), told.sha256, [Kin((), sensors, actuators)])


def test_it_is_a_sequence_that_can_be_run_through_again(spooled: Spooled) -> None:
    """Iteration, indices from both ends and slices agree, however often."""
    sessions = of(spooled())

    for _ in range(2):
        assert [0, 1, 2] == [session.episode for session in sessions]
    assert [2, 0] == [sessions[-1].episode, sessions[-3].episode]
    assert [1, 2] == [session.episode for session in sessions[1:]]
    assert [2, 1, 0] == [session.episode for session in reversed(sessions)]
    with pytest.raises(IndexError):
        sessions[3]


def test_missing_rewards_are_not_a_number(spooled: Spooled, recording: Any) -> None:
    """Rewards of integers stay integers where all are there."""
    source, episode = recording
    given = episode(2)
    given.steps["rewards"][:] = [[1.0], [np.nan], [2.0]]
    whole = [["w.r", "Discrete(9)"]]
    first, second = of(spooled((source(rewards=whole), [given]), (source(rewards=whole), [episode(2, steps=1)])))

    assert ("f", True) == (first.rewards.dtype.kind, bool(np.isnan(first.rewards[1, 0])))
    assert ("i", [[2]]) == (second.rewards.dtype.kind, second.rewards.tolist())


def test_what_is_strict_fits_or_is_refused(spooled: Spooled, recording: Any) -> None:
    """A strict entry without a column is refused by its place; another one leaves the column out."""
    source, episode = recording
    more = [*SENSORS, SensorInformation(None, COUNT, "w.more")]

    with pytest.raises(DocumentError, match=r"run.yml:3:4: a.replay.0: `w.more` was not recorded in run old-1"):
        of(spooled(), more)
    sessions = of(spooled((source(strict=False), [episode(0)])), more)
    assert (["w.more"], ["w.s", "w.lamps"]) == (sessions.missing, list(sessions[0].readings))


def test_a_damaged_chunk_is_remembered(spooled: Spooled) -> None:
    """What went wrong is kept for the bus, whatever the author makes of it."""
    told = spooled()
    sessions = of(told)
    (Path(told.folder) / "00000.npz").unlink()

    with pytest.raises(StoreError, match="is gone") as caught:
        list(sessions)
    assert caught.value is sessions.failure


def test_there_has_to_be_an_index(tmp_path: Path) -> None:
    """Who is told of episodes and finds none does not go on without."""
    with pytest.raises(StoreError, match="there is no index"):
        of(BrainPretrain(str(tmp_path), "00"))
