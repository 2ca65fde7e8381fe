from __future__ import annotations

import builtins
import importlib
import math
import sys

import numpy as np
import pytest

from ganglion.sdk.spaces import Box, Dict, Discrete
from ganglion.sdk.table import Layout, Table

SCALARS = Table(Layout(["a", "b"], [None, None]), np.array([[1.0, math.nan], [3.0, 5.0]]))
MIXED = Table(Layout(["n", "v"], [Discrete(9), Box(0, 9, (2,))]), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
PAIRS = Table(Layout(["v", "w"], [Box(0, 9, (2,))] * 2), np.arange(4.0).reshape(1, 4))
NESTED = Table(Layout(["d"], [Dict({"x": Discrete(3), "y": Box(0, 1)})]), np.array([[2.0, 0.5]]))


def test_columns_by_id() -> None:
    """`table[id]` has the shape of the values, `table[list]` is a table in the given order."""
    assert [1.0, 3.0] == SCALARS["a"].tolist()
    assert [[2.0, 3.0], [5.0, 6.0]] == MIXED["v"].tolist()
    chosen = MIXED[["v", "n"]]
    assert (["v", "n"], [[2.0, 3.0, 1.0], [5.0, 6.0, 4.0]]) == (chosen.columns, chosen.flat.tolist())
    with pytest.raises(KeyError, match="no column 'x'; there are a, b"):
        _ = SCALARS["x"]


def test_values() -> None:
    """Rows by columns; with one common shape an axis more; objects where shapes differ."""
    assert (2, 2) == SCALARS.values.shape
    assert [[[0.0, 1.0], [2.0, 3.0]]] == PAIRS.values.tolist()
    values = MIXED.values
    assert (object, (2, 2), 4.0) == (values.dtype, values.shape, values[1, 0])
    assert [5.0, 6.0] == values[1, 1].tolist()
    assert {"x": 2, "y": 0.5} == NESTED.values[0, 0] == NESTED["d"][0]


def test_rows_by_position() -> None:
    """`iloc` counts rows; a row knows its ids, values and sums."""
    row = SCALARS.iloc[-1]

    assert (["a", "b"], [3.0, 5.0], 5.0, 2) == (row.columns, row.values.tolist(), row["b"], len(row))
    assert (8.0, 4.0, 3.0, 5.0) == (row.sum(), row.mean(), row.min(), row.max())
    assert ([3.0], 2) == (SCALARS.iloc[1:]["a"].tolist(), len(SCALARS.iloc))
    assert [5.0, 6.0] == MIXED.iloc[1]["v"].tolist()
    assert repr(row) == "TableRow({'a': 3.0, 'b': 5.0})"
    with pytest.raises(IndexError):
        _ = SCALARS.iloc[2]


@pytest.mark.parametrize(("name", "expected"), [("sum", 0.0), ("mean", math.nan), ("min", math.nan), ("max", math.nan)])
def test_reductions_of_nothing(name: str, expected: float) -> None:
    """The sum of no value is 0, everything else of no value is NaN; nothing is raised or warned."""
    for flat in (np.zeros((0, 2)), np.full((2, 2), np.nan)):
        table = Table(Layout(["a", "b"], [None, None]), flat)
        np.testing.assert_equal(getattr(table, name)(None), expected)
        np.testing.assert_equal(getattr(table, name)(0), np.full(2, expected))


def test_values_of_different_shapes_have_no_sum() -> None:
    """The error says what to do instead."""
    with pytest.raises(TypeError, match="one column by its id"):
        MIXED.sum()
    assert [7.0, 9.0] == np.sum(MIXED["v"], axis=0).tolist()


def test_a_table_is_a_collection_of_ids() -> None:
    """It has a length in rows, and iterates over its ids, as data frames do."""
    assert (2, ["a", "b"], True, False) == (len(SCALARS), list(SCALARS), "a" in SCALARS, "x" in SCALARS)
    assert repr(SCALARS) == "Table(2 rows of a, b)"


def test_a_cell_of_a_frame_may_be_an_array() -> None:
    """Values with a shape are one cell each, of dtype object; a Dict is a map."""
    frame = MIXED.to_frame()
    assert [np.dtype(np.float64), np.dtype(object)] == frame.dtypes.tolist()
    assert [[2.0, 3.0], [5.0, 6.0]] == [cell.tolist() for cell in frame["v"]]
    assert {"x": 2, "y": 0.5} == NESTED.to_frame()["d"][0]
    image = Table(Layout(["i"], [Box(0, 9, (2, 3))]), np.arange(12.0).reshape(2, 6)).to_frame()
    assert (2, 3) == image["i"][1].shape


def test_a_table_needs_no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pandas `to_frame` alone fails, and says what to install."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'pandas>=2\.2'"):
        SCALARS.to_frame()
    assert builtins.sum(SCALARS["a"]) == 4.0
    assert importlib.import_module("ganglion.sdk.table").Table is Table
