from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ganglion_plot.chart import HEIGHT, chart
from ganglion_plot.curve import POINTS_MAX, Curve, Series, combined, distinct, smoothed


def series(*values: float, first: int = 0, length: float = 10.0) -> Series:
    """Return a series of one run, whose episodes last `length` steps."""
    episodes = np.arange(first, first + len(values), dtype=np.float64)
    return Series((), "r", episodes, (episodes + 1) * length, np.array(values))


@pytest.mark.parametrize(("width", "expected"), [(1, [2, 4, 9]), (2, [2, 3, 6.5]), (9, [2, 3, 5])])
def test_smoothing_looks_back_only(width: int, expected: list[float]) -> None:
    """A value is smoothed with those before it, as many as there are."""
    assert_allclose(smoothed(np.array([2.0, 4.0, 9.0]), width), expected)


@pytest.mark.parametrize(
    ("band", "low", "high"),
    [
        ("minmax", [0.0, 2.0], [4.0, 6.0]),
        ("std", [0.0, 2.0], [4.0, 6.0]),  # of 0, 2, 4
        ("ci95", [2 - 4.303 * 2 / 3**0.5, 4 - 4.303 * 2 / 3**0.5], [2 + 4.303 * 2 / 3**0.5, 4 + 4.303 * 2 / 3**0.5]),
    ],
)
def test_bands_are_those_of_the_books(band: str, low: list[float], high: list[float]) -> None:
    """Of three series the interval is by Student's t with two degrees of freedom; the deviation has n - 1."""
    x, mean, below, above, count = combined([series(0, 2), series(2, 4), series(4, 6)], band=band)

    assert_allclose(x, [0, 1])
    assert_allclose(mean, [2, 4])
    assert_allclose(below, low)
    assert_allclose(above, high)
    assert [3, 3] == count.tolist()


def test_a_series_alone_has_no_band() -> None:
    """Where only one series goes on there is its value, and no band."""
    _, mean, low, _, count = combined([series(1, 3, 8), series(3)])

    assert_allclose(mean, [2, 3, 8])
    assert [False, True, True] == np.isnan(low).tolist()
    assert [2, 1, 1] == count.tolist()


def test_by_step_series_of_different_pace_are_compared_at_equal_steps() -> None:
    """A slow series has at step 40 what it had at its second episode, a fast one what it had at its fourth."""
    x, mean, _, _, _ = combined([series(0, 1, 2, 3), series(0, 10, length=20.0)], x="step")

    assert_allclose(x, [10, 20, 30, 40])
    assert_allclose(mean, [0, 0.5, 3.5, 6.5])


def test_many_episodes_become_few_points_of_the_same_mean() -> None:
    """A long series is thinned by means of neighbours, at the middle of their episodes."""
    x, mean, _, _, _ = combined([series(*range(10 * POINTS_MAX))])

    assert POINTS_MAX == len(x)
    assert_allclose(mean, x)


def test_labels_have_what_differs() -> None:
    """What is the same for all curves is in none of their labels; a curve alone says all that it is."""
    assert ["a", "b"] == distinct([["demo", "a", ""], ["demo", "b", ""]])
    assert ["demo a"] == distinct([["demo", "a", ""]])


def test_a_chart_has_its_curve_from_left_to_right() -> None:
    """The mark of a rising curve goes from the bottom left to the top right, and each column has one."""
    values = np.arange(5.0)
    none = np.full(5, np.nan)
    curve = Curve("ada", {}, values, values, none, none, np.ones(5, dtype=np.int64))
    lines = list(chart("title", "episode", [curve], 40))
    drawn = [line.partition("|")[2].ljust(36) for line in lines[1 : 1 + HEIGHT]]

    assert ("*", "*") == (drawn[0].rstrip()[-1], drawn[-1][0])
    assert all(any(line[column] == "*" for line in drawn) for column in range(len(drawn[0].rstrip())))
    assert ["title", "* ada: 0 → 4"] == [lines[0], lines[-1]]
