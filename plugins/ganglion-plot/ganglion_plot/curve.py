"""Curves: series of values, smoothed and brought together as a mean with a band; pure, on arrays."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

POINTS_MAX = 1_000
"""The most points of one curve; neighbours become one where there are more."""

BANDS = ("ci95", "std", "minmax")

# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom; above, the quantile of the normal distribution differs
# by less than 4 %. Source: any table of the distribution, such as NIST/SEMATECH e-Handbook, 1.3.6.7.2.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_T95_BEYOND = 1.960


@dataclass(frozen=True, slots=True)
class Series:
    """Hold the values of one place of one run: `key` says of which curve it is a part.

    `episodes`, `steps` and `values` are (n,) float64 and aligned; `steps` are those taken up to the end of an episode;
    all rise but the values.
    """

    key: tuple[Any, ...]
    run: str
    episodes: Array
    steps: Array
    values: Array


@dataclass(frozen=True, slots=True)
class Curve:
    """Hold a mean over series with its band; all arrays are (points,), `low` and `high` NaN where there is no band."""

    label: str
    about: Mapping[str, Any]
    x: Array
    mean: Array
    low: Array
    high: Array
    count: NDArray[np.int64]

    @property
    def banded(self) -> bool:
        """Whether there is a band somewhere."""
        return bool(np.isfinite(self.low).any())


def smoothed(values: Array, width: int) -> Array:
    """Return the mean of each value with up to `width - 1` before it."""
    if width <= 1 or len(values) == 0:
        return values
    sums: Array = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(0, ends - width)
    means: Array = (sums[ends] - sums[begins]) / (ends - begins)
    return means


def combined(
    series: Sequence[Series], x: str = "episode", width: int = 1, band: str = "ci95"
) -> tuple[Array, Array, Array, Array, NDArray[np.int64]]:
    """Return x, mean, low, high and count of some series, which count alike.

    Args:
        series: At least one, with at least one value each.
        x: `episode`: values of the same episode are brought together, neighbours where there are more than
            `POINTS_MAX`; `step`: at equal distances, between the ends of episodes on a straight line.
        width: Over so many episodes each series is smoothed before.
        band: `ci95`, the interval in which the mean lies with 95 % by Student's t; `std`, one standard deviation of
            the series around it; `minmax`, the least and the greatest. NaN for one series alone.
    """
    values = [smoothed(one.values, width) for one in series]
    at, table = _by_episode(series, values) if x == "episode" else _by_step(series, values)
    there = np.isfinite(table)
    count = there.sum(axis=0)
    kept = count > 0
    at, table, there, count = at[kept], table[:, kept], there[:, kept], count[kept]
    filled = np.where(there, table, 0.0)
    mean = filled.sum(axis=0) / count
    if band == "minmax":
        low = np.where(there, table, np.inf).min(axis=0)
        high = np.where(there, table, -np.inf).max(axis=0)
    else:
        several = np.maximum(count - 1, 1)
        deviation = np.sqrt(np.where(there, (table - mean) ** 2, 0.0).sum(axis=0) / several)
        if band == "ci95":
            beyond = len(_T95) + 1
            quantiles = np.array([*_T95, _T95_BEYOND])[np.minimum(several, beyond) - 1]
            deviation = deviation * quantiles / np.sqrt(count)
        low, high = mean - deviation, mean + deviation
    alone = count < 2
    return at, mean, np.where(alone, np.nan, low), np.where(alone, np.nan, high), count.astype(np.int64)


def _by_episode(series: Sequence[Series], values: Sequence[Array]) -> tuple[Array, Array]:
    """Return where the points are, and (series, points) values; NaN where a series has none."""
    last = max(one.episodes[-1] for one in series)
    width = max(1, -(-(int(last) + 1) // POINTS_MAX))
    points = int(last) // width + 1
    sums = np.zeros((len(series), points))
    counts = np.zeros((len(series), points))
    for row, (one, found) in enumerate(zip(series, values, strict=True)):
        cells = one.episodes.astype(np.int64) // width
        np.add.at(sums[row], cells, found)
        np.add.at(counts[row], cells, 1.0)
    table = np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)
    return np.arange(points, dtype=np.float64) * width + (width - 1) / 2, table


def _by_step(series: Sequence[Series], values: Sequence[Array]) -> tuple[Array, Array]:
    first, last = min(one.steps[0] for one in series), max(one.steps[-1] for one in series)
    points = min(POINTS_MAX, max(len(one.steps) for one in series)) if last > first else 1
    at = np.linspace(first, last, points, dtype=np.float64)
    rows = [
        np.interp(at, one.steps, found, left=np.nan, right=np.nan) for one, found in zip(series, values, strict=True)
    ]
    return at, np.array(rows)


def grouped(series: Sequence[Series]) -> dict[tuple[Any, ...], list[Series]]:
    """Return series by their keys, in order of appearance."""
    found: dict[tuple[Any, ...], list[Series]] = {}
    for one in series:
        found.setdefault(one.key, []).append(one)
    return found


def distinct(labels: Sequence[Sequence[str]]) -> list[str]:
    """Return a text for each list of parts, from those parts alone in which the lists differ; of one alone all."""
    if len(labels) == 1:
        return [" ".join(filter(None, labels[0]))]
    columns = [column for column in zip(*labels, strict=True) if len(set(column)) > 1]
    lines = zip(*columns, strict=True) if columns else itertools.repeat((), len(labels))
    return [" ".join(filter(None, line)) for line in lines]
