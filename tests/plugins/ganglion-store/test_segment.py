from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk.store import StoreError
from ganglion_store.records import ACTIONS
from ganglion_store.segment import Episode, Return, Segment
from ganglion_store.values import Declarations

EPISODE = Episode(0, "train", 0, 0)


def _row(step: int, body: int = 0) -> list[Any]:
    return [body, step, step, b"\x90", b"\x90", None, b"\x91\x02", 0.5, False, False, None]


def _segment(*batches: list[list[Any]], name: str = "ada") -> Segment:
    segment = Segment(ACTIONS, name, EPISODE, "c")
    for rows in batches:
        segment.take(rows)
        segment.absorb(Declarations())
    return segment


@given(st.lists(st.integers(0, 30), max_size=5))
def test_digests_do_not_depend_on_batches(cuts: list[int]) -> None:
    """A segment has one digest and the same sums however its rows were cut into batches."""
    rows = [_row(step) for step in range(30)]
    edges = [0, *sorted(cuts), 30]
    cut = _segment(*(rows[a:b] for a, b in pairwise(edges)))

    assert _segment(rows).digest() == cut.digest()
    assert {0: Return(30, 60.0, 15.0)} == cut.returns


@pytest.mark.parametrize("keys", [[(1, 0), (1, 0)], [(2, 0), (1, 0)], [(1, 1), (1, 0)], [(-1, -1)]])
def test_rows_ascend(keys: list[tuple[int, int]]) -> None:
    """Rows ascend by step, then body; a row out of order is refused, and none of its batch is kept."""
    segment = _segment()
    segment.take([_row(step, body) for step, body in keys])

    with pytest.raises(StoreError, match="ascending order"):
        segment.absorb(Declarations())
    assert ([], 0) == (segment.rows, segment.size_bytes)
