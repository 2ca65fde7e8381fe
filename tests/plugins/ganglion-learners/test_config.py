"""Parameters of the deep learners and of sarsa: each has its range, and rates fall as they say."""

from __future__ import annotations

from typing import Any

import pytest

from ganglion.sdk import PluginInvalid
from ganglion_learners.dqn.brain import DqnBrain
from ganglion_learners.ppo.brain import PpoBrain
from ganglion_learners.sac.brain import SacBrain
from ganglion_learners.sarsa.brain import SarsaBrain

LIMITS: dict[Any, str] = {  # a value that is out of its range, and what was expected instead
    0: "a whole number >= 1, found 0",
    1: "a whole number >= 2, found 1",
    -1: "a whole number >= 0",
    -7.0: "a finite number above 0",
    1.1: r"a number in \[0, 1\]",
    -0.1: "a finite number >= 0",
    "sine": "tanh or relu",
    float("inf"): "a finite number",
}
RANGES: dict[Any, dict[str, Any]] = {
    DqnBrain: {
        "activation": "sine", "replay": 0, "train_every": 0, "gradient_steps": 0, "learning_rate": -7.0, "minibatch": 0,
        "learning_rate_least": -7.0, "learning_rate_decisions": 0, "discount": 1.1, "target_every": 0,
        "exploration": 1.1, "exploration_least": 1.1, "exploration_decisions": 0, "gradient_norm": -7.0,
        "update_every": 0, "pretrain_steps": -1, "pretrain_caution": -0.1, "warm_up": 0,
    },
    PpoBrain: {
        "activation": "sine", "rollout": 1, "minibatch": 1, "epochs": 0, "learning_rate": -7.0, "discount": 1.1,
        "trace_decay": 1.1, "clip": -7.0, "entropy_weight": -0.1, "value_weight": -7.0, "gradient_norm": -7.0,
        "anneal_decisions": 0, "pretrain_epochs": 0,
    },
    SacBrain: {
        "activation": "sine", "replay": 0, "warm_up": 0, "minibatch": 0, "train_every": 0, "gradient_steps": 0,
        "learning_rate": -7.0, "discount": 1.1, "temperature": -7.0, "entropy_target": float("inf"), "update_every": 0,
        "pretrain_steps": -1, "pretrain_caution": -0.1,
    },
    SarsaBrain: {
        "order": 0, "step_size": -7.0, "discount": 1.1, "trace_decay": 1.1, "exploration": 1.1,
        "exploration_decay": 1.1, "exploration_least": 1.1, "unbounded": -7.0, "send_every": 0,
    },
}  # fmt: skip
OTHERS = [
    (DqnBrain, {"hidden": [0]}, "hidden: expected"),
    (PpoBrain, {"hidden": 64}, "hidden: expected"),
    (SacBrain, {"hidden": [True]}, "hidden: expected"),
    (DqnBrain, {"target_share": 0.0}, "target_share: expected"),
    (SacBrain, {"target_share": 1.5}, "target_share: expected"),
    (DqnBrain, {"warm_up": 60_000}, "warm_up: expected at most replay, 10000, found 60000"),
    (SacBrain, {"warm_up": 200_000}, "warm_up: expected at most replay, 100000, found 200000"),
    (SacBrain, {"entropy_target": "auto"}, "entropy_target: expected a finite number"),
    (SarsaBrain, {"discount": 1.0}, "initial_value: expected a number given where discount is 1"),
]
REFUSED = [(cls, {k: v}, f"{k}: expected {LIMITS[v]}") for cls, row in RANGES.items() for k, v in row.items()] + OTHERS


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize(("cls", "params", "told"), REFUSED)
def test_refuses_what_is_out_of_range(make, cls, params, told) -> None:
    """Each parameter has its range, and the message names parameter and value."""
    with pytest.raises(ValueError, match=told):
        make(cls, **params)


@pytest.mark.usefixtures("halves")
def test_rates_fall_linearly_to_their_least(make) -> None:
    """Rates of DQN go from the first value to the least, and stay there; those of PPO to nothing, if so asked."""
    given = {"exploration": 0.8, "exploration_least": 0.2, "exploration_decisions": 10}
    rates = {"learning_rate": 0.3, "learning_rate_least": 0.1, "learning_rate_decisions": 4}
    config = make(DqnBrain, **given, **rates).config
    annealed = make(PpoBrain, anneal_decisions=100).config

    assert [0.8, 0.5, 0.2, 0.2] == pytest.approx([config.exploration_at(n) for n in (0, 5, 10, 99)])
    assert [0.3, 0.2, 0.1, 0.1] == pytest.approx([config.rate_at(n) for n in (0, 2, 4, 99)])
    assert [1.0, 0.5, 0.0, 0.0] == [annealed.share_left(n) for n in (0, 50, 100, 200)]
    assert 1.0 == make(PpoBrain).config.share_left(10**9)


def test_refuses_an_unknown_parameter(make) -> None:
    """A misspelt parameter is refused by the constructor's signature."""
    with pytest.raises(PluginInvalid, match="parameter 'stepsize' is not taken"):
        make(SarsaBrain, stepsize=0.1)


def test_a_discount_of_one_needs_a_first_value(make) -> None:
    """With a first value given, a discount of 1 is possible."""
    assert 7.0 == make(SarsaBrain, discount=1.0, initial_value=7.0).config.first_value
