from __future__ import annotations

import pytest

from ganglion_learners.dqn.brain import DqnBrain


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"hidden": [0]}, "hidden: expected"),
        ({"activation": "sine"}, "activation: expected tanh or relu"),
        ({"replay": 0}, "replay: expected a whole number >= 1, found 0"),
        ({"warm_up": 60_000}, "warm_up: expected at most replay, 10000, found 60000"),
        ({"minibatch": 1.5}, "minibatch: expected a whole number"),
        ({"train_every": 0}, "train_every: expected"),
        ({"gradient_steps": 0}, "gradient_steps: expected"),
        ({"learning_rate": 0.0}, "learning_rate: expected a finite number above 0"),
        ({"learning_rate_least": 0.0}, "learning_rate_least: expected"),
        ({"learning_rate_decisions": 0}, "learning_rate_decisions: expected"),
        ({"discount": 1.1}, r"discount: expected a number in \[0, 1\]"),
        ({"target_every": 0}, "target_every: expected"),
        ({"target_share": 0.0}, "target_share: expected"),
        ({"target_share": 1.5}, "target_share: expected"),
        ({"exploration": 2.0}, "exploration: expected"),
        ({"exploration_least": -1.0}, "exploration_least: expected"),
        ({"exploration_decisions": 0}, "exploration_decisions: expected"),
        ({"gradient_norm": 0.0}, "gradient_norm: expected"),
        ({"update_every": 0}, "update_every: expected"),
        ({"pretrain_steps": -1}, "pretrain_steps: expected a whole number >= 0"),
        ({"pretrain_caution": -0.1}, "pretrain_caution: expected a finite number >= 0"),
    ],
)
def test_refuses_what_is_out_of_range(make, params, told) -> None:
    """Each parameter has its range, and the message names parameter and value."""
    with pytest.raises(ValueError, match=told):
        make(DqnBrain, **params)


@pytest.mark.usefixtures("halves")
def test_rates_fall_linearly_to_their_least(make) -> None:
    """Exploration and learning rate go from the first value to the least, and stay there."""
    given = {"exploration": 0.8, "exploration_least": 0.2, "exploration_decisions": 10}
    rates = {"learning_rate": 0.3, "learning_rate_least": 0.1, "learning_rate_decisions": 4}
    config = make(DqnBrain, **given, **rates).config

    assert [0.8, 0.5, 0.2, 0.2] == pytest.approx([config.exploration_at(n) for n in (0, 5, 10, 99)])
    assert [0.3, 0.2, 0.1, 0.1] == pytest.approx([config.rate_at(n) for n in (0, 2, 4, 99)])
