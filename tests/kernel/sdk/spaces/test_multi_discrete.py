from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import SpaceError
from ganglion.sdk.spaces.kinds import MultiDiscrete


@pytest.mark.parametrize(
    "arguments", [(3,), ([0],), ([1.5],), (["a"],), ([2, 2], [1]), ([2**62], [2**62 + 2]), ([[1], [1, 2]],)]
)
def test_impossible_ranges_are_refused(arguments: tuple[Any, ...]) -> None:
    """Counts are integers from 1, starts have their shape, ranges fit into 64 bits."""
    with pytest.raises(SpaceError):
        MultiDiscrete(*arguments)
