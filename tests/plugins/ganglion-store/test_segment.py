from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk.store import StoreError
from ganglion_store.declarations import Declarations
from ganglion_store.records import ACTIONS, STEPS
from ganglion_store.segment import Episode, Return, Seal, Segment, is_cut

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


def test_every_row_counts() -> None:
    """A digest differs when any value of any row does."""
    rows = [_row(step) for step in range(3)]
    other = [_row(step) for step in range(3)]
    other[1][3] = b"\x91\x01"

    assert 3 == len({_segment(rows).digest(), _segment(rows[:2]).digest(), _segment(other).digest()})


@pytest.mark.parametrize("keys", [[(1, 0), (1, 0)], [(2, 0), (1, 0)], [(1, 1), (1, 0)], [(-1, -1)]])
def test_rows_ascend(keys: list[tuple[int, int]]) -> None:
    """Rows ascend by step, then body; a row out of order is refused, and none of its batch is kept."""
    segment = _segment()
    segment.take([_row(step, body) for step, body in keys])

    with pytest.raises(StoreError, match="ascending order"):
        segment.absorb(Declarations())
    assert ([], 0) == (segment.rows, segment.size_bytes)


def test_bodies_are_summed_apart() -> None:
    """Each body has a return of its own; unknown rewards and objectives change nothing."""
    rows = [_row(step, body) for step in range(2) for body in range(2)]
    rows[3][6], rows[3][7] = b"\x90", None

    assert {0: Return(2, 4.0, 1.0), 1: Return(2, 2.0, 0.5)} == _segment(rows).returns


def test_a_seal_does_not_depend_on_who_was_first() -> None:
    """The digest of an episode is the same whichever segment arrived first, and depends on its predecessor."""
    segments = [_segment([_row(0)], name="b"), _segment([_row(0)], name="a"), Segment(STEPS, "a", EPISODE, "c")]
    seals = [Seal(EPISODE, "", 1, True, False, "x", 0, 0, order) for order in (segments, segments[::-1])]

    assert 1 == len({seal.digest(b"") for seal in seals})
    assert seals[0].digest(b"") != seals[0].digest(b"before")


@pytest.mark.parametrize(
    ("reason", "cut"),
    [("interrupted", True), ("failed: no", True), ("failed", True), ("failed:no", False), ("lost: ada", False)],
)
def test_reasons_tell_who_was_cut_short(reason: str, cut: bool) -> None:
    """An episode that ended because its run did is known by its reason."""
    assert cut == is_cut(reason)
