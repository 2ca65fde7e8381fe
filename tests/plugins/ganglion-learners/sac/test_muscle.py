from __future__ import annotations

import math

import numpy as np
import pytest

from ganglion.sdk import Box, Discrete, Mode
from ganglion_learners.sac.brain import SacBrain
from ganglion_learners.sac.muscle import SacMuscle


def _update(centre: float, log_std: float, uniform: bool = False):
    """Return a policy of one column that says the same whatever it sees."""
    return {
        "algorithm": "sac",
        "activation": "relu",
        "uniform": uniform,
        "policy.0.weight": np.zeros((3, 2), dtype=np.float32),
        "policy.0.bias": np.array([centre, log_std], dtype=np.float32),
    }


def test_draws_about_the_centre_and_squashes(halves) -> None:
    """Before squashing the draws have the centre and the spread of the policy; the space contains all setpoints."""
    halves.act_on(Box(-10.0, 30.0, ()))
    columns, _ = halves.muscle(SacMuscle, _update(0.5, -1.0)).propose_batch(halves.batch(bodies=4000))
    raw = np.arctanh((columns - 10.0) / 20.0)

    assert pytest.approx([0.5, math.exp(-1.0)], rel=0.06) == [raw.mean(), raw.std()]
    assert -10.0 <= columns.min() <= columns.max() <= 30.0


def test_is_uniform_until_the_brain_has_warmed_up(halves) -> None:
    """Until then the policy is not asked: every setpoint of the range is as likely; in test it is asked at once."""
    halves.act_on(Box(-10.0, 30.0, ()))
    columns, _ = halves.muscle(SacMuscle, _update(5.0, -5.0, True)).propose_batch(halves.batch(bodies=4000))
    counts, _ = np.histogram(columns, bins=4, range=(-10.0, 30.0))

    assert counts.min() > 850
    assert 29.9 < halves.muscle(SacMuscle, _update(5.0, -5.0, True), Mode.TEST).propose_batch(halves.batch())[0][0, 0]


def test_an_update_that_does_not_say_so_is_refused(halves) -> None:
    """Whether to act by chance alone is part of the update."""
    halves.act_on(Box(-10.0, 30.0, ()))
    with pytest.raises(ValueError, match="uniform: expected a boolean"):
        halves.muscle(SacMuscle, {**_update(0.0, 0.0), "uniform": None})


@pytest.mark.parametrize("spaces", [(Box(0.0, np.inf, ()),), (Discrete(3),), ()])
def test_acts_on_bounded_boxes(halves, spaces) -> None:
    """An open side, a discrete actuator, or none is refused by brain and muscle alike."""
    halves.act_on(*spaces)
    for make, cls in ((halves.muscle, SacMuscle), (halves.brain, SacBrain)):
        with pytest.raises(ValueError, match="expected bounded Box actuators of floats"):
            make(cls)
