from __future__ import annotations

import numpy as np
import pytest

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


def test_the_target_begins_equal_and_is_not_learned() -> None:
    """Both begin with the same weights; the gradient is of the learned ones only."""
    values = Values(np.random.default_rng(1), 3, 2, [8], "relu")
    before = values.target.flat.clone()
    gradient = values.parameters.gradient(values.parameters.forward("values", torch.ones(1, 3), "relu").sum())

    assert torch.equal(values.parameters.flat, values.target.flat)
    assert len(gradient) == len(before)
    assert torch.equal(before, values.target.flat)
