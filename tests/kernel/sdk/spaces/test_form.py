from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import SpaceError
from ganglion.limits import SPACE_DEPTH
from ganglion.sdk import Box, Discrete, MultiDiscrete, Space, space_from_wire

BOX = {"type": "box", "shape": [2], "dtype": "<f8", "low": 0, "high": 1}


def _nested(depth: int) -> dict[str, Any]:
    form: dict[str, Any] = {"type": "discrete", "n": 2}
    for _ in range(depth):
        form = {"type": "tuple", "spaces": [form]}
    return form


@pytest.mark.parametrize(
    ("form", "space"),
    [
        (BOX, Box(0, 1, (2,))),
        ({**BOX, "low": [0, "-inf"], "high": "inf"}, Box([0, -float("inf")], float("inf"))),
        ({**BOX, "comment": "skipped"}, Box(0, 1, (2,))),
        ({"type": "box", "shape": [], "dtype": "<i8", "low": 0.0, "high": str(2**63 - 1)}, Box(0, 2**63 - 1, (), "i8")),
        ({"type": "discrete", "n": 3.0}, Discrete(3)),
        ({"type": "multi_discrete", "nvec": [2, 3]}, MultiDiscrete([2, 3])),
        ({"type": "multi_discrete", "nvec": [2, 3], "shape": [2, 1], "start": 4}, MultiDiscrete([[2], [3]], 4)),
    ],
)
def test_forms_of_other_languages(form: dict[str, Any], space: Space) -> None:
    """Integral floats, missing starts and unknown keys are no fault."""
    assert space == space_from_wire(form)


@pytest.mark.parametrize(
    ("form", "match"),
    [
        (None, "expected a map"),
        ({}, "space.type"),
        ({"type": []}, "space.type"),
        ({"type": "graph"}, "space.type"),
        ({"type": "discrete"}, "'n' is missing"),
        ({"type": "discrete", "n": 0}, "space: Discrete"),
        ({"type": "discrete", "n": "inf"}, "n: expected an integer"),
        ({"type": "discrete", "n": float("nan")}, "n: expected an integer"),
        ({**BOX, "dtype": "|O"}, "dtype"),
        ({**BOX, "dtype": ">f8"}, "dtype"),
        ({**BOX, "dtype": []}, "dtype"),
        ({**BOX, "shape": [2**40]}, "space_elements"),
        ({**BOX, "shape": [2**40] * 3}, "space_elements"),
        ({**BOX, "shape": [1] * 17}, "array_rank"),
        ({**BOX, "shape": [True]}, "integers"),
        ({**BOX, "shape": [-1]}, "integers"),
        ({**BOX, "shape": "2"}, "list"),
        ({**BOX, "low": [0]}, "low: expected one number or 2"),
        ({**BOX, "low": "nan"}, "expected a number"),
        ({**BOX, "low": float("nan")}, "NaN"),
        ({**BOX, "low": 2}, "at most its high"),
        ({**BOX, "dtype": "|u1", "high": 256}, "fit"),
        ({"type": "multi_discrete", "nvec": 3}, "nvec"),
        ({"type": "multi_discrete", "nvec": [2], "shape": [2]}, "nvec: expected one number or 2"),
        ({"type": "multi_discrete", "nvec": [str(2**64)]}, "space"),
        ({"type": "tuple", "spaces": {}}, "expected a list"),
        ({"type": "tuple", "spaces": [{"type": "discrete", "n": 1}, {}]}, r"space.spaces\[1\].type"),
        ({"type": "dict", "spaces": {"a": {"type": "discrete"}}}, "space.spaces.a: the key"),
        ({"type": "dict", "spaces": {1: {"type": "discrete", "n": 1}}}, "text keys"),
        (_nested(SPACE_DEPTH), "space_depth"),
    ],
)
def test_faults_are_named(form: Any, match: str) -> None:
    """A form that describes no space is refused with the path to what is wrong, before memory is taken."""
    with pytest.raises(SpaceError, match=match):
        space_from_wire(form)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda parts: st.one_of(st.lists(parts, max_size=4), st.dictionaries(st.text(max_size=5), parts, max_size=4)),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["box", "discrete", "multi_discrete", "multi_binary", "tuple", "dict"])},
        optional={
            "shape": st.one_of(st.lists(st.integers(-1, 3), max_size=3), JSON),
            "dtype": st.one_of(st.sampled_from(["<f8", "|u1", "<i8"]), JSON),
            "low": JSON,
            "high": JSON,
            "n": JSON,
            "nvec": JSON,
            "start": JSON,
            "spaces": JSON,
        },
    )
)
def test_any_form_is_read_or_refused(form: dict[str, Any]) -> None:
    """Nothing but a SpaceError comes out of the reader, whatever goes in."""
    try:
        space = space_from_wire(form)
    except SpaceError:
        return
    assert space == space_from_wire(space.to_wire())
