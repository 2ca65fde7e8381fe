from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import AuthorError, Box, Discrete
from ganglion_filters.delta_obs import DeltaObs

UNIT, TEN = Box(-1.0, 3.0, ()), Discrete(10)


def test_changes_replace_the_readings(chain: Callable[..., Any]) -> None:
    """At first in an episode a change is 0; its box reaches as far as two readings can lie apart."""
    made = chain(DeltaObs(), {"a": UNIT, "b": TEN})

    assert [{"DELTA-a": 0.0, "DELTA-b": 0.0}, {"DELTA-a": 2.5, "DELTA-b": -4.0}] == [
        made.see(a=0.5, b=9), made.see(a=3.0, b=5),
    ]  # fmt: skip
    assert [Box(-4.0, 4.0, ()), Box(-9.0, 9.0, ())] == [it.space for it in made.sensors]
    made.reset()
    assert {"DELTA-a": 0.0, "DELTA-b": 0.0} == made.see(a=-1.0, b=0)


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


def test_what_stays_infinite_does_not_change(chain: Callable[..., Any]) -> None:
    """Infinity less infinity is no number; nothing has changed."""
    made = chain(DeltaObs(), {"a": Box(-np.inf, np.inf, ())})
    made.see(a=np.inf)

    assert {"DELTA-a": 0.0} == made.see(a=np.inf)
