"""Config: what can be chosen about the learner, with what is refused."""

from __future__ import annotations

from dataclasses import dataclass

from ganglion_learners.parameter import (
    Activation,
    Config,
    Count,
    Finite,
    Fraction,
    Hidden,
    Positive,
    Share,
    Uid,
    Weight,
    Whole,
    expect,
)

__all__ = ["SacConfig"]


@dataclass(frozen=True)
class SacConfig(Config):
    """Hold the parameters of `SacBrain`; its docstring says what they mean."""

    hidden: Hidden = (64, 64)
    activation: Activation = "relu"
    replay: Whole = 100_000
    warm_up: Whole = 1000
    minibatch: Whole = 128
    train_every: Whole = 1
    gradient_steps: Whole = 1
    learning_rate: Positive = 0.001
    discount: Fraction = 0.99
    target_share: Share = 0.005
    temperature: Positive = 1.0
    entropy_target: Finite | None = None
    update_every: Whole = 4
    pretrain_steps: Count | None = None
    pretrain_caution: Weight = 1.0
    table: Uid | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        expect(self.warm_up <= self.replay, "warm_up", f"at most replay, {self.replay}", self.warm_up)
