from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ganglion.cli.extension import Node, Source, UsageError
from ganglion_sweep.design import full, lhs, random, size, thinned
from ganglion_sweep.factor import Factor
from ganglion_sweep.point import points_of
from ganglion_sweep.quasi import halton, indices, sensitivity, sobol

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


DESIGNS = [sobol, halton]


def test_sobol_keeps_its_balance() -> None:
    """Of eight points each eighth of each range is hit once."""
    pytest.importorskip("scipy", reason="needs scipy: pip install 'ganglion-sweep[scipy]'")
    rows = sobol([None] * 3, 8, np.random.default_rng(0))

    assert [list(range(8))] * 3 == [sorted((column * 8).astype(int).tolist()) for column in rows.T]


@pytest.mark.parametrize("design", DESIGNS)
def test_what_is_missing_is_said(design: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without scipy the design names the extra to install."""
    monkeypatch.setitem(sys.modules, "scipy.stats.qmc", None)
    assert callable(design)
    with pytest.raises(UsageError, match=r"needs scipy: pip install 'ganglion-sweep\[scipy\]'"):
        design([None], 4, np.random.default_rng(0))


MARK = Node("f", Source("x", inline=True))
PLACES = st.floats(0, 1, exclude_max=True)


def ranged(low: float, high: float, **more: Any) -> Factor:
    """Return a factor with a range."""
    return Factor("f", MARK, (("a",),), low=low, high=high, **more)


@given(PLACES, st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_a_range_is_never_left(place: float, low: float, width: float) -> None:
    """Every place of the axis is a number of the range."""
    assert low <= ranged(low, low + width).level(place).label <= low + width


@given(PLACES, st.integers(1, 50), st.integers(1, 50), st.booleans())
def test_whole_numbers_are_whole(place: float, low: int, width: int, log: bool) -> None:
    """A range of whole numbers gives integers between its ends."""
    number = ranged(low, low + width, whole=True, log=log).level(place).label

    assert isinstance(number, int)
    assert low <= number <= low + width


def test_points_of_a_full_design_include_both_ends() -> None:
    """A range is cut evenly, a logarithmic one into equal ratios, and no number comes twice."""
    assert [0.0, 0.5, 1.0] == [level.label for level in ranged(0.0, 1.0, points=3).stepped().levels or ()]
    logarithmic = [level.label for level in ranged(1e-4, 1e-1, log=True, points=4).stepped().levels or ()]
    assert (1e-4, 1e-1) == (logarithmic[0], logarithmic[-1])
    assert logarithmic == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1])
    assert [1, 2, 3] == [level.label for level in ranged(1, 3, whole=True, points=9).stepped().levels or ()]
    assert [5.0] == [level.label for level in ranged(5.0, 6.0, points=1).stepped().levels or ()]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "library", "more", "count"),
    [
        ("fractional", "pyDOE3", "", 8),
        ("box-behnken", "pyDOE3", "", 13),
        ("ccd", "pyDOE3", "", 15),
        ("sensitivity", "SALib", "samples: 8", 40),
    ],
)
def test_designs_of_libraries(head: str, read: Any, name: str, library: str, more: str, count: int) -> None:
    """Each has the points that its theory says, at the ends of ranges, and the same ones from the same document."""
    pytest.importorskip(library)
    keys = "abcde" if name == "fractional" else "abc"
    paths = [f"schedule.train.agents.ada.brain.params.{key}" for key in keys]
    factors = "".join(f"  {p[-1]}: {{set: {p}, range: {{low: 1.0, high: 3.0}}}}\n" for p in paths)
    text = (
        f"{head.replace('brain: dummy', 'brain: {name: dummy, params: {}}')}factors:\n{factors}design: {name}\n{more}\n"
    )
    first, again = (points_of(read(text)) for _ in range(2))

    assert (count, [p.digest for p in first]) == (len(first), [p.digest for p in again])
    values = {value for point in first for value in point.factors.values()}
    assert {1.0, 3.0} <= values or name == "sensitivity"
    assert all(1.0 <= value <= 3.0 for value in values)


def test_indices_tell_which_factor_explains_the_results() -> None:
    """Of y = 4 a + b the first factor explains 16 of 17 parts; a product needs the pair; equal numbers nothing."""
    pytest.importorskip("SALib", reason="needs SALib: pip install 'ganglion-sweep[salib]'")
    axes, rng = (None, None), np.random.default_rng(1)
    points = sensitivity(axes, 256, rng, second_order=True)
    linear, product = 4 * points[:, 0] + points[:, 1], (points[:, 0] - 0.5) * (points[:, 1] - 0.5)
    first, second, pair = indices(["a", "b"], 256, linear.tolist(), True, 1)
    *_, both = indices(["a", "b"], 256, product.tolist(), True, 1)

    assert [["a"], ["b"], ["a", "b"]] == [row["factors"] for row in (first, second, pair)]
    assert first["own"] == pytest.approx(16 / 17, abs=0.05)
    assert second["total"] == pytest.approx(1 / 17, abs=0.05)
    assert both["own"] == pytest.approx(1.0, abs=0.15)
    assert [] == indices(["a"], 4, [1.0] * 12, False, 1)
