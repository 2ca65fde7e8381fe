"""DQN: networks by hand, when it trains and sends, how it acts."""

from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import Discrete, Mode, MultiDiscrete
from ganglion_learners.dqn.brain import DqnBrain
from ganglion_learners.dqn.muscle import DqnMuscle

torch = pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
from ganglion_learners.dqn.networks import Values  # noqa: E402 - it needs torch


def _values(learned, slow) -> Values:
    """Return networks without hidden layer whose weights are given: values are observation times weights."""
    values = Values(np.random.default_rng(1), 1, 2, [], "relu")
    for parameters, weights in ((values.parameters, learned), (values.target, slow)):
        parameters.load({"values.0.weight": np.array([weights]), "values.0.bias": np.zeros(2)})
    return values


def test_targets_by_hand() -> None:
    """The learned network says which action is best, the slow one what it is worth; nothing follows a mask of 0."""
    values = _values(learned=[1.0, 2.0], slow=[5.0, 3.0])
    found = values.targets(
        torch.tensor([1.0, 1.0, 1.0]), torch.tensor([[1.0], [-1.0], [1.0]]), torch.tensor([1.0, 1.0, 0.0]), 0.5
    )

    assert [1.0 + 0.5 * 3.0, 1.0 + 0.5 * -5.0, 1.0] == found.tolist()


def test_the_loss_by_hand() -> None:
    """Of the taken actions, half the square of small errors and the size of large ones less a half; their mean."""
    values = _values(learned=[1.0, 2.0], slow=[0.0, 0.0])
    loss = values.loss(torch.tensor([[1.0], [1.0]]), torch.tensor([0, 1]), torch.tensor([1.5, 5.0]))

    assert pytest.approx((0.5 * 0.25 + 2.5) / 2) == loss.item()


def test_caution_by_hand() -> None:
    """It adds how far the soft maximum of all values is above that of the taken action, and holds the others down."""
    values = _values(learned=[1.0, 2.0], slow=[0.0, 0.0])
    given = torch.tensor([[1.0]]), torch.tensor([0]), torch.tensor([1.0])  # without an error
    loss = values.loss(*given, caution=0.5)
    gradient = values.parameters.gradient(loss)[2:]  # of the biases

    assert pytest.approx(0.5 * (np.log(np.exp(1) + np.exp(2)) - 1.0), rel=1e-6) == loss.item()
    assert gradient[0] < 0 < gradient[1]


PARAMS = {"warm_up": 8, "train_every": 4, "gradient_steps": 3, "target_every": 5, "minibatch": 8, "hidden": [16]}


def test_trains_when_it_is_due(halves) -> None:
    """After the warm-up every fourth decision has three steps, and the target follows every fifth of these."""
    brain = halves.brain(DqnBrain, **PARAMS)
    steps, equal, sent = [], [], []
    for batch in halves.rows(16):
        sent.append(brain.learn(batch) is not None)
        steps.append(brain._adam.steps)
        equal.append(bool((brain.networks.parameters.flat == brain.networks.target.flat).all()))

    assert [0] * 7 + [3] * 4 + [6] * 4 + [9] == steps
    assert [True] * 7 + [False] * 9 == equal
    assert [8, 12, 16] == [i + 1 for i, it in enumerate(sent) if it]


@pytest.mark.parametrize(("every", "expected"), [(1, [8, 12, 16]), (5, [10, 15]), (8, [8, 16])])
def test_sends_what_has_changed_when_it_is_due(halves, every, expected) -> None:
    """A policy goes out after a decision whose number is a multiple, if it has been trained since."""
    brain = halves.brain(DqnBrain, **{**PARAMS, "update_every": every})
    sent = [brain.learn(batch) is not None for batch in halves.rows(16)]

    assert expected == [i + 1 for i, it in enumerate(sent) if it]


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
