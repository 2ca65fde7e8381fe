from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, OutOfActionSpaceError, OutOfRewardSpaceError, SpaceError
from ganglion.sdk.information import (
    ActuatorInformation,
    RewardInformation,
    SensorInformation,
    Statistics,
    Template,
    bootstrap_mask,
    resolve_flags,
)
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


# done, terminated, truncated, mask
MASKS = [
    (False, None, None, 1.0),
    (False, False, False, 1.0),
    (True, True, False, 0.0),
    (True, True, None, 0.0),
    (True, False, True, 1.0),
    (True, None, True, 1.0),
    (True, None, None, 0.0),
    (True, False, None, 0.0),
    (True, True, True, 0.0),
]


@pytest.mark.parametrize(("done", "terminated", "truncated", "mask"), MASKS)
def test_bootstrap_mask(done: bool, terminated: bool | None, truncated: bool | None, mask: float) -> None:
    """Not done counts, truncated counts, terminated and unknown do not."""
    assert mask == bootstrap_mask(done, terminated, truncated)


def test_bootstrap_mask_of_arrays_is_that_of_their_elements() -> None:
    """Arrays give what their elements give, unknown flags included, however they are written."""
    done, terminated, truncated, masks = zip(*MASKS, strict=True)
    unknown = [np.array(flags, dtype=object) for flags in (terminated, truncated)]
    floats = [np.array(flags, dtype=float) for flags in (terminated, truncated)]

    for flags in (unknown, floats):
        assert list(masks) == bootstrap_mask(np.array(done), *flags).tolist()
    assert [1.0, 0.0] == bootstrap_mask(np.array([False, True])).tolist()
    assert [1.0] == bootstrap_mask(np.array([True]), np.array([False]), np.array([True])).tolist()
    lists: Any = [list(flags) for flags in (done, terminated, truncated)]
    assert list(masks) == bootstrap_mask(*lists).tolist()
    assert [0.0, 1.0] == bootstrap_mask(True, np.array([True, False]), np.array([False, True])).tolist()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None, None), (False, False)),
        ((False, None, None), (False, False)),
        ((True, None, None), (True, False)),
        ((None, True, None), (True, False)),
        ((None, None, True), (False, True)),
        ((None, True, False), (True, False)),
        ((True, True, False), (True, False)),
        ((True, False, True), (False, True)),
        ((True, None, True), (False, True)),
        ((True, False, None), (False, True)),
        ((True, None, False), (True, False)),
        ((False, False, False), (False, False)),
        ((np.True_, None, None), (True, False)),
    ],
)
def test_flags_follow_from_what_is_given(
    given: tuple[bool | None, bool | None, bool | None], expected: tuple[bool, bool]
) -> None:
    """`done` alone means terminated; what is known of the others decides otherwise."""
    assert expected == resolve_flags(*given)


@pytest.mark.parametrize(
    "given", [(None, True, True), (True, True, True), (True, False, False), (False, True, None), (False, None, True)]
)
def test_contradictions_raise(given: tuple[bool | None, bool | None, bool | None]) -> None:
    """Both flags at once, and a `done` that says something else, are an author's error."""
    with pytest.raises(AuthorError):
        resolve_flags(*given)


@pytest.mark.parametrize("flag", [np.array([True, False]), np.zeros(0, bool)])
def test_flags_without_one_truth_are_refused(flag: Any) -> None:
    """An array of several is no flag; the message names it."""
    with pytest.raises(AuthorError, match="truncated: expected a boolean, found array"):
        resolve_flags(None, None, flag)


def test_a_key_given_twice_raises_unless_allowed() -> None:
    """A second value is refused and the first stays; with `allow_overwrite` it replaces it."""
    statistics = Statistics()
    statistics.add_statistics("loss", 1)
    with pytest.raises(AuthorError, match="'loss'"):
        statistics.add_statistics("loss", 2)
    statistics.add_statistics("other", 3)
    statistics.add_statistics("other", 4, allow_overwrite=True)

    assert {"loss": 1.0, "other": 4.0} == statistics.pop_statistics()


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (3, 1.0, "statistics: expected a text as key, found 3"),
        ("loss", "high", "statistics 'loss': expected a number, found 'high'"),
        ("loss", None, "statistics 'loss': expected a number, found None"),
        ("loss", [1, 2], r"statistics 'loss': expected a number, found \[1, 2\]"),
    ],
)
def test_what_cannot_be_noted_is_refused(key: object, value: object, text: str) -> None:
    """Keys are texts and values numbers; what is neither is named, and nothing is noted."""
    statistics = Statistics()
    with pytest.raises(AuthorError, match=text):
        statistics.add_statistics(key, value)  # type: ignore[arg-type]

    assert {} == statistics.pop_statistics()
