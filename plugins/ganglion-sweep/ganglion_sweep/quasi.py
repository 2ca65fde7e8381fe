"""Designs of scipy, pyDOE3 and SALib, each imported when one of its designs is named."""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ganglion.cli.extension import UsageError
from ganglion_sweep.design import Axes, Coordinates, placed

if TYPE_CHECKING:
    from numpy.random import Generator


def sobol(axes: Axes, samples: int, rng: Generator) -> Coordinates:
    """Return the first points of a scrambled Sobol sequence; a power of two keeps its balance."""
    bits = max(1, (samples - 1).bit_length())
    sampler = _scipy("sobol").Sobol(len(axes), scramble=True, **_seeded(rng))
    return placed(axes, sampler.random_base2(bits)[:samples])


def halton(axes: Axes, samples: int, rng: Generator) -> Coordinates:
    """Return the first points of a scrambled Halton sequence."""
    return placed(axes, _scipy("halton").Halton(len(axes), scramble=True, **_seeded(rng)).random(samples))


def fractional(axes: Axes, samples: int, rng: Generator, *, resolution: int = 3) -> Coordinates:
    """Return a part of all corners: effects of so many factors together, less one, are not mixed with those of one."""
    library = _library("fractional", "pyDOE3", "doe")
    try:
        return _corners(axes, library.fracfact_by_res(len(axes), resolution))
    except ValueError as error:
        text = f"the design `fractional`: there is none of {len(axes)} factors at resolution {resolution}"
        raise UsageError(f"{text}: another resolution, or `full`") from error


def box_behnken(axes: Axes, samples: int, rng: Generator) -> Coordinates:
    """Return the centre, and the middles of the edges: no point has all factors at their ends."""
    if len(axes) < 3:
        raise UsageError(f"the design `box-behnken` needs at least 3 factors, found {len(axes)}")
    return _corners(axes, _library("box-behnken", "pyDOE3", "doe").bbdesign(len(axes), center=1))


def ccd(axes: Axes, samples: int, rng: Generator, *, face: str = "inscribed") -> Coordinates:
    """Return a central composite design: corners, a star, the centre; `face` is inscribed or faced."""
    if len(axes) < 2 or face not in ("inscribed", "faced"):
        raise UsageError(
            f"the design `ccd` needs at least 2 factors, and face inscribed or faced; found {len(axes)}, {face}"
        )
    made = _library("ccd", "pyDOE3", "doe").ccdesign(len(axes), center=(0, 1), alpha="orthogonal", face=face)
    return _corners(axes, made)


def sensitivity(axes: Axes, samples: int, rng: Generator, *, second_order: bool = False) -> Coordinates:
    """Return the points of Saltelli by which SALib estimates Sobol's indices, from `samples` base points."""
    if samples & (samples - 1):
        raise UsageError(f"the design `sensitivity`: expected a power of two as `samples`, found {samples}")
    names = [str(number) for number in range(len(axes))]
    problem = {"num_vars": len(axes), "names": names, "bounds": [[0.0, 1.0]] * len(axes)}
    sampler = _library("sensitivity", "SALib.sample.sobol", "salib")
    seed = int(rng.integers(2**31))
    return placed(axes, sampler.sample(problem, samples, calc_second_order=second_order, seed=seed))


def indices(
    factors: Sequence[str], samples: int, values: Sequence[float], second_order: bool, seed: int
) -> list[dict[str, Any]]:
    """Return Sobol's indices of a number that was found at all points of `sensitivity`, in their order.

    Each map has `factors` (one, or a pair with `second_order`), the share of the variance that they explain alone
    (`own`), one factor's share with all that it takes part in (`total`, else None), and half of the 95 % intervals.
    Nothing explains the variance of equal numbers.
    """
    if len(set(values)) < 2:
        return []
    import numpy as np

    names = list(factors)
    problem = {"num_vars": len(names), "names": names, "bounds": [[0.0, 1.0]] * len(names)}
    found = _library("sensitivity", "SALib.analyze.sobol", "salib").analyze(
        problem, np.asarray(values, np.float64), calc_second_order=second_order, seed=seed
    )
    keys, columns = ("own", "own_half", "total", "total_half"), ("S1", "S1_conf", "ST", "ST_conf")
    rows: list[dict[str, Any]] = [
        {"factors": [name], **{key: float(found[column][i]) for key, column in zip(keys, columns, strict=True)}}
        for i, name in enumerate(names)
    ]
    for i, j in itertools.combinations(range(len(names)), 2) if second_order else ():
        own, half = float(found["S2"][i, j]), float(found["S2_conf"][i, j])
        pair = {"factors": [names[i], names[j]], "own": own, "own_half": half, "total": None, "total_half": None}
        rows.append(pair)
    return rows


def _corners(axes: Axes, cube: Coordinates) -> Coordinates:
    """Return points between -1 and 1 as coordinates, both ends included; of several equal ones the first."""
    import numpy as np

    rows = np.asarray(cube, dtype=np.float64)
    rows = (rows / max(1.0, float(np.abs(rows).max())) + 1.0) / 2.0
    for column, levels in enumerate(axes):
        if levels is not None:
            rows[:, column] = np.rint(rows[:, column] * (levels - 1))
    return np.array(list(dict.fromkeys(map(tuple, rows.tolist()))), dtype=np.float64)


def _library(design: str, module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise UsageError(
            f"the design `{design}` needs {name}: pip install 'ganglion-sweep[{extra}]' ({error})"
        ) from error


def _scipy(design: str) -> Any:
    return _library(design, "scipy.stats.qmc", "scipy")


def _seeded(rng: Generator) -> dict[str, Any]:
    """Return the generator under the name that this scipy has for it: `seed` until 1.14, then `rng`."""
    names = inspect.signature(_scipy("sobol").Sobol).parameters
    return {"rng": rng} if "rng" in names else {"seed": rng}
