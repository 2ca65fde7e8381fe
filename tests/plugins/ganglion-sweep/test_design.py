from __future__ import annotations

import itertools

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from ganglion_sweep.design import full, lhs, random, size, thinned

LEVELS = st.lists(st.integers(1, 5), min_size=1, max_size=4)
AXES = st.lists(st.none() | st.integers(1, 5), min_size=1, max_size=4)
SEEDS = st.integers(0, 2**32)


@given(LEVELS)
def test_full_is_the_product_in_order(levels: list[int]) -> None:
    """Every combination comes once, the last factor fastest."""
    expected = [list(map(float, row)) for row in itertools.product(*(range(n) for n in levels))]

    assert expected == full(levels).tolist()
    assert len(expected) == size(levels)


@given(LEVELS, st.data(), SEEDS)
def test_thinning_keeps_points_of_the_full_design(levels: list[int], data: st.DataObject, seed: int) -> None:
    """As many as wanted are kept, each once, in their order, and the same ones for the same generator."""
    points = data.draw(st.integers(1, size(levels)))
    kept = thinned(levels, points, np.random.default_rng(seed)).tolist()

    assert points == len(kept) == len({tuple(row) for row in kept})
    assert sorted(kept) == kept
    assert all(row in full(levels).tolist() for row in kept)
    assert kept == thinned(levels, points, np.random.default_rng(seed)).tolist()


@given(LEVELS, SEEDS)
def test_thinning_goes_far(levels: list[int], seed: int) -> None:
    """Of two points that are kept, the one is among the farthest from the other, levels scaled to 0..1."""
    assume(size(levels) >= 2)
    scale = np.maximum(np.array(levels) - 1, 1)
    pair = thinned(levels, 2, np.random.default_rng(seed)) / scale
    away = [np.linalg.norm(full(levels) / scale - point, axis=1).max() for point in pair]

    assert np.isclose(away, np.linalg.norm(pair[0] - pair[1])).any()


@given(AXES, st.integers(1, 40), SEEDS)
def test_lhs_hits_each_stratum_once(axes: list[int | None], samples: int, seed: int) -> None:
    """Of n strata of a range each is hit once; of levels each comes equally often, up to one."""
    rows = lhs(axes, samples, np.random.default_rng(seed))

    assert (samples, len(axes)) == rows.shape
    for column, levels in zip(rows.T, axes, strict=True):
        if levels is None:
            edges = np.arange(samples + 1) / samples
            assert [1] * samples == [
                int(((low <= column) & (column < high)).sum()) for low, high in itertools.pairwise(edges)
            ]
        else:
            counts = np.bincount(column.astype(int), minlength=levels)
            assert len(counts) == levels
            assert counts.max() - counts.min() <= 1


@given(AXES, st.integers(1, 20), SEEDS)
def test_random_stays_on_its_axes(axes: list[int | None], samples: int, seed: int) -> None:
    """Coordinates are numbers of levels, or in [0, 1); the same generator draws the same points."""
    rows = random(axes, samples, np.random.default_rng(seed))

    for column, levels in zip(rows.T, axes, strict=True):
        assert ((column >= 0) & (column < (levels or 1))).all()
        assert levels is None or (column == np.floor(column)).all()
    assert rows.tolist() == random(axes, samples, np.random.default_rng(seed)).tolist()
