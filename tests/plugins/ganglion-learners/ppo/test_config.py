from __future__ import annotations

import pytest

from ganglion_learners.ppo.brain import PpoBrain


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"hidden": 64}, "hidden: expected"),
        ({"activation": "sine"}, "activation: expected tanh or relu"),
        ({"rollout": 1}, "rollout: expected a whole number >= 2, found 1"),
        ({"minibatch": 1}, "minibatch: expected a whole number >= 2, found 1"),
        ({"epochs": 0}, "epochs: expected a whole number >= 1"),
        ({"learning_rate": 0.0}, "learning_rate: expected a finite number above 0"),
        ({"discount": 1.1}, r"discount: expected a number in \[0, 1\]"),
        ({"trace_decay": -0.1}, "trace_decay: expected"),
        ({"clip": 0.0}, "clip: expected"),
        ({"entropy_weight": -1.0}, "entropy_weight: expected a finite number >= 0"),
        ({"value_weight": 0.0}, "value_weight: expected"),
        ({"gradient_norm": 0.0}, "gradient_norm: expected"),
        ({"anneal_decisions": 0}, "anneal_decisions: expected"),
        ({"pretrain_epochs": 0}, "pretrain_epochs: expected a whole number >= 1"),
    ],
)
def test_refuses_what_is_out_of_range(make, params, told) -> None:
    """Each parameter has its range, and the message names parameter and value."""
    with pytest.raises(ValueError, match=told):
        make(PpoBrain, **params)


@pytest.mark.usefixtures("halves")
def test_rates_fall_linearly_where_they_are_told_to(make) -> None:
    """Without `anneal_decisions` they stay; with it nothing is left after so many."""
    config = make(PpoBrain, anneal_decisions=100).config

    assert [1.0, 0.5, 0.0, 0.0] == [config.share_left(n) for n in (0, 50, 100, 200)]
    assert 1.0 == make(PpoBrain).config.share_left(10**9)
