"""Parameters: types with ranges, and the common form of refusals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

__all__ = [
    "Activation", "Config", "Count", "Finite", "Fraction", "Hidden", "Pair", "Positive", "Share", "Uid", "Weight",
    "Whole", "configured", "expect",
]  # fmt: skip

Brain = TypeVar("Brain")

ACTIVATIONS = ("tanh", "relu")
HIDDEN_MAX = 4096


def expect(holds: bool, name: str, expected: str, found: Any) -> None:
    """Raise ValueError with the name of a parameter unless a condition holds."""
    if not holds:
        raise ValueError(f"{name}: expected {expected}, found {found!r}")


def _is_whole(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


def _is_finite(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)


def _are_widths(found: Any) -> bool:
    return isinstance(found, list | tuple) and all(_is_whole(n) and 1 <= n <= HIDDEN_MAX for n in found)


# For each type: the expectation in words, and the test of a value.
Count = Annotated[int, ("a whole number >= 0", lambda it: _is_whole(it) and it >= 0)]
Whole = Annotated[int, ("a whole number >= 1", lambda it: _is_whole(it) and it >= 1)]
Pair = Annotated[int, ("a whole number >= 2", lambda it: _is_whole(it) and it >= 2)]
Finite = Annotated[float, ("a finite number", _is_finite)]
Positive = Annotated[float, ("a finite number above 0", lambda it: _is_finite(it) and it > 0)]
Weight = Annotated[float, ("a finite number >= 0", lambda it: _is_finite(it) and it >= 0)]
Fraction = Annotated[float, ("a number in [0, 1]", lambda it: _is_finite(it) and 0 <= it <= 1)]
Share = Annotated[float, ("a number in (0, 1]", lambda it: _is_finite(it) and 0 < it <= 1)]
Hidden = Annotated[Sequence[int], (f"a list of widths in [1, {HIDDEN_MAX}]", _are_widths)]
Uid = Annotated[str, ("the uid of a table", lambda it: isinstance(it, str) and bool(it))]
Activation = Annotated[str, (" or ".join(ACTIVATIONS), lambda it: it in ACTIVATIONS)]


class Config:
    """The base of the dataclass of a learner's parameters: each is checked by its type.

    Raises:
        ValueError: A parameter is outside its range; the message names it.
    """

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            found, parts = getattr(self, name), (hint, *get_args(hint))
            if found is None and NoneType in parts:
                continue
            for expected, holds in (check for part in parts for check in getattr(part, "__metadata__", ())):
                expect(holds(found), name, expected, found)


def configured(config: type[Config]) -> Callable[[type[Brain]], type[Brain]]:
    """Decorate a brain: its constructor takes the parameters of its config, and the config is `config`."""

    def take(brain: type[Brain]) -> type[Brain]:
        begin = brain.__init__

        @wraps(config.__init__)
        def construct(self: Any, **params: Any) -> None:
            self.config = config(**params)
            begin(self)

        brain.__init__ = construct  # type: ignore[method-assign]
        return brain

    return take
