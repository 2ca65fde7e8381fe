"""Parameters: the ranges in which numbers of a configuration lie, and the one form of refusing others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["expect", "expect_fraction", "expect_hidden", "expect_positive", "expect_weight", "expect_whole"]

ACTIVATIONS = ("tanh", "relu")
HIDDEN_MAX = 4096


def expect(holds: bool, name: str, expected: str, found: Any) -> None:
    """Raise ValueError with the name of a parameter unless something holds of it."""
    if not holds:
        raise ValueError(f"{name}: expected {expected}, found {found!r}")


def expect_whole(name: str, found: Any, least: int = 1) -> None:
    """Refuse what is no integer of at least `least`."""
    whole = isinstance(found, int) and not isinstance(found, bool)
    expect(whole and found >= least, name, f"a whole number >= {least}", found)


def expect_positive(name: str, found: Any) -> None:
    """Refuse what is no finite number above 0."""
    number = isinstance(found, int | float) and not isinstance(found, bool)
    expect(number and 0 < found < math.inf, name, "a finite number above 0", found)


def expect_weight(name: str, found: Any) -> None:
    """Refuse what is no finite number of at least 0."""
    number = isinstance(found, int | float) and not isinstance(found, bool)
    expect(number and 0 <= found < math.inf, name, "a finite number >= 0", found)


def expect_fraction(name: str, found: Any) -> None:
    """Refuse what is no number in [0, 1]."""
    number = isinstance(found, int | float) and not isinstance(found, bool)
    expect(number and 0 <= found <= 1, name, "a number in [0, 1]", found)


def expect_hidden(hidden: Sequence[int], activation: str) -> None:
    """Refuse widths of hidden layers that are none, and activations that we do not have."""
    sizes = isinstance(hidden, list | tuple) and all(
        isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= HIDDEN_MAX for n in hidden
    )
    expect(sizes, "hidden", f"a list of widths in [1, {HIDDEN_MAX}]", hidden)
    expect(activation in ACTIVATIONS, "activation", " or ".join(ACTIVATIONS), activation)
