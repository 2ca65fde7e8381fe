from __future__ import annotations

import pytest

from ganglion.sdk import EpisodeView, Mode, PhaseView, Signal, WorkerView
from ganglion_conditions.environment import EnvironmentCondition


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
