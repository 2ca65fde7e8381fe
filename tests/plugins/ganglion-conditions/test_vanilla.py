from __future__ import annotations

from ganglion.sdk import EpisodeMeans, EpisodeView, Mode, PhaseView, Signal, WorkerView
from ganglion_conditions.vanilla import VanillaCondition


def test_ends_episodes_as_environments_do(make) -> None:
    """The episode part is that of `environment`, under its name."""
    condition = make(VanillaCondition)
    running = EpisodeView(0, Mode.TRAIN, 0, 1, {"a": False}, {"a": False})
    ended = EpisodeView(0, Mode.TRAIN, 0, 1, {"a": True}, {"a": False})

    assert [Signal.CONTINUE, Signal.RESET] == [condition.episode(view) for view in (running, ended)]
    assert ("environment", "terminated") == (condition.issuer, condition.reason)


def test_ends_phases_by_their_episodes(make) -> None:
    """The phase part is that of `max_episodes`, under its name; an ended environment ends no phase."""
    condition = make(VanillaCondition)
    workers = [WorkerView(0, [EpisodeMeans(0, 10)])]

    assert {} == condition.phase(PhaseView(Mode.TRAIN, workers, [0], {"a": True}, episodes=2))
    assert Signal.STOP_PHASE is condition.phase(PhaseView(Mode.TRAIN, workers, [0], {"a": True}, episodes=1))
    assert ("max_episodes", "max_episodes") == (condition.issuer, condition.reason)
