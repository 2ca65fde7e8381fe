"""Designs of low discrepancy from scipy, which is imported when one of them is named."""

from __future__ import annotations

import importlib
import inspect
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


def _scipy(design: str) -> Any:
    try:
        return importlib.import_module("scipy.stats.qmc")
    except ImportError as error:
        raise UsageError(f"the design `{design}` needs scipy: pip install 'ganglion-sweep[scipy]' ({error})") from error


def _seeded(rng: Generator) -> dict[str, Any]:
    """Return the generator under the name that this scipy has for it: `seed` until 1.14, then `rng`."""
    names = inspect.signature(_scipy("sobol").Sobol).parameters
    return {"rng": rng} if "rng" in names else {"seed": rng}
