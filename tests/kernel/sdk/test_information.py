from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import OutOfActionSpaceError, OutOfObservationSpaceError, OutOfRewardSpaceError, SpaceError
from ganglion.sdk.information import ActuatorInformation, Information, RewardInformation, SensorInformation, Template
from ganglion.sdk.spaces import Box, Discrete

KINDS = [
    (SensorInformation, OutOfObservationSpaceError),
    (ActuatorInformation, OutOfActionSpaceError),
    (RewardInformation, OutOfRewardSpaceError),
]


@pytest.mark.parametrize(("kind", "error"), KINDS)
def test_a_value_outside_the_space_is_refused(kind: type[Information], error: type[SpaceError]) -> None:
    """Making and setting check at once; the error names id, value and space, and the value before stays."""
    information = kind(1, Discrete(3), "grid.3")
    for attempt in (lambda: kind(7, Discrete(3), "grid.3"), lambda: information(7), lambda: _set(information, 7)):
        with pytest.raises(error, match=r"grid\.3.*Discrete\(3\).*7"):
            attempt()

    assert information() == 1
    assert issubclass(error, TypeError)


def _set(information: Information, value: Any) -> None:
    information.value = value


def test_calls_read_and_set() -> None:
    """`x()` reads and `x(v)` sets; None is "not set"."""
    information = ActuatorInformation(None, Box(0, 1), uid="3", value_ids=["volt"])
    assert information() is None
    assert information(0.5) is None
    assert (0.5, 0.5, "3", ["volt"], None) == (
        information(),
        information.value,
        information.uid,
        information.value_ids,
        information.body,
    )
    information(None)
    assert information.value is None


def test_an_integer_becomes_a_text_as_id() -> None:
    """Ids are texts, whatever an author counts with."""
    assert SensorInformation(0, Discrete(2), 3).uid == "3"


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


def test_repr_says_what_it_is() -> None:
    """The text of an information shows value, space and id."""
    assert repr(SensorInformation(1, Discrete(3), "x")) == "SensorInformation(1, Discrete(3), uid='x')"


@pytest.mark.parametrize("value", [None, 0.5])
@pytest.mark.parametrize("space", [None, "Box"])
def test_what_is_no_space_is_refused(value: Any, space: Any) -> None:
    """The id is named, and what was found in the place of a space."""
    with pytest.raises(OutOfActionSpaceError, match=f"setpoint a: expected a space, found {space!r}"):
        ActuatorInformation(value, space, "a")
