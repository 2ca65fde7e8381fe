from __future__ import annotations

import numpy as np
import pytest

from ganglion_learners.replay import Replay


def _filled(count: int, capacity: int = 4) -> Replay:
    replay = Replay(capacity, 2)
    for i in range(1, count + 1):
        replay.append(np.array([i, -i]))
    return replay


def test_the_oldest_make_room() -> None:
    """It holds the newest rows, and draws from these only."""
    drawn = _filled(6).sample(200, np.random.default_rng(1))

    assert {3.0, 4.0, 5.0, 6.0} == set(drawn[:, 0].tolist())
    np.testing.assert_array_equal(drawn[:, 0], -drawn[:, 1])
    assert 4 == len(_filled(6))


def test_draws_only_what_is_there() -> None:
    """While it fills, rows that do not exist yet are not drawn; equal generators draw equally."""
    draws = [_filled(2).sample(50, np.random.default_rng(1)) for _ in range(2)]

    assert {1.0, 2.0} == set(draws[0][:, 0].tolist())
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize("before", [0, 3, 4, 5])
@pytest.mark.parametrize("many", [0, 1, 3, 4, 9, 10])
def test_many_at_once_are_as_one_by_one(before, many) -> None:
    """Rows that come together lie where they would lie one after the other, also if they are more than it holds."""
    one, two = _filled(before), _filled(before)
    rows = np.arange(2.0 * many).reshape(many, 2) + 100
    one.extend(rows)
    for row in rows:
        two.append(row)

    assert len(one) == len(two)
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, two.arrays()[name])


@pytest.mark.parametrize(("capacity", "width"), [(3, 2), (4, 3)])
def test_another_shape_is_refused(capacity, width) -> None:
    """Rows of another width, or more than it holds, are refused."""
    with pytest.raises(ValueError, match="replay: expected at most"):
        Replay(capacity, width).load(_filled(4).arrays())
