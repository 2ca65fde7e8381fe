from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from ganglion_conditions.parameter import choice, count, number, table, text

TAKEN = [
    (lambda: table("w", {"a": 1}, "things"), {"a": 1}),
    (lambda: number("w", 3), 3.0),
    (lambda: number("w", -2.5), -2.5),
    (lambda: number("w", 0, least=0.0), 0.0),
    (lambda: count("w", 1), 1),
    (lambda: text("w", "loss"), "loss"),
    (lambda: choice("w", "up", ("up", "down")), "up"),
]

REFUSED = [
    (lambda: table("w", {}, "things"), "w: expected a map of things, found an empty one"),
    (lambda: table("w", [1], "things"), "w: expected a map of things, found [1]"),
    (lambda: table("w", None, "things"), "w: expected a map of things, found None"),
    (lambda: number("w", "3"), "w: expected a finite number, found '3'"),
    (lambda: number("w", True), "w: expected a finite number, found True"),
    (lambda: number("w", math.nan), "w: expected a finite number, found nan"),
    (lambda: number("w", math.inf), "w: expected a finite number, found inf"),
    (lambda: number("w", -0.5, least=0.0), "w: expected a finite number >= 0, found -0.5"),
    (lambda: count("w", 0), "w: expected an integer >= 1, found 0"),
    (lambda: count("w", 2.0), "w: expected an integer >= 1, found 2.0"),
    (lambda: count("w", True), "w: expected an integer >= 1, found True"),
    (lambda: text("w", ""), "w: expected a text, found ''"),
    (lambda: text("w", 4), "w: expected a text, found 4"),
    (lambda: choice("w", "left", ("up", "down")), "w: expected up or down, found 'left'"),
    (lambda: choice("w", ["up"], ("up", "down")), "w: expected up or down, found ['up']"),
]


@pytest.mark.parametrize(("take", "expected"), TAKEN)
def test_is_taken(take: Callable[[], Any], expected: Any) -> None:
    """A value of the right form is returned."""
    assert expected == take()


@pytest.mark.parametrize(("take", "message"), REFUSED)
def test_is_refused(take: Callable[[], Any], message: str) -> None:
    """A value of another form is refused: where, what was expected, what was found."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        take()
