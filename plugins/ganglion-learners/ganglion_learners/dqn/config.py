"""Config: what can be chosen about the learner, with what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ganglion_learners.parameter import (
    expect,
    expect_fraction,
    expect_hidden,
    expect_positive,
    expect_weight,
    expect_whole,
)

__all__ = ["DqnConfig"]


@dataclass(frozen=True, slots=True)
class DqnConfig:
    """Hold the parameters of `DqnBrain`; its docstring says what they mean.

    Raises:
        ValueError: A parameter is outside its range; the message names it.
    """

    hidden: Sequence[int]
    activation: str
    replay: int
    warm_up: int
    minibatch: int
    train_every: int
    gradient_steps: int
    learning_rate: float
    learning_rate_least: float
    learning_rate_decisions: int
    discount: float
    target_every: int
    target_share: float
    exploration: float
    exploration_least: float
    exploration_decisions: int
    gradient_norm: float
    update_every: int
    pretrain_steps: int | None
    pretrain_caution: float

    def __post_init__(self) -> None:
        if self.pretrain_steps is not None:
            expect_whole("pretrain_steps", self.pretrain_steps, least=0)
        expect_weight("pretrain_caution", self.pretrain_caution)
        expect_hidden(self.hidden, self.activation)
        whole = "replay warm_up minibatch train_every gradient_steps target_every update_every"
        for name in (*whole.split(), "exploration_decisions", "learning_rate_decisions"):
            expect_whole(name, getattr(self, name))
        expect(self.warm_up <= self.replay, "warm_up", f"at most replay, {self.replay}", self.warm_up)
        for name in ("learning_rate", "learning_rate_least", "gradient_norm", "target_share"):
            expect_positive(name, getattr(self, name))
        for name in ("discount", "exploration", "exploration_least", "target_share"):
            expect_fraction(name, getattr(self, name))

    def exploration_at(self, decisions: int) -> float:
        """Return the probability of a random action after so many decisions."""
        share = min(1.0, decisions / self.exploration_decisions)
        return self.exploration + share * (self.exploration_least - self.exploration)

    def rate_at(self, decisions: int) -> float:
        """Return the learning rate after so many decisions."""
        share = min(1.0, decisions / self.learning_rate_decisions)
        return self.learning_rate + share * (self.learning_rate_least - self.learning_rate)
