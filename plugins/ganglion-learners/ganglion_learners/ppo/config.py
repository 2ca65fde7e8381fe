"""Config: what can be chosen about the learner, with what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ganglion_learners.parameter import expect, expect_fraction, expect_hidden, expect_positive, expect_whole

__all__ = ["PpoConfig"]


@dataclass(frozen=True, slots=True)
class PpoConfig:
    """Hold the parameters of `PpoBrain`; its docstring says what they mean.

    Raises:
        ValueError: A parameter is outside its range; the message names it.
    """

    hidden: Sequence[int]
    activation: str
    rollout: int
    minibatch: int
    epochs: int
    learning_rate: float
    discount: float
    trace_decay: float
    clip: float
    entropy_weight: float
    value_weight: float
    gradient_norm: float
    anneal_decisions: int | None
    pretrain_epochs: int

    def __post_init__(self) -> None:
        expect_hidden(self.hidden, self.activation)
        for name in ("rollout", "minibatch", "epochs", "pretrain_epochs"):
            expect_whole(name, getattr(self, name))
        expect(self.rollout >= 2, "rollout", "at least 2 decisions", self.rollout)
        expect(self.minibatch >= 2, "minibatch", "at least 2 decisions", self.minibatch)
        for name in ("learning_rate", "clip", "value_weight", "gradient_norm"):
            expect_positive(name, getattr(self, name))
        expect_fraction("discount", self.discount)
        expect_fraction("trace_decay", self.trace_decay)
        expect(self.entropy_weight >= 0.0, "entropy_weight", "a number >= 0", self.entropy_weight)
        if self.anneal_decisions is not None:
            expect_whole("anneal_decisions", self.anneal_decisions)

    def share_left(self, decisions: int) -> float:
        """Return the factor of learning rate and clip after so many decisions, in [0, 1]."""
        if self.anneal_decisions is None:
            return 1.0
        return max(0.0, 1.0 - decisions / self.anneal_decisions)
