"""Designs: which points of the space of factors become runs; pure functions of the axes, a number and a generator.

A sampled design takes the axes (of a factor with levels their number, of a continuous one None), how many points are
wanted, and a generator. It returns an array of floats, a row per point and a column per axis: the number of a level, or
a place in [0, 1) of a continuous factor. That is all that a plugin of the group `ganglion.designs` has to be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Axes: TypeAlias = Sequence["int | None"]
Coordinates: TypeAlias = NDArray[np.float64]
Design: TypeAlias = Callable[[Axes, int, Generator], Coordinates]

CANDIDATES_MAX = 1_000_000  # points of a full design that are weighed when it is thinned: 8 MB per factor
_BELOW_ONE = math.nextafter(1.0, 0.0)


def size(levels: Sequence[int]) -> int:
    """Return how many points the full design has; 1 without a factor."""
    return math.prod(levels)


def full(levels: Sequence[int]) -> Coordinates:
    """Return every combination of levels, in the order of the factors, the last one fastest."""
    counts = size(levels)
    columns = []
    repeat = counts
    for count in levels:
        repeat //= count
        columns.append(np.arange(counts) // repeat % count)
    return np.array(columns, dtype=np.float64).T.reshape(counts, len(levels))


def thinned(levels: Sequence[int], points: int, rng: Generator) -> Coordinates:
    """Return `points` of the full design that lie far apart, in its order.

    The first is drawn; each further one is that whose smallest distance to those chosen before is largest, the earliest
    of several. Levels are scaled to 0..1 for it. No point comes twice.
    """
    candidates = full(levels)
    if points >= len(candidates):
        return candidates
    scaled = candidates / np.maximum(np.array(levels, dtype=np.float64) - 1.0, 1.0)
    chosen = [int(rng.integers(len(candidates)))]
    nearest = np.full(len(candidates), np.inf)
    for _ in range(points - 1):
        away = np.zeros(len(candidates))
        for column in range(scaled.shape[1]):  # column by column: one temporary array of the candidates' length
            away += (scaled[:, column] - scaled[chosen[-1], column]) ** 2
        np.minimum(nearest, away, out=nearest)
        nearest[chosen[-1]] = -1.0
        chosen.append(int(np.argmax(nearest)))
    return candidates[sorted(chosen)]


def random(axes: Axes, samples: int, rng: Generator) -> Coordinates:
    """Return points that are drawn one by one, each factor uniformly and for itself."""
    return placed(axes, rng.random((samples, len(axes))))


def lhs(axes: Axes, samples: int, rng: Generator) -> Coordinates:
    """Return a Latin hypercube.

    The range of a continuous factor is cut into `samples` strata of equal size, each hit once; each level of another
    factor comes equally often, up to one.
    """
    columns = [_strata(samples, rng) if axis is None else _dealt(axis, samples, rng) for axis in axes]
    return np.array(columns, dtype=np.float64).T.reshape(samples, len(axes))


def _strata(samples: int, rng: Generator) -> Coordinates:
    numbers = rng.permutation(samples)
    places = (numbers + rng.random(samples)) / samples
    return np.minimum(places, np.nextafter((numbers + 1) / samples, 0.0))


def _dealt(levels: int, samples: int, rng: Generator) -> NDArray[np.int64]:
    extra = rng.choice(levels, samples % levels, replace=False)
    return rng.permutation(np.concatenate([np.tile(np.arange(levels), samples // levels), extra]))


def placed(axes: Axes, cube: Coordinates) -> Coordinates:
    """Return points of the unit cube as coordinates: a place on the axis of levels becomes the number of one."""
    cube = np.clip(cube, 0.0, _BELOW_ONE)
    for column, levels in enumerate(axes):
        if levels is not None:
            cube[:, column] = np.minimum(np.floor(cube[:, column] * levels), levels - 1)
    return cube
