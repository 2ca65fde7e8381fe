from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk.spaces.space import from_form, integer_or_none, to_form


@given(st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False)))
def test_forms_read_back(number: float) -> None:
    """A number survives the wire, whatever its size."""
    found = from_form(to_form(number))

    assert (number, type(number)) == (found, type(found))


@pytest.mark.parametrize(
    ("value", "integer"),
    [
        (3, 3),
        (True, 1),
        (np.uint8(3), 3),
        (np.bool_(True), 1),
        (3.0, 3),
        (np.float16(3.0), 3),
        (np.array(3), 3),
        (2.0**70, 2**70),
        (3.5, None),
        (math.nan, None),
        (math.inf, None),
        (np.array([3]), None),
        (np.array("3"), None),
        ("3", None),
        (3 + 0j, None),
        (None, None),
    ],
)
def test_integers_without_loss(value: Any, integer: int | None) -> None:
    """Only what equals an integer is one."""
    found = integer_or_none(value)

    assert (integer, type(integer)) == (found, type(found))
