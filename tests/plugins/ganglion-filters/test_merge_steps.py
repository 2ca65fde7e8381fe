from __future__ import annotations

from typing import Any

import pytest

from ganglion.sdk import Box, Discrete
from ganglion_filters.merge_steps import MergeSteps

TEN, UNIT = Discrete(100), Box(0.0, 1.0, ())


@pytest.mark.parametrize("steps", [0, 1.5, True, "3"])
def test_steps_are_a_positive_integer(steps: Any) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="steps: expected an integer >= 1"):
        MergeSteps(steps)
