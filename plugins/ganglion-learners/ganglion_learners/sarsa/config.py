"""Config: what can be chosen about the learner, with what is refused."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SarsaConfig"]


@dataclass(frozen=True, slots=True)
class SarsaConfig:
    """Hold the parameters of `SarsaBrain`; its docstring says what they mean.

    Raises:
        ValueError: A parameter is outside its range; the message names it.
    """

    order: int
    step_size: float
    discount: float
    trace_decay: float
    exploration: float
    exploration_decay: float
    exploration_least: float
    initial_value: float | None
    unbounded: float
    send_every: int

    def __post_init__(self) -> None:
        for name in ("trace_decay", "exploration", "exploration_decay", "exploration_least"):
            _expect(0.0 <= getattr(self, name) <= 1.0, name, "in [0, 1]", getattr(self, name))
        _expect(0.0 <= self.discount <= 1.0, "discount", "in [0, 1]", self.discount)
        _expect(
            self.discount < 1.0 or self.initial_value is not None, "initial_value", "given where discount is 1", None
        )
        _expect(self.step_size > 0.0, "step_size", "above 0", self.step_size)
        _expect(self.unbounded > 0.0, "unbounded", "above 0", self.unbounded)
        _expect(self.order >= 1, "order", "at least 1", self.order)
        _expect(self.send_every >= 1, "send_every", "at least 1", self.send_every)

    @property
    def first_value(self) -> float:
        """What every action is thought to be worth at first."""
        return self.initial_value if self.initial_value is not None else 1.0 / (1.0 - self.discount)


def _expect(holds: bool, name: str, expected: str, found: float | None) -> None:
    if not holds:
        raise ValueError(f"{name}: expected a number {expected}, found {found}")
