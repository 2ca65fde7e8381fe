from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import SpaceError
from ganglion.limits import SPACE_DEPTH
from ganglion.sdk import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from ganglion.sdk.spaces import parse_space, space_from_wire


@pytest.mark.parametrize(
    ("text", "space"),
    [
        ("Discrete(8)", Discrete(8)),
        (" Discrete ( n = 8 , start = -1 , ) ", Discrete(8, -1)),
        ("Box(0, 1)", Box(0, 1)),
        ("Box(low=0, high=1, shape=(2, 3), dtype=int64)", Box(0, 1, (2, 3), "int64")),
        ("Box([[0, -inf]], +inf, dtype=float32)", Box([[0, -float("inf")]], float("inf"), dtype="float32")),
        ("Box(low=[-1.0], high=np.inf, dtype=np.float32)", Box([-1.0], float("inf"), dtype="float32")),
        ("Box(1e-3, 1.5E+2)", Box(0.001, 150)),
        ("MultiBinary(3)", MultiBinary(3)),
        ("MultiBinary((3,))", MultiBinary(3)),
        ("MultiDiscrete([2, 3], start=1)", MultiDiscrete([2, 3], 1)),
        ("Tuple()", Tuple([])),
        ('Dict("if"=Discrete(2))', Dict({"if": Discrete(2)})),
        ('Dict(a=Tuple(Discrete(2)), "b \\"c"=Discrete(3))', Dict({"a": Tuple([Discrete(2)]), 'b "c': Discrete(3)})),
    ],
)
def test_texts_that_people_write(text: str, space: Space) -> None:
    """White space, names of arguments and trailing commas are free."""
    assert space == parse_space(text) == parse_space(space.to_string())


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "column 1: expected a space"),
        ("Graph(2)", "column 1: expected one of Box"),
        ("Discrete", "column 1: expected one of Box"),
        ("Discrete(2", "column 9: expected a space"),
        ("Discrete(2) x", "column 13: expected a space"),
        ("Discrete(2.5)", "integer n"),
        ("Discrete(x)", "column 10: expected one of Box"),
        ("Discrete(2, m=3)", "Discrete: got an unexpected keyword argument 'm'"),
        ("Discrete(2, n=3)", "multiple values for argument 'n'"),
        ("Discrete(n=2, 3)", "expected a space"),
        ("Discrete(start=1)", "missing a required argument: 'n'"),
        ("Discrete(Discrete(2))", "an integer n"),
        ("Discrete(float64)", "an integer n"),
        ("Discrete(" + "9" * 30 + ")", "64-bit"),
        ("Box(0)", "missing a required argument: 'high'"),
        ("Box(0, 1, dtype=object)", "expected one of Box"),
        ("Box(0, 1, dtype=2)", "data type"),
        ("Box(nan, 1)", "expected one of Box"),
        ("Box(0, 1, shape=(99999999, 99999999))", "elements"),
        ("Box([0, [1]], 2)", "space, column 1"),
        ("Tuple(a=Discrete(2))", "Tuple: got an unexpected keyword argument 'a'"),
        ("Tuple(3)", "made of spaces"),
        ("Dict(Discrete(2))", "Dict: too many positional arguments"),
        ('Dict("\\x"=Discrete(2))', "JSON"),
        ("__import__('os')", "expected one of Box"),
        ("Tuple(" * 100 + ")" * 100, "space_depth"),
        ("Discrete(" + "[" * 100 + "]" * 100 + ")", "array_rank"),
    ],
)
def test_faults_are_named(text: str, match: str) -> None:
    """What is no space is refused with the place and what was expected there."""
    with pytest.raises(SpaceError, match=match):
        parse_space(text)


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
def test_faults_of_maps_are_named(form: Any, match: str) -> None:
    """A form that describes no space is refused with the path to what is wrong, before memory is taken."""
    with pytest.raises(SpaceError, match=match):
        space_from_wire(form)
