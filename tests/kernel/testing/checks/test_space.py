from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import ContractBroken
from ganglion.sdk import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from ganglion.testing import check_space


@pytest.mark.parametrize(
    "space",
    [
        Box(-1.0, np.inf, (2, 3)),
        Box(0, 9, (2,), dtype=np.int64),
        Discrete(5, start=-2),
        MultiDiscrete([2, 3]),
        MultiBinary((2, 2)),
        Tuple([Discrete(2), Box(0.0, 1.0, ())]),
        Dict({"a": Discrete(2), "b": MultiBinary(3)}),
    ],
)
def test_ours_keep_the_contract(space: Any) -> None:
    """Nothing is said of the six classes."""
    check_space(space)


class Shifted(Box):
    """A box whose samples lie outside."""

    def sample(self, rng: Any = None) -> Any:
        return super().sample(rng) + 10.0


def test_a_breach_is_named() -> None:
    """A class that breaks a clause is told that clause."""
    with pytest.raises(ContractBroken, match="Shifted: "):
        check_space(Shifted(0.0, 1.0, ()))
