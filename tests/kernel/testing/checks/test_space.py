from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import ContractBroken
from ganglion.sdk import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from ganglion.testing import check_space


class Inherits(Box):
    """A box of an author's that is one: in text and on the wire it is told as the class that it inherits."""


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
        Inherits(0.0, 1.0, (2,)),
    ],
)
def test_ours_keep_the_contract(space: Any) -> None:
    """Nothing is said of the six classes, nor of one that inherits one of them."""
    check_space(space)


class Stubborn(Discrete):
    """A space that draws as it likes."""

    drawn = 0

    def sample(self, rng: Any = None) -> Any:
        type(self).drawn += 1
        return self.drawn % 3


@pytest.mark.parametrize(
    ("base", "methods", "clause"),
    [
        (Box, {"sample": lambda self, rng: Box.sample(self, rng) + 10.0}, "it contains its samples"),
        (Discrete, {"to_string": lambda self: "three"}, "equal after its way through text: .*expected one of Box"),
        (Discrete, {"to_string": lambda self: "Discrete(4)"}, r"equal .* through text: found Discrete\(4\)"),
        (Discrete, {"to_wire": lambda self: {"type": "discrete", "n": 4}}, r"through wire: found Discrete\(4\)"),
        (Stubborn, {}, "`sample` draws from the generator that it is given"),
        (Discrete, {"from_vector": lambda self, it: (int(it[0]) + 1) % 3}, "`from_vector` is the inverse of"),
        (
            Discrete,
            {"to_vector": lambda self, it: np.array([it, 0]), "from_vector": lambda self, it: int(it[0])},
            "a vector has `size` elements",
        ),
        (Box, {"contains": lambda self, it: bool(self.low < it < self.high)}, "bounds are inclusive"),
        (Box, {"contains": lambda self, it: True}, "NaN is not contained"),
        (Box, {"scale": lambda self, it: it}, r"`scale` maps \[-1, 1\] to its bounds"),
        (Box, {"clip": lambda self, it: self.low.item()}, "`clip` leaves what is contained as it is"),
    ],
)
def test_each_breach_is_named(base: type[Any], methods: dict[str, Any], clause: str) -> None:
    """A class that breaks a clause is told that clause, by its own name."""
    broken = type("Broken", (base,), methods)
    with pytest.raises(ContractBroken, match=f"(?s)Broken: .*{clause}"):
        check_space(broken(0.0, 4.0, ()) if base is Box else broken(3))
