"""Config: what can be chosen about the learner, with what is refused."""

from __future__ import annotations

from dataclasses import dataclass

from ganglion_learners.parameter import Activation, Config, Fraction, Hidden, Pair, Positive, Weight, Whole

__all__ = ["PpoConfig"]


@dataclass(frozen=True)
class PpoConfig(Config):
    """Hold the parameters of `PpoBrain`; its docstring says what they mean."""

    hidden: Hidden = (64, 64)
    activation: Activation = "tanh"
    rollout: Pair = 2048
    minibatch: Pair = 64
    epochs: Whole = 10
    learning_rate: Positive = 0.0003
    discount: Fraction = 0.99
    trace_decay: Fraction = 0.95
    clip: Positive = 0.2
    entropy_weight: Weight = 0.0
    value_weight: Positive = 0.5
    gradient_norm: Positive = 0.5
    anneal_decisions: Whole | None = None
    pretrain_epochs: Whole = 10

    def share_left(self, decisions: int) -> float:
        """Return the factor of learning rate and clip after so many decisions, in [0, 1]."""
        if self.anneal_decisions is None:
            return 1.0
        return max(0.0, 1.0 - decisions / self.anneal_decisions)
