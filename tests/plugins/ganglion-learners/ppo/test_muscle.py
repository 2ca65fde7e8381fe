from __future__ import annotations

import math

import numpy as np
import pytest

from ganglion.sdk import Box, Discrete, Mode
from ganglion_learners.ppo.brain import PpoBrain
from ganglion_learners.ppo.muscle import PpoMuscle


def _update(bias, **more):
    """Return a policy that says the same whatever it sees."""
    bias = np.array(bias, dtype=np.float32)
    return {
        "algorithm": "ppo",
        "activation": "tanh",
        "policy.0.weight": np.zeros((3, len(bias)), dtype=np.float32),
        "policy.0.bias": bias,
        **more,
    }


def test_draws_choices_by_their_probability(halves) -> None:
    """Choices come as often as the policy says, each with the logarithm of its probability."""
    halves.act_on(Discrete(3, start=5))
    shares = [0.5, 0.3, 0.2]
    muscle = halves.muscle(PpoMuscle, _update(np.log(shares) + 4.0))
    columns, data = muscle.propose_batch(halves.batch(bodies=4000))
    found = [(columns[:, 0] == 5 + i).mean() for i in range(3)]

    assert pytest.approx(shares, abs=0.03) == found
    np.testing.assert_allclose(data, np.log(np.array(shares))[columns[:, 0] - 5], rtol=1e-6)


@pytest.mark.parametrize("spaces", [(Discrete(3), Discrete(2)), (Box(-1.0, 1.0, (2,)),)])
def test_data_of_many_bodies_are_one_array(halves, spaces) -> None:
    """They travel at once, and a single body's as ever."""
    halves.act_on(*spaces)
    muscle = halves.muscle(PpoMuscle, halves.brain(PpoBrain).policy())
    many, one = (muscle.propose_batch(halves.batch(bodies=n))[1] for n in (5, 1))

    assert (np.ndarray, 5, list, 1) == (type(many), len(many), type(one), len(one))


def test_draws_continuous_columns_about_the_centre(halves) -> None:
    """Mean and spread are those of the policy in units of half the range, with the density beside the raw columns."""
    halves.act_on(Box(-10.0, 30.0, ()))
    muscle = halves.muscle(PpoMuscle, _update([0.5], log_std=np.array([-2.0], dtype=np.float32)))
    columns, data = muscle.propose_batch(halves.batch(bodies=4000))
    raw = np.array(data)[:, 1]

    assert pytest.approx([20.0, 20.0 * math.exp(-2.0)], rel=0.05) == [columns.mean(), columns.std()]
    np.testing.assert_allclose(columns[:, 0], 10.0 + 20.0 * raw, rtol=1e-5)
    density = -0.5 * ((raw - 0.5) / math.exp(-2.0)) ** 2 + 2.0 - 0.5 * math.log(2.0 * math.pi)
    np.testing.assert_allclose(np.array(data)[:, 0], density, rtol=1e-4, atol=1e-5)


def test_clips_to_the_space_and_tells_what_it_had_drawn(halves) -> None:
    """A column beyond its bound is set to the bound, and goes to the brain as it was drawn."""
    halves.act_on(Box(-1.0, 1.0, ()))
    muscle = halves.muscle(PpoMuscle, _update([3.0], log_std=np.array([-3.0], dtype=np.float32)))
    columns, data = muscle.propose_batch(halves.batch())

    assert 1.0 == columns[0, 0]
    assert data[0][1] > 2.0


def test_takes_the_most_likely_in_test(halves) -> None:
    """Without chance: the choice of highest probability, the centre of a column."""
    halves.act_on(Discrete(3, start=5))
    assert [[7]] == halves.muscle(PpoMuscle, _update([0.0, 1.0, 1.5]), Mode.TEST).propose_batch(halves.batch())[
        0
    ].tolist()
    halves.act_on(Box(-10.0, 30.0, ()))
    update = _update([0.5], log_std=np.zeros(1, dtype=np.float32))

    assert [[20.0]] == halves.muscle(PpoMuscle, update, Mode.TEST).propose_batch(halves.batch())[0].tolist()


def test_a_spread_of_other_columns_is_refused(halves) -> None:
    """With Box actuators the spread of each column is part of the update."""
    halves.act_on(Box(-10.0, 30.0, ()))
    for spread in (None, np.zeros(2, dtype=np.float32)):
        with pytest.raises(ValueError, match=r"log_std: expected \(1,\)"):
            halves.muscle(PpoMuscle, _update([0.5], log_std=spread))


def test_mixed_actuators_are_refused(halves) -> None:
    """Discrete and continuous actuators in one agent are refused by brain and muscle alike."""
    for spaces in ((Discrete(2), Box(0.0, 1.0, ())), (Box(0.0, 1.0, ()), Discrete(2)), ()):
        halves.act_on(*spaces)
        for make in (halves.muscle, halves.brain):
            with pytest.raises(ValueError, match=r"expected (discrete|Box) actuators"):
                make(PpoMuscle if make == halves.muscle else PpoBrain)


@pytest.mark.parametrize("spaces", [(Discrete(3),), (Discrete(3), Discrete(2)), (Box(-1.0, 1.0, (2,)),)])
def test_the_brain_agrees_about_probabilities(halves, spaces) -> None:
    """What a muscle says how likely its action was, the brain computes too, up to rounding of float32."""
    import torch

    halves.act_on(*spaces)
    brain = halves.brain(PpoBrain)
    with torch.no_grad():
        brain.networks.parameters.flat.add_(
            torch.from_numpy(brain.rng.normal(scale=0.2, size=len(brain.networks.parameters.flat)).astype(np.float32))
        )
    batch = halves.batch(bodies=200)
    columns, data = halves.muscle(PpoMuscle, brain.policy()).propose_batch(batch)
    box = isinstance(spaces[0], Box)
    told = np.array(data)[:, 0] if box else np.array(data)
    actions = torch.from_numpy(np.array(data)[:, 1:] if box else columns)
    rows = torch.from_numpy(batch.observations.astype(np.float32))
    logs, _ = brain.networks.log_probability(rows, actions)

    np.testing.assert_allclose(told, logs.detach().numpy(), rtol=1e-4, atol=1e-5)
