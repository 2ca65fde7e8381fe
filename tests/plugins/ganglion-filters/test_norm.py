from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import Box, Discrete, SensorInformation
from ganglion_filters.norm import Norm

SENSORS = {"a": Box(-100.0, 100.0, ()), "b": Discrete(9)}


def brain_half(**params: Any) -> Norm:
    """Return a brain's half."""
    made = Norm(**params)
    made.declare([SensorInformation(None, space, uid) for uid, space in SENSORS.items()], [])
    return made


def test_the_brain_publishes_what_the_muscles_apply(chain: Callable[..., Any]) -> None:
    """Two rows of all muscles make a batch: a 1, 3 (mean 2, variance 1), b 0, 8 (mean 4, variance 16)."""
    muscle, brain = chain(Norm(epsilon=1e-30, batch_size=2), SENSORS), brain_half(batch_size=2)
    data = []
    for worker, (a, b) in enumerate([(1.0, 0), (3.0, 8)]):
        muscle.see(a=a, b=b)
        data.append(brain.brain_pre_process(f"x/{worker}", muscle.set(data={"n": worker})[1]))
        assert worker + 1.0 == brain.brain_objective(f"x/{worker}", worker + 1.0)
        published = brain.publish()
        assert (published is None) == (worker == 0)

    assert ([{"n": 0}, {"n": 1}], None) == (data, brain.publish())
    assert published is not None
    muscle.filters[0].receive(published)
    assert {"a": 3.0, "b": 1.0} == muscle.see(a=5.0, b=8)


def test_objectives_are_normalised_from_a_row_on() -> None:
    """Rows before it are as they are; None stays None and is a row; the bound is that of objectives."""
    made = brain_half(batch_size=2, norm_objective_after=3, epsilon=1e-30, clip_reward=2.0)
    found = [made.brain_objective("x/0", o) for o in (1.0, 3.0, None, 5.0, 4.0, 100.0)]

    # (1, 3): mean 2, variance 1 for 5; then (1, 3, 5, 4): mean 3.25, variance 35/16
    assert [1.0, 3.0, None, 2.0] == found[:4]
    assert found[4:] == [pytest.approx(0.75 / np.sqrt(35 / 16)), 2.0]


def test_infinity_has_a_place_but_no_mean() -> None:
    """It is clipped as others are, and does not count: what comes after is as without it."""
    made = brain_half(batch_size=2, norm_objective_after=0, epsilon=1e-30, clip_reward=2.0)
    found = [made.brain_objective("x/0", o) for o in (np.inf, 1.0, -np.inf, 3.0, 2.0)]

    assert [2.0, 1.0, -2.0, 1.0, 0.0] == found


@pytest.mark.parametrize(
    "params", [{"clip_obs": 0}, {"epsilon": -1.0}, {"batch_size": 0}, {"norm_objective_after": -1}]
)
def test_params_have_bounds(params: dict[str, Any]) -> None:
    """What is out of them is named."""
    with pytest.raises(ValueError, match=next(iter(params))):
        Norm(**params)
