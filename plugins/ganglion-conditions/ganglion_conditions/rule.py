"""Rule: what the evaluations of one agent say, success or plateau."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

from ganglion_conditions.mean import mean
from ganglion_conditions.parameter import choice, count, number, table, text

__all__ = ["Plateau", "Rule", "Success"]

_REQUIRED = object()
Keys = Mapping[str, Any]  # key -> default, or _REQUIRED


class Rule(ABC):
    """Count evaluations of one agent by one of their metrics."""

    keys: ClassVar[Keys] = {}

    def __init__(self, where: str, given: Any) -> None:
        self.where = where
        self.given = {**self.keys, **table(where, given, ", ".join(self.keys))}
        for key, value in self.given.items():
            if key not in self.keys:
                raise ValueError(f"{where}: expected {', '.join(self.keys)}, found {key!r}")
            if value is _REQUIRED:
                raise ValueError(f"{where}: key {key!r} is missing")
        self.metric = text(f"{where}.metric", self.given["metric"])
        self.least = count(f"{where}.min_evaluations", self.given["min_evaluations"])
        self.evaluations = 0

    def take(self, metrics: Mapping[str, float]) -> None:
        """Count one more evaluation; a metric that is missing or not finite is no value."""
        self.evaluations += 1
        value = metrics.get(self.metric)
        self._count(float(value) if value is not None and math.isfinite(value) else None)

    @abstractmethod
    def _count(self, value: float | None) -> None: ...

    @property
    @abstractmethod
    def met(self) -> bool:
        """Whether the rule holds after the evaluations that were taken."""

    @abstractmethod
    def words(self, agent: str) -> str:
        """Return why the rule holds."""

    @abstractmethod
    def earliest(self) -> int:
        """Return after how many evaluations the rule can hold at the earliest."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what the rule has counted, as values that can travel."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""


class Success(Rule):
    """Hold when `consecutive` evaluations in a row have reached the threshold; equality counts."""

    keys: ClassVar[Keys] = {
        "metric": _REQUIRED,
        "threshold": _REQUIRED,
        "direction": "greater_equal",
        "consecutive": 1,
        "min_evaluations": 1,
    }

    def __init__(self, where: str, given: Any) -> None:
        super().__init__(where, given)
        self.threshold = number(f"{where}.threshold", self.given["threshold"])
        self.consecutive = count(f"{where}.consecutive", self.given["consecutive"])
        direction = choice(f"{where}.direction", self.given["direction"], ("greater_equal", "less_equal"))
        self.upwards = direction == "greater_equal"
        self.streak = 0
        self.value: float | None = None

    def _count(self, value: float | None) -> None:
        self.value = value
        reached = value is not None and (value >= self.threshold if self.upwards else value <= self.threshold)
        self.streak = self.streak + 1 if reached else 0

    @property
    def met(self) -> bool:
        """Whether the last evaluations were good enough, and there were enough of them."""
        return self.streak >= self.consecutive and self.evaluations >= self.least

    def words(self, agent: str) -> str:
        """Return why the rule holds: metric and threshold."""
        sign = ">=" if self.upwards else "<="
        times = f" in {self.streak} evaluations in a row" if self.consecutive > 1 else ""
        return f"{agent} {self.metric} {self.value:g} {sign} {self.threshold:g}{times}"

    def earliest(self) -> int:
        """Return the larger of `consecutive` and `min_evaluations`."""
        return max(self.consecutive, self.least)

    def state(self) -> dict[str, Any]:
        """Return evaluations, streak and newest value."""
        return {"evaluations": self.evaluations, "streak": self.streak, "value": self.value}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
        self.evaluations, self.streak = state["evaluations"], state["streak"]
        self.value = state["value"]


class Plateau(Rule):
    """Hold when `patience` evaluations in a row were vain.

    An evaluation is better if the mean of the last `window` values (of fewer, while there are no more) is beyond the
    best one by at least `min_delta`, and by more than nothing. From `min_evaluations` on any other is vain, one
    without a value too.
    """

    keys: ClassVar[Keys] = {
        "metric": _REQUIRED,
        "direction": "maximize",
        "min_delta": 0.0,
        "patience": _REQUIRED,
        "min_evaluations": 1,
        "window": 1,
    }

    def __init__(self, where: str, given: Any) -> None:
        super().__init__(where, given)
        direction = choice(f"{where}.direction", self.given["direction"], ("maximize", "minimize"))
        self.sign = 1.0 if direction == "maximize" else -1.0
        self.min_delta = number(f"{where}.min_delta", self.given["min_delta"], least=0.0)
        self.patience = count(f"{where}.patience", self.given["patience"])
        self.values: deque[float] = deque(maxlen=count(f"{where}.window", self.given["window"]))
        self.best: float | None = None
        self.vain = 0

    def _count(self, value: float | None) -> None:
        if value is not None:
            self.values.append(value)
            smooth = mean(tuple(self.values))
            if self._is_better(smooth):
                self.best, self.vain = smooth, 0
                return
        if self.evaluations >= self.least:
            self.vain += 1

    def _is_better(self, smooth: float) -> bool:
        if self.best is None:
            return True
        beyond = self.sign * (smooth - self.best)
        return beyond > 0 and beyond >= self.min_delta

    @property
    def met(self) -> bool:
        """Whether patience has run out."""
        return self.vain >= self.patience

    def words(self, agent: str) -> str:
        """Return why the rule holds: the best value, and since when there was no better one."""
        best = "had no value" if self.best is None else f"not better than {self.best:g}"
        return f"{agent} {self.metric} {best} in {self.vain} evaluations"

    def earliest(self) -> int:
        """Return when patience can have run out; a first evaluation without a value is vain already."""
        return max(self.least, 1) + self.patience - 1

    def state(self) -> dict[str, Any]:
        """Return evaluations, the values of the window, the best mean, and how many were vain."""
        return {"evaluations": self.evaluations, "values": list(self.values), "best": self.best, "vain": self.vain}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
        self.evaluations, self.best, self.vain = state["evaluations"], state["best"], state["vain"]
        self.values.clear()
        self.values.extend(state["values"])
