from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Box
from ganglion_learners.ranges import Ranges


def _actuators(*spaces):
    return [ActuatorInformation(None, space, f"e.{i}") for i, space in enumerate(spaces)]


def test_scales_where_both_bounds_are() -> None:
    """-1 is low and 1 is high; without a bound a number stays, and is clipped at the bound that there is."""
    ranges = Ranges(_actuators(Box(2.0, 6.0, (2,)), Box(0.0, np.inf, ())))
    found = ranges.scale(np.array([[-1.0, 0.5, 3.0], [9.0, -9.0, -1.0]]))

    assert [[2.0, 5.0, 3.0], [6.0, 2.0, 0.0]] == found.tolist()
    assert [[-1.0, 0.5, 3.0]] == ranges.unscale(found[:1]).tolist()
    assert 3 == len(ranges)


def test_setpoints_lie_in_narrow_spaces_too() -> None:
    """Whatever a network says, the space contains the setpoint, in float32 and where low equals high."""
    spaces = [Box(0.1, 0.3, (), np.float32), Box(0.7, 0.7, ())]
    ranges = Ranges(_actuators(*spaces))
    for unit in np.random.default_rng(1).normal(scale=3.0, size=(50, 1, 2)).astype(np.float32):
        for space, value in zip(spaces, ranges.scale(unit)[0], strict=True):
            assert space.contains(space.from_vector([value]))


def test_what_leaves_its_bounds_is_named() -> None:
    """A number beyond a bound, and one that is none, are named with row and column; bounds themselves are inside."""
    ranges = Ranges(_actuators(Box(0.1, 0.3, (), np.float32), Box(0.0, np.inf, ())))
    ranges.check(np.array([[0.1, 0.0], [0.3, 9.0]], dtype=np.float32))
    for bad, told in (
        ([0.31, 0.0], r"decision 0 has the action 0\.31 \(column 0\), expected a number in \[0\.1, 0\.3\]"),
        ([0.2, -1.0], r"the action -1 \(column 1\), expected a number in \[0, inf\]"),
        ([0.2, np.nan], r"the action nan \(column 1\)"),
        ([0.2, np.inf], r"the action inf \(column 1\)"),
    ):
        with pytest.raises(ValueError, match=told):
            ranges.check(np.array([bad]))
