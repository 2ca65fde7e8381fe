from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import OutOfActionSpaceError, OutOfRewardSpaceError, SpaceError
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation, Template
from ganglion.sdk.spaces import Box, Discrete


def test_a_template_makes_independent_informations() -> None:
    """Each filling gives new objects with the declared class, space, id, component names and body."""
    declared = [
        SensorInformation(None, Discrete(3), "a.0", ["x"], ("ada", 1)),
        SensorInformation(None, Box(0, 1), "a.1"),
    ]
    template = Template(declared)
    first, second = template.fill([1, 0.5]), template.fill([2, None])

    assert [1, 0.5] == [it() for it in first]
    assert [2, None] == [it() for it in second]
    assert (["x"], ("ada", 1), Discrete(3)) == (first[0].value_ids, first[0].body, first[0].space)
    assert (2, ("a.0", "a.1")) == (len(template), template.uids)
    assert [None, None] == [it() for it in template.empty()]
    assert [SensorInformation] * 2 == [type(it) for it in first]


def test_a_template_checks_each_value() -> None:
    """A value outside its space, and another number of values, are refused."""
    template = Template([RewardInformation(None, Discrete(3), "r")])

    with pytest.raises(OutOfRewardSpaceError, match="reward r"):
        template.fill([3])
    with pytest.raises(SpaceError, match="expected 1 values"):
        template.fill([1, 1])


@pytest.mark.parametrize("value", [None, 0.5])
@pytest.mark.parametrize("space", [None, "Box"])
def test_what_is_no_space_is_refused(value: Any, space: Any) -> None:
    """The id is named, and what was found in the place of a space."""
    with pytest.raises(OutOfActionSpaceError, match=f"setpoint a: expected a space, found {space!r}"):
        ActuatorInformation(value, space, "a")
