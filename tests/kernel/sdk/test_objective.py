from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
