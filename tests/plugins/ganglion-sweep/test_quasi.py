from __future__ import annotations

import sys

import numpy as np
import pytest

from ganglion.cli.extension import UsageError
from ganglion_sweep.quasi import halton, sobol

DESIGNS = [sobol, halton]


@pytest.mark.parametrize("design", DESIGNS)
def test_points_are_scrambled_by_the_generator(design: object) -> None:
    """Equal generators give equal points, others others; all lie on their axes."""
    pytest.importorskip("scipy", reason="needs scipy: pip install 'ganglion-sweep[scipy]'")
    assert callable(design)
    first, again, other = (design([None, 3], 10, np.random.default_rng(seed)) for seed in (1, 1, 2))

    assert (10, 2) == first.shape
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()
    assert set(first[:, 1]) == {0.0, 1.0, 2.0}
    assert ((first[:, 0] >= 0) & (first[:, 0] < 1)).all()


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
