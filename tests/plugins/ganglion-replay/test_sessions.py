from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import DocumentError, StoreError
from ganglion.sdk import ActuatorInformation, Box, Discrete, SensorInformation, Space
from ganglion.wire.messages import BrainPretrain
from ganglion_replay import sessions as module
from ganglion_replay import spool as spool_module
from ganglion_replay.sessions import Pick, Sessions, unlike

Spooled = Callable[..., BrainPretrain]
COUNT, LAMPS = Discrete(9), Box(-1.0, 1.0, (2,), np.float32)
SENSORS = [SensorInformation(None, COUNT, "w.s"), SensorInformation(None, LAMPS, "w.lamps")]
ACTUATORS = [ActuatorInformation(None, COUNT, "w.a")]


def of(told: BrainPretrain, sensors: Any = SENSORS, actuators: Any = ACTUATORS) -> Sessions:
    """Return the sessions that a brain is told of."""
    return Sessions(Path(told.folder), told.sha256, sensors, actuators)


def test_a_session_has_what_was_recorded(spooled: Spooled) -> None:
    """Values, flags and keys are those of the episode, columns in the order of declarations."""
    sessions = of(spooled())
    session = sessions[1]

    assert (3, 9, []) == (len(sessions), sessions.decisions, sessions.missing)
    assert ("old-1", 0, "a/0", "w", 1, "test", 101) == (
        session.run, session.phase, session.muscle, session.environment, session.episode, session.mode.value,
        session.seed,
    )  # fmt: skip
    assert [1, 2, 3, 4] == session.readings["w.s"].tolist()
    assert np.allclose([0.1, -0.1], session.readings["w.lamps"][0])
    assert [1, 2, 3] == session.setpoints["w.a"].tolist()
    assert ([[1.0], [1.5], [2.0]], ("w.r",)) == (session.rewards.tolist(), tuple(session.reward_ids))
    assert [True, False, False] == np.isnan(session.objectives).tolist()
    assert [False, False, True] == session.terminated.tolist()
    assert session.has_final


def test_columns_are_ordered_and_typed_as_declared(spooled: Spooled) -> None:
    """Whoever declares another order sees that order; dtypes are those of the array API."""
    (session, *_) = of(spooled(), SENSORS[::-1])

    assert np.allclose([0.0, 0.1, 0.2, 0.3], session.observations[:, 0])
    assert [0, 1, 2, 3] == session.observations[:, 2].tolist()
    assert np.result_type(LAMPS.dtype, COUNT.dtype) == session.observations.dtype
    assert COUNT.dtype == session.actions.dtype


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


def test_entries_are_repeated_one_behind_the_other(spooled: Spooled, recording: Any) -> None:
    """An entry is shown as often as it says, before the next; it is counted as often too."""
    source, episode = recording
    told = spooled(
        (source(repeat=2), [episode(0), episode(1)]),
        (source(run="none"), []),
        (source(run="old-2", repeat=3), [episode(5, steps=1)]),
    )
    sessions = of(told)

    assert (7, 15) == (len(sessions), sessions.decisions)
    assert [0, 1, 0, 1, 5, 5, 5] == [session.episode for session in sessions]
    assert ["old-1"] * 4 + ["old-2"] * 3 == [source.run for source, _ in sessions.with_sources()]


def test_one_chunk_is_held(spooled: Spooled, recording: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass reads each chunk once, in order, and holds no other meanwhile."""
    source, episode = recording
    monkeypatch.setattr(spool_module, "REPLAY_CHUNK_SESSIONS", 2)
    sessions = of(spooled((source(repeat=2), [episode(i) for i in range(5)])))
    read: list[str] = []
    real = spool_module.read_chunk

    def counted(folder: Path, chunk: Any) -> Any:
        read.append(chunk.file)
        return real(folder, chunk)

    monkeypatch.setattr(module, "read_chunk", counted)
    assert [0, 1, 2, 3, 4] * 2 == [session.episode for session in sessions]
    assert ["00000.npz", "00001.npz", "00002.npz"] * 2 == read


def test_a_session_without_closing_readings_says_so(spooled: Spooled, recording: Any) -> None:
    """Where the closing readings are not there, the next session still begins where it begins."""
    source, episode = recording
    sessions = of(spooled((source(), [episode(0, final=False), episode(5)])))

    assert [(False, 3), (True, 4)] == [(s.has_final, len(s.observations)) for s in sessions]
    assert [5, 6, 7, 8] == sessions[1].readings["w.s"].tolist()


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


@pytest.mark.parametrize(
    ("declared", "recorded", "strict", "lenient"),
    [
        (Discrete(9), Discrete(9), False, False),
        (Discrete(9), Discrete(8), True, True),
        (Box(-1.0, 1.0, (2,)), Box(-5.0, 5.0, (2,)), True, False),
        (Box(-1.0, 1.0, (2,)), Box(-1.0, 1.0, (3,)), True, True),
        (Box(-1.0, 1.0, (2,)), Box(-1.0, 1.0, (2,), np.float32), True, True),
        (Box(-1.0, 1.0, ()), Discrete(2), True, True),
    ],
)
def test_spaces_are_compared(declared: Space, recorded: Space, strict: bool, lenient: bool) -> None:
    """Strictly they are equal; else boxes of one form may have other bounds, since nothing else would change."""
    assert (strict, lenient) == (unlike(declared, recorded, True), unlike(declared, recorded, False))


def test_columns_that_nobody_declares_are_named() -> None:
    """A pick knows what is there in vain, and what is missing or of another space."""
    pick = Pick(SENSORS, [["w.lamps", "Discrete(2)"], ["w.x", "Discrete(2)"], ["w.s", "Discrete(9)"]], False)

    assert (["w.s"], ["w.lamps"], ["w.x"]) == ([it.uid for it in pick.taken], pick.missing, pick.spare)
    assert [[7]] == pick(np.array([[1, 2, 7]])).tolist()


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
