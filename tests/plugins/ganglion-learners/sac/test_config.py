from __future__ import annotations

import pytest

from ganglion_learners.sac.brain import SacBrain


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"hidden": [True]}, "hidden: expected"),
        ({"activation": "sine"}, "activation: expected tanh or relu"),
        ({"replay": 0}, "replay: expected a whole number >= 1, found 0"),
        ({"warm_up": 0}, "warm_up: expected a whole number >= 1"),
        ({"warm_up": 200_000}, "warm_up: expected at most replay, 100000, found 200000"),
        ({"minibatch": 0}, "minibatch: expected"),
        ({"train_every": 0}, "train_every: expected"),
        ({"gradient_steps": 0}, "gradient_steps: expected"),
        ({"learning_rate": -1.0}, "learning_rate: expected a finite number above 0"),
        ({"discount": 1.1}, r"discount: expected a number in \[0, 1\]"),
        ({"target_share": 0.0}, "target_share: expected"),
        ({"target_share": 1.5}, "target_share: expected"),
        ({"temperature": 0.0}, "temperature: expected"),
        ({"entropy_target": float("inf")}, "entropy_target: expected a finite number"),
        ({"entropy_target": "auto"}, "entropy_target: expected a finite number"),
        ({"update_every": 0}, "update_every: expected"),
        ({"pretrain_steps": -1}, "pretrain_steps: expected a whole number >= 0"),
        ({"pretrain_caution": -0.1}, "pretrain_caution: expected a finite number >= 0"),
    ],
)
def test_refuses_what_is_out_of_range(make, params, told) -> None:
    """Each parameter has its range, and the message names parameter and value."""
    with pytest.raises(ValueError, match=told):
        make(SacBrain, **params)
