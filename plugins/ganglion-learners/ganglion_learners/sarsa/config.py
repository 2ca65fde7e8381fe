"""Config: what can be chosen about the learner, with what is refused."""

from __future__ import annotations

from dataclasses import dataclass

from ganglion_learners.parameter import Config, Fraction, Positive, Whole, expect

__all__ = ["SarsaConfig"]


@dataclass(frozen=True)
class SarsaConfig(Config):
    """Hold the parameters of `SarsaBrain`; its docstring says what they mean."""

    order: Whole = 3
    step_size: Positive = 0.001
    discount: Fraction = 0.99
    trace_decay: Fraction = 0.9
    exploration: Fraction = 1.0
    exploration_decay: Fraction = 0.9
    exploration_least: Fraction = 0.02
    initial_value: float | None = None
    unbounded: Positive = 3.0
    send_every: Whole = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.discount < 1.0 or self.initial_value is not None
        expect(given, "initial_value", "a number given where discount is 1", None)

    @property
    def first_value(self) -> float:
        """What every action is thought to be worth at first."""
        return self.initial_value if self.initial_value is not None else 1.0 / (1.0 - self.discount)
