from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.sdk.objective import objective_value


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (None, None),
        (1.5, 1.5),
        (2, 2.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.array([[3]]), 3.0),
        (np.array(4), 4.0),
    ],
)
def test_numbers(result: Any, value: float | None) -> None:
    """None is no value; a number, also as array of one element, is a float."""
    found = objective_value(result)

    assert (value, type(value)) == (found, type(found))


@pytest.mark.parametrize(
    "result", [math.nan, np.array(np.nan), "1", [1.0], [], {}, [1, [2]], 1j, object(), np.array([1, 2])]
)
def test_anything_else_raises(result: Any) -> None:
    """NaN, texts, several numbers and objects are an author's error, and named."""
    with pytest.raises(AuthorError, match="internal_reward: expected one number or None"):
        objective_value(result)
