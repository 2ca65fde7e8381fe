from __future__ import annotations

import numpy as np
import pytest

from ganglion_toys.echo import checksum

GOLDEN = [([1, 0, 2, 0], 60637), ([0, 0, 0, 0], 30784), ([2, 1, 4, 3], 91454)]


@pytest.mark.parametrize(("readings", "expected"), GOLDEN)
def test_checksum(readings, expected) -> None:
    """The checksum of known readings is known."""
    assert expected == checksum([np.array(readings)])


def test_checksum_runs_through_sensors_and_arrays_in_order() -> None:
    """Arrays count in C order, sensors one after the other, floats truncated."""
    assert checksum([1, 2, 3, 4]) == checksum([np.array([[1, 2], [3, 4]])]) == checksum([1.9, np.array([2, 3, 4])])
