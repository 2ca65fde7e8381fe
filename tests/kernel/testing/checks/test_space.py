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


class OfWords(Discrete):
    """A space whose text is no space."""

    def to_string(self) -> str:
        return "three things"


class OfAnother(Discrete):
    """A space whose text is that of another one."""

    def to_string(self) -> str:
        return "Discrete(4)"


class OfAnotherWire(Discrete):
    """A space that travels as another one."""

    def to_wire(self) -> dict[str, Any]:
        return {"type": "discrete", "n": 4, "start": 0}


class Stubborn(Discrete):
    """A space that draws as it likes."""

    drawn = 0

    def sample(self, rng: Any = None) -> Any:
        type(self).drawn += 1
        return self.drawn % 3


class Turned(Discrete):
    """A space whose vectors are read as other values."""

    def from_vector(self, vector: Any) -> Any:
        return (super().from_vector(vector) + 1) % 3


class Long(Discrete):
    """A space whose vectors have a column too many."""

    def to_vector(self, value: Any) -> Any:
        return np.array([value, 0])

    def from_vector(self, vector: Any) -> Any:
        return int(vector[0])


class Open(Box):
    """A box without its bounds."""

    def contains(self, value: Any) -> bool:
        return bool(np.all((np.asarray(value) > self.low) & (np.asarray(value) < self.high)))


class Lax(Box):
    """A box with everything in it."""

    def contains(self, value: Any) -> bool:
        return True


class Unscaled(Box):
    """A box that leaves numbers as they are."""

    def scale(self, value: Any) -> Any:
        return value


class Moving(Box):
    """A box that moves what lies in it."""

    def clip(self, value: Any) -> Any:
        return self.canonical(np.asarray(self.low))


class Same(Box):
    """A box of an author's that is one."""


def test_a_class_of_an_author_may_inherit_one() -> None:
    """It is told as the class that it inherits, in text and on the wire."""
    check_space(Same(0.0, 1.0, (2,)))


@pytest.mark.parametrize(
    ("space", "clause"),
    [
        (Shifted(0.0, 1.0, ()), "it contains its samples"),
        (OfWords(3), "equal after its way through text: .*expected a space"),
        (OfAnother(3), r"equal after its way through text: found Discrete\(4\)"),
        (OfAnotherWire(3), r"equal after its way through wire: found Discrete\(4\)"),
        (Stubborn(3), "`sample` draws from the generator that it is given"),
        (Turned(3), "`from_vector` is the inverse of `to_vector`"),
        (Long(3), "a vector has `size` elements"),
        (Open(0.0, 1.0, ()), "bounds are inclusive"),
        (Lax(0.0, 1.0, ()), "NaN is not contained"),
        (Unscaled(0.0, 4.0, ()), r"`scale` maps \[-1, 1\] to its bounds"),
        (Moving(0.0, 1.0, ()), "`clip` leaves what is contained as it is"),
    ],
)
def test_each_breach_is_named(space: Any, clause: str) -> None:
    """A class that breaks a clause is told that clause, by its own name."""
    with pytest.raises(ContractBroken, match=f"(?s){type(space).__name__}: .*{clause}"):
        check_space(space)
