from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.sdk.memory import Column, Flags, Integers, Numbers, Objects, Tables, Texts, Vectors
from ganglion.sdk.spaces import Box, Discrete
from ganglion.sdk.table import Layout


def _shown(column: Column, cells: list[Any]) -> Any:
    column.write(0, cells, 8, gap=False)
    return column.show(None if column.array is None else column.array[: len(cells)], len(cells))


@pytest.mark.parametrize(
    ("column", "cells", "shown", "kind"),
    [
        (Numbers(), [1, None], [1.0, math.nan], "f"),
        (Numbers(), [None, None], [math.nan] * 2, "f"),
        (Integers(), [1, 2**62], [1, 2**62], "i"),
        (Integers(), [1, None], [1.0, math.nan], "f"),
        (Flags(), [True, False], [True, False], "b"),
        (Flags(), [True, None], [True, None], "O"),
        (Flags(), [None], [None], "O"),
        (Objects(), [[1], None, "x"], [[1], None, "x"], "O"),
        (Texts(), ["a", "b", "a"], ["a", "b", "a"], "O"),
        (Vectors(), [[1, 2], [3, 4]], [[1, 2], [3, 4]], "i"),
        (Vectors(), [[1, 2], None], [[1.0, 2.0], [math.nan] * 2], "f"),
    ],
)
def test_kinds_show_what_is_missing(column: Column, cells: list[Any], shown: list[Any], kind: str) -> None:
    """Each kind has a sign for missing, and a plainer dtype where nothing is."""
    found = _shown(column, cells)

    assert kind == found.dtype.kind
    np.testing.assert_array_equal(np.array(shown, dtype=found.dtype), found)


def test_a_gap_widens_integers() -> None:
    """If rows came before the first value, integers have no sign for them and become floats."""
    for column in (Vectors(), Tables()):
        cell: Any = [3]
        if isinstance(column, Tables):
            layout = Layout(["n"], [Discrete(9)])
            column.learn(layout)
            cell = (layout, [3])
        column.write(2, [cell], 8, gap=True)
        assert column.array is not None
        assert (math.nan, 3.0) == pytest.approx((column.array[0, 0], column.array[2, 0]), nan_ok=True)


def test_the_dtype_is_that_of_the_spaces() -> None:
    """Small dtypes stay small: a column of bytes takes bytes."""
    layout = Layout(["image"], [Box(0, 255, (4,), np.uint8)])
    column = Tables()
    column.learn(layout)
    column.write(0, [(layout, [np.arange(4, dtype=np.uint8)])], 8, gap=False)

    assert column.array is not None
    assert np.uint8 == column.array.dtype


def test_floats_among_integers_widen_the_column() -> None:
    """A value is never rounded into the column's dtype."""
    column = Tables()
    whole, real = Layout(["x"], [Discrete(9)]), Layout(["x"], [Box(0, 1)])
    for place, (layout, value) in enumerate([(whole, 3), (real, 0.25)]):
        column.learn(layout)
        column.write(place, [(layout, [value])], 8, gap=place > 0)

    assert column.array is not None
    assert [3.0, 0.25] == column.array[:2, 0].tolist()


def test_vectors_keep_their_length() -> None:
    """Another number of columns is an author's error; so is what holds no numbers."""
    column = Vectors()
    column.write(0, [[1.0, 2.0]], 8, gap=False)
    for wrong in ([1.0], ["a", "b"]):
        with pytest.raises(AuthorError, match="expected 2 numbers"):
            column.write(1, [wrong], 8, gap=True)


def test_moving_takes_rows_along() -> None:
    """New storage begins with the rows that were kept."""
    column = Numbers()
    column.write(0, [0.0, 1.0, 2.0], 4, gap=False)
    column.move(np.array([0, 2]), 8)

    assert column.array is not None
    np.testing.assert_array_equal([0.0, 2.0, *[math.nan] * 6], column.array)
    empty = Numbers()
    empty.move(slice(0, 0), 8)
    assert empty.array is None
