"""Conditions that look at environments, steps and episodes."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk import EpisodeMeans, EpisodeView, Mode, PhaseView, Signal, WorkerView
from ganglion_conditions.environment import EnvironmentCondition
from ganglion_conditions.max_episodes import MaxEpisodes
from ganglion_conditions.max_steps import MaxSteps
from ganglion_conditions.mean import mean
from ganglion_conditions.vanilla import VanillaCondition


def _view(terminated: dict[str, bool], truncated: dict[str, bool] | None = None) -> EpisodeView:
    flags = truncated or dict.fromkeys(terminated, False)
    return EpisodeView(0, Mode.TRAIN, 0, 5, terminated=terminated, truncated=flags)


CASES = [
    ("any", {"a": False, "b": False}, False),
    ("any", {"a": False, "b": True}, True),
    ("all", {"a": False, "b": True}, False),
    ("all", {"a": True, "b": True}, True),
    (["a"], {"a": False, "b": True}, False),
    (["a"], {"a": True, "b": False}, True),
    (["a", "b"], {"a": True, "b": False, "c": True}, False),
    (["a", "b"], {"a": True, "b": True, "c": False}, True),
]


@pytest.mark.parametrize(("when", "ended", "over"), CASES)
def test_when_says_which_must_have_ended(make, when, ended, over) -> None:
    """The episode is over, and at phase level the phase, when the environments of `when` have ended."""
    condition = make(EnvironmentCondition, when=when)
    worker = WorkerView(0, ended=tuple(uid for uid, over in ended.items() if over))
    phase = PhaseView(Mode.TRAIN, [WorkerView(1), worker], environments_ended=ended)

    assert (Signal.RESET if over else Signal.CONTINUE) is condition.episode(_view(ended))
    assert (Signal.STOP_PHASE if over else Signal.CONTINUE) is condition.phase(phase)


def test_truncation_is_an_end_too(make) -> None:
    """An environment that is cut off has ended; the reason says which of the two it was."""
    condition = make(EnvironmentCondition)

    assert Signal.RESET is condition.episode(_view({"a": False, "b": False}, {"a": False, "b": True}))
    assert "truncated: environment" == condition.reason
    assert Signal.RESET is condition.episode(_view({"a": True, "b": False}, {"a": False, "b": True}))
    assert "terminated" == condition.reason


@pytest.mark.parametrize("when", ["some", []])
def test_refuses_what_can_mean_nothing(make, when) -> None:
    """Another word, or an empty list, is refused."""
    with pytest.raises(ValueError, match="when: "):
        make(EnvironmentCondition, when=when)


def test_warns_of_an_unknown_environment(make) -> None:
    """An environment that the phase does not have can never end, and is named."""
    document = {"environments": [{"environment": {"uid": "lake", "name": "dummy"}}]}

    assert () == make(EnvironmentCondition).warnings(document)
    assert [] == make(EnvironmentCondition, when=["lake"]).warnings(document)
    assert ["condition can never fire: the phase has no environment 'lak'"] == list(
        make(EnvironmentCondition, when=["lak"]).warnings(document)
    )


def test_fires_at_exactly_n_steps(make) -> None:
    """The signal comes at boundary n, not before; the reason names n."""
    condition = make(MaxSteps, steps=3)
    signals = [condition.episode(EpisodeView(0, Mode.TRAIN, 0, step)) for step in (1, 2, 3)]

    assert [Signal.CONTINUE, Signal.CONTINUE, Signal.RESET] == signals
    assert "truncated: max_steps 3" == condition.reason


@pytest.mark.parametrize("steps", [0, -1, 2.5, "3", True, None])
def test_steps_are_counted_from_one(make, steps) -> None:
    """Anything but an integer of at least 1 is refused."""
    with pytest.raises(ValueError, match="steps: expected an integer >= 1, found"):
        make(MaxSteps, steps=steps)


@pytest.mark.parametrize(
    ("document", "messages"),
    [
        ({"longest_episode": None, "environments": [{}]}, []),
        ({"longest_episode": 5, "environments": [{}]}, []),
        (
            {"longest_episode": 4, "environments": [{}]},
            ["condition can never fire: max_steps 5, this environment ends after 4"],
        ),
        (
            {"longest_episode": 4, "environments": [{}, {}]},
            ["condition can never fire: max_steps 5, the environments end an episode after 4"],
        ),
    ],
)
def test_warns_where_no_episode_is_long_enough(make, document, messages) -> None:
    """A bound beyond the longest episode is told."""
    assert messages == list(make(MaxSteps, steps=5).warnings(document))


def _finished(finished: list[int], asked: list[int], episodes: int | None) -> PhaseView:
    workers = [WorkerView(number, [EpisodeMeans(e, 10) for e in range(count)]) for number, count in enumerate(finished)]
    return PhaseView(Mode.TRAIN, workers, asked=asked, episodes=episodes)


def test_without_a_limit_it_never_fires(make) -> None:
    """`episodes: null` is no limit."""
    assert Signal.CONTINUE is make(MaxEpisodes).phase(_finished([1000], [0], None))


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


NUMBERS = st.floats(-1e12, 1e12)


@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_the_sum_is_exact(values: list[float]) -> None:
    """The sum is rounded once, whatever the order of the values."""
    exact = sum(map(Fraction, values))

    assert float(exact) / len(values) == mean(values)
    assert mean(values) == mean(values[::-1])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1] * 10, 0.1),
        ([1e16, 1.0, -1e16], 1 / 3),
        ([1e308, 1e308], 1e308),
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1.0], -math.inf),
    ],
)
def test_no_sum_is_too_large(values: list[float], expected: float) -> None:
    """Small terms are not lost, and a mean has no greater range than its values."""
    assert expected == mean(values)


def test_infinities_of_both_signs_have_no_mean() -> None:
    """What has no value compares with nothing."""
    assert math.isnan(mean([math.inf, -math.inf]))
