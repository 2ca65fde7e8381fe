"""Numbers: what counts as an integer or a float without loss, and how numbers travel as text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ganglion.limits import INTEGER_MAX

__all__ = ["from_form", "integer_or_none", "to_form", "to_text"]


def integer_or_none(value: Any) -> int | None:
    """Return the integer that `value` is without loss, or None.

    Python and numpy integers and booleans, floats with an integer value, and arrays of shape () of these.
    """
    if isinstance(value, int):
        return int(value)
    if isinstance(value, np.ndarray):
        if value.shape != () or value.dtype.kind not in "biuf":
            return None
        value = value.item()
    elif isinstance(value, np.integer | np.bool_):
        return int(value)
    if isinstance(value, float | np.floating | int) and math.isfinite(value) and value == int(value):
        return int(value)
    return None


def to_form(number: float) -> float | str:
    """Return a number for the wire: itself, or text where a double would not hold it."""
    if isinstance(number, int):
        return number if -INTEGER_MAX <= number <= INTEGER_MAX else str(number)
    return to_text(number) if math.isinf(number) else number


def from_form(form: Any) -> int | float:
    """Return the number of a wire form.

    Raises:
        ValueError: It is neither a number nor one of the texts that stand for one.
    """
    if isinstance(form, bool) or not isinstance(form, int | float | str):
        raise ValueError(f"expected a number, found {form!r}")
    if not isinstance(form, str):
        return form
    if form in ("inf", "-inf"):
        return float(form)
    digits = form.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 20:  # 20 digits hold every 64-bit integer
        return int(form)
    raise ValueError(f"expected a number, 'inf', '-inf' or an integer as text, found {form!r}")


def to_text(number: Any) -> str:
    """Return a bound, or a nested list of bounds, as text that reads back bit by bit."""
    if isinstance(number, list):
        return f"[{', '.join(to_text(part) for part in number)}]"
    if isinstance(number, float) and math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return repr(number)
