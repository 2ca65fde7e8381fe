"""Parameters: types that say in which range a parameter lies, and the one form of refusing others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, wraps
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

__all__ = [
    "Activation", "Config", "Count", "Finite", "Fraction", "Hidden", "Pair", "Positive", "Share", "Weight", "Whole",
    "configured", "expect",
]  # fmt: skip

Brain = TypeVar("Brain")

ACTIVATIONS = ("tanh", "relu")
HIDDEN_MAX = 4096


def expect(holds: bool, name: str, expected: str, found: Any) -> None:
    """Raise ValueError with the name of a parameter unless something holds of it."""
    if not holds:
        raise ValueError(f"{name}: expected {expected}, found {found!r}")


def _whole(name: str, found: Any, least: int = 1) -> None:
    whole = isinstance(found, int) and not isinstance(found, bool)
    expect(whole and found >= least, name, f"a whole number >= {least}", found)


def _is_finite(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)


def _finite(name: str, found: Any) -> None:
    expect(_is_finite(found), name, "a finite number", found)


def _positive(name: str, found: Any) -> None:
    expect(_is_finite(found) and found > 0, name, "a finite number above 0", found)


def _weight(name: str, found: Any) -> None:
    expect(_is_finite(found) and found >= 0, name, "a finite number >= 0", found)


def _fraction(name: str, found: Any) -> None:
    expect(_is_finite(found) and 0 <= found <= 1, name, "a number in [0, 1]", found)


def _hidden(name: str, found: Any) -> None:
    sizes = isinstance(found, list | tuple) and all(
        isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= HIDDEN_MAX for n in found
    )
    expect(sizes, name, f"a list of widths in [1, {HIDDEN_MAX}]", found)


def _activation(name: str, found: Any) -> None:
    expect(found in ACTIVATIONS, name, " or ".join(ACTIVATIONS), found)


Count = Annotated[int, partial(_whole, least=0)]
Whole = Annotated[int, _whole]
Pair = Annotated[int, partial(_whole, least=2)]
Finite = Annotated[float, _finite]
Positive = Annotated[float, _positive]
Weight = Annotated[float, _weight]
Fraction = Annotated[float, _fraction]
Share = Annotated[float, _positive, _fraction]
Hidden = Annotated[Sequence[int], _hidden]  # widths of hidden layers
Activation = Annotated[str, _activation]


class Config:
    """Be the base of the dataclass of a learner's parameters: each is checked by its type.

    Raises:
        ValueError: A parameter is outside its range; the message names it.
    """

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            found, parts = getattr(self, name), (hint, *get_args(hint))
            if found is None and NoneType in parts:
                continue
            for check in (check for part in parts for check in getattr(part, "__metadata__", ())):
                check(name, found)


def configured(config: type[Config]) -> Callable[[type[Brain]], type[Brain]]:
    """Give a brain the parameters of its config as those of its constructor, and the config as `config`."""

    def take(brain: type[Brain]) -> type[Brain]:
        begin = brain.__init__

        @wraps(config.__init__)
        def construct(self: Any, **params: Any) -> None:
            self.config = config(**params)
            begin(self)

        brain.__init__ = construct  # type: ignore[method-assign]
        return brain

    return take
