from __future__ import annotations

from ganglion.sdk import EpisodeMeans, Mode, PhaseView, Signal, WorkerView
from ganglion_conditions.max_episodes import MaxEpisodes


def _view(finished: list[int], asked: list[int], episodes: int | None) -> PhaseView:
    workers = [WorkerView(number, [EpisodeMeans(e, 10) for e in range(count)]) for number, count in enumerate(finished)]
    return PhaseView(Mode.TRAIN, workers, asked=asked, episodes=episodes)


def test_without_a_limit_it_never_fires(make) -> None:
    """`episodes: null` is no limit."""
    assert Signal.CONTINUE is make(MaxEpisodes).phase(_view([1000], [0], None))
