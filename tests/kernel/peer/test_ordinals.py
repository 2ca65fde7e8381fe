from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ganglion.peer.records import Ordinals

WORKERS = 3
signals = st.lists(st.none() | st.integers(0, WORKERS - 1))


@given(said=signals, data=st.data())
def test_workers_that_race_have_the_same_ordinals(said: list[int | None], data: st.DataObject) -> None:
    """However the signals of several workers are mixed, each has the ordinal that it has in any other order."""
    other = data.draw(st.permutations(said))
    first, second = Ordinals(WORKERS, 1), Ordinals(WORKERS, 1)

    assert sorted(map(first.number, said)) == sorted(map(second.number, other))


@given(said=signals, orders=st.integers(0, 5))
def test_no_ordinal_is_given_twice(said: list[int | None], orders: int) -> None:
    """Signals of all workers, and orders of two lives, have ordinals of their own, of 31 bits at most."""
    first, second = Ordinals(WORKERS, 1), Ordinals(WORKERS, 2)
    found = [*map(first.number, said), *(o.order() for o in (first, second) for _ in range(orders))]

    assert len(found) == len(set(found))
    assert all(0 < number < 2**31 for number in found)


@given(before=signals, after=signals)
def test_it_counts_on(before: list[int | None], after: list[int | None]) -> None:
    """With the note of another it goes on where that one was."""
    first, second = Ordinals(WORKERS, 1), Ordinals(WORKERS, 2)
    for worker in before:
        first.number(worker)
    second.restore(first.note())

    assert [*map(first.number, after)] == [*map(second.number, after)]
