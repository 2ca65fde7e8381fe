from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ganglion.peer.records import Numbering, Place


@given(st.lists(st.integers(1, 6), max_size=40))
def test_each_batch_is_next_once(numbers: list[int]) -> None:
    """Whatever is said in whatever order, those that are next are 1, 2, 3 ... without a gap."""
    numbering = Numbering()
    taken = [number for number in numbers if numbering.place("w", number) is Place.NEXT]

    assert list(range(1, len(taken) + 1)) == taken
