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

__all__ = ["SacConfig"]


@dataclass(frozen=True, slots=True)
class SacConfig:
    """Hold the parameters of `SacBrain`; its docstring says what they mean.

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
    discount: float
    target_share: float
    temperature: float
    entropy_target: float | None
    update_every: int
    pretrain_steps: int | None
    pretrain_caution: float

    def __post_init__(self) -> None:
        if self.pretrain_steps is not None:
            expect_whole("pretrain_steps", self.pretrain_steps, least=0)
        expect_weight("pretrain_caution", self.pretrain_caution)
        expect_hidden(self.hidden, self.activation)
        for name in ["replay", "warm_up", "minibatch", "train_every", "gradient_steps", "update_every"]:
            expect_whole(name, getattr(self, name))
        expect(self.warm_up <= self.replay, "warm_up", f"at most replay, {self.replay}", self.warm_up)
        for name in ("learning_rate", "target_share", "temperature"):
            expect_positive(name, getattr(self, name))
        for name in ("discount", "target_share"):
            expect_fraction(name, getattr(self, name))
        number = isinstance(self.entropy_target, int | float) and abs(self.entropy_target) < float("inf")
        expect(self.entropy_target is None or number, "entropy_target", "a finite number", self.entropy_target)
