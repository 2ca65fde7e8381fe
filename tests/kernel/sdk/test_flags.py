from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.sdk.information import bootstrap_mask, resolve_flags

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
