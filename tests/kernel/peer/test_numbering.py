from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.peer.numbering import LIFE_BITS, Numbering, Place

LIFE = 1 << LIFE_BITS


@pytest.mark.parametrize(
    ("numbers", "places"),
    [
        ([1, 2, 3], "NNN"),
        ([1, 2, 2, 1, 3], "NNKKN"),
        ([1, 3, 4, 2, 3, 4], "NAANNN"),
        ([2, 1], "AN"),
        ([1, 2, LIFE + 1, 3, LIFE + 2], "NNNKN"),
        ([1, LIFE + 2, LIFE + 1, LIFE + 2], "NANN"),
        ([2 * LIFE + 1, 2 * LIFE + 2], "NN"),
        ([0], "A"),
        ([1, 0], "NK"),
    ],
)
def test_batches_have_one_order(numbers: list[int], places: str) -> None:
    """What comes again is known, what comes too early is ahead, and a new life begins with its first."""
    numbering = Numbering()

    assert places == "".join(numbering.place("w", number).name[0] for number in numbers)


def test_writers_are_counted_alone() -> None:
    """Each has numbers of its own, and a successor goes on behind those that it is told."""
    numbering = Numbering({"a": 3})

    assert [Place.NEXT, Place.NEXT] == [numbering.place("a", 4), numbering.place("b", 1)]
    assert (5, 2, {"a": 4, "b": 1}) == (numbering.expected("a", 9), numbering.expected("b", 9), numbering.last)


@given(st.lists(st.integers(1, 6), max_size=40))
def test_each_batch_is_next_once(numbers: list[int]) -> None:
    """Whatever is said in whatever order, those that are next are 1, 2, 3 ... without a gap."""
    numbering = Numbering()
    taken = [number for number in numbers if numbering.place("w", number) is Place.NEXT]

    assert list(range(1, len(taken) + 1)) == taken
