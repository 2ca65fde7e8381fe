from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import SpaceError
from ganglion.sdk import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from ganglion.sdk.spaces.text import parse_space


@pytest.mark.parametrize(
    ("text", "space"),
    [
        ("Discrete(8)", Discrete(8)),
        (" Discrete ( n = 8 , start = -1 , ) ", Discrete(8, -1)),
        ("Box(0, 1)", Box(0, 1)),
        ("Box(low=0, high=1, shape=(2, 3), dtype=int64)", Box(0, 1, (2, 3), "int64")),
        ("Box([[0, -inf]], +inf, dtype=float32)", Box([[0, -float("inf")]], float("inf"), dtype="float32")),
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


@given(st.text(alphabet='BoxDiscreteTuple()[],=0123456789.-+einf" ', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but a SpaceError comes out of the parser, whatever goes in."""
    try:
        space = parse_space(text)
    except SpaceError:
        return
    assert space == parse_space(space.to_string())
