from __future__ import annotations

import pytest

from ganglion.errors import SpaceError
from ganglion.sdk.spaces.kinds import MultiBinary


def test_impossible_shapes_are_refused() -> None:
    """A negative length is none."""
    with pytest.raises(SpaceError):
        MultiBinary(-1)
