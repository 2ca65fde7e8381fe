from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.sdk import AuthorError, Box, Discrete
from ganglion_filters.delta_obs import DeltaObs

UNIT, TEN = Box(-1.0, 3.0, ()), Discrete(10)


def test_changes_stand_behind_the_readings(chain: Callable[..., Any]) -> None:
    """Without `replace` they follow all of them; only those that are named have one."""
    made = chain(DeltaObs(["b"], replace=False), {"a": UNIT, "b": TEN})
    made.see(a=0.0, b=1)

    assert {"a": 0.0, "b": 3, "DELTA-b": 2.0} == made.see(a=0.0, b=3)


def test_an_unknown_sensor_is_refused(chain: Callable[..., Any]) -> None:
    """Its id is named."""
    with pytest.raises(AuthorError, match="there is no sensor 'c'"):
        chain(DeltaObs(["c"]), {"a": UNIT})
    with pytest.raises(ValueError, match="expected a list of ids"):
        DeltaObs("a")
