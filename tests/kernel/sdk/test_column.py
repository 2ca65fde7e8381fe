from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.sdk.memory import Column, Flags, Integers, Objects, Texts, Vectors


def _shown(column: Column, cells: list[Any]) -> Any:
    column.write(0, cells, 8, gap=False)
    return column.show(None if column.array is None else column.array[: len(cells)], len(cells))


@pytest.mark.parametrize(
    ("column", "cells", "shown", "kind"),
    [
        (Column(), [1, None], [1.0, math.nan], "f"),
        (Column(), [None, None], [math.nan] * 2, "f"),
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


def test_vectors_keep_their_length() -> None:
    """Another number of columns is an author's error; so is what holds no numbers."""
    column = Vectors()
    column.write(0, [[1.0, 2.0]], 8, gap=False)
    for wrong in ([1.0], ["a", "b"]):
        with pytest.raises(AuthorError, match="expected 2 numbers"):
            column.write(1, [wrong], 8, gap=True)
