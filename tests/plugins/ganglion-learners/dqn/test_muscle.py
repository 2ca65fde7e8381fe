from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import Box, Discrete, Mode, MultiDiscrete
from ganglion_learners.dqn.muscle import DqnMuscle


def _update(outputs: int, exploration: float):
    """Return a policy without hidden layer whose last action is best where the first column is positive."""
    weight = np.zeros((3, outputs), dtype=np.float32)
    weight[0] = np.arange(outputs)
    return {
        "algorithm": "dqn",
        "activation": "relu",
        "exploration": exploration,
        "values.0.weight": weight,
        "values.0.bias": np.zeros(outputs, dtype=np.float32),
    }


def test_takes_the_best_action(halves) -> None:
    """Without exploration it takes the action of highest value, as a value of the space; of equal ones the first."""
    halves.act_on(MultiDiscrete([2, 3], start=[5, 0]))
    muscle = halves.muscle(DqnMuscle, _update(6, 0.0))
    batch = halves.batch(bodies=3)
    batch.observations[:, 0] = [1.0, -1.0, 0.0]

    assert [[6, 2], [5, 0], [5, 0]] == muscle.propose_batch(batch)[0].tolist()


def test_explores_by_the_rate_of_the_update(halves) -> None:
    """In training as many decisions are by chance as the update says; in test none."""
    halves.act_on(Discrete(4))
    batch = halves.batch(bodies=2000)
    batch.observations[:, 0] = 1.0
    shares = [
        float((halves.muscle(DqnMuscle, _update(4, rate), mode).propose_batch(batch)[0] != 3).mean())
        for rate, mode in ((0.4, Mode.TRAIN), (0.0, Mode.TRAIN), (0.4, Mode.TEST))
    ]

    assert pytest.approx([0.3, 0.0, 0.0], abs=0.03) == shares


@pytest.mark.parametrize("exploration", [None, 1.5, "0.1"])
def test_a_rate_that_is_none_is_refused(halves, exploration) -> None:
    """The probability of chance is part of the update."""
    with pytest.raises(ValueError, match=r"exploration: expected a number in \[0, 1\]"):
        halves.muscle(DqnMuscle, {**_update(3, 0.0), "exploration": exploration})


@pytest.mark.parametrize("spaces", [(Discrete(2), Discrete(2)), (Box(0.0, 1.0, ()),), ()])
def test_acts_on_one_discrete_actuator(halves, spaces) -> None:
    """None, two or another kind are refused by name before anything runs."""
    halves.act_on(*spaces)
    with pytest.raises(ValueError, match=r"Discrete or MultiDiscrete|expected discrete"):
        halves.muscle(DqnMuscle)
