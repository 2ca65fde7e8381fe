from __future__ import annotations

import pytest

from ganglion.sdk.condition import EpisodeView, PhaseView, TerminationCondition, WorkerView
from ganglion.sdk.flow import Mode, Signal


def test_the_base_goes_on() -> None:
    """A part that is not overridden never ends anything, warns of nothing and keeps nothing."""
    condition = TerminationCondition()

    assert Signal.CONTINUE == condition.episode(EpisodeView(0, Mode.TRAIN, 0, 1))
    assert Signal.CONTINUE == condition.phase(PhaseView(Mode.TRAIN, [WorkerView(0)]))
    assert ((), {}, "") == (condition.warnings({}), condition.state(), condition.reason)
    condition.restore({})


def test_views_know_who_has_ended() -> None:
    """Environments are told in document order; either flag ends one."""
    view = EpisodeView(0, Mode.TRAIN, 0, 1, {"b": False, "a": True, "c": False}, {"b": False, "a": False, "c": True})

    assert (("b", "a", "c"), ("a", "c")) == (view.environments, view.ended)


def test_views_are_frozen() -> None:
    """A condition sees and changes nothing."""
    view = PhaseView(Mode.TRAIN, [])
    with pytest.raises(AttributeError):
        view.episodes = 3  # type: ignore[misc]
