from __future__ import annotations

import pytest

from ganglion.sdk import EpisodeView, Mode, Signal
from ganglion_conditions.max_steps import MaxSteps


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
