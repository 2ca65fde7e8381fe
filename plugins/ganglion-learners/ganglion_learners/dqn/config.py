"""Config: the parameters of the learner, checked."""

from __future__ import annotations

from dataclasses import dataclass

from ganglion_learners.parameter import (
    Activation,
    Config,
    Count,
    Fraction,
    Hidden,
    Positive,
    Share,
    Uid,
    Weight,
    Whole,
    expect,
)

__all__ = ["DqnConfig"]


@dataclass(frozen=True)
class DqnConfig(Config):
    """Hold the parameters of `DqnBrain`, whose docstring describes them."""

    hidden: Hidden = (128, 128)
    activation: Activation = "relu"
    replay: Whole = 10_000
    warm_up: Whole = 1000
    minibatch: Whole = 128
    train_every: Whole = 1
    gradient_steps: Whole = 1
    learning_rate: Positive = 0.0005
    learning_rate_least: Positive = 0.0001
    learning_rate_decisions: Whole = 50_000
    discount: Fraction = 0.99
    target_every: Whole = 1
    target_share: Share = 0.005
    exploration: Fraction = 1.0
    exploration_least: Fraction = 0.02
    exploration_decisions: Whole = 5_000
    gradient_norm: Positive = 10.0
    update_every: Whole = 4
    pretrain_steps: Count | None = None
    pretrain_caution: Weight = 1.0
    table: Uid | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        expect(self.warm_up <= self.replay, "warm_up", f"at most replay, {self.replay}", self.warm_up)

    def exploration_at(self, decisions: int) -> float:
        """Return the probability of a random action after so many decisions."""
        share = min(1.0, decisions / self.exploration_decisions)
        return self.exploration + share * (self.exploration_least - self.exploration)

    def rate_at(self, decisions: int) -> float:
        """Return the learning rate after so many decisions."""
        share = min(1.0, decisions / self.learning_rate_decisions)
        return self.learning_rate + share * (self.learning_rate_least - self.learning_rate)
