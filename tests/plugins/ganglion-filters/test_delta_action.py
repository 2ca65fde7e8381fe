from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.sdk import AuthorError, Discrete, Tuple
from ganglion_filters.delta_action import DeltaAction


def test_a_tuple_has_no_sum(chain: Callable[..., Any]) -> None:
    """It is refused when it is declared."""
    space = Tuple([Discrete(2)])
    with pytest.raises(AuthorError, match="actuator x: expected numbers"):
        chain(DeltaAction(), {}, {"x": (space, (0,))})
