"""Check of a space: containment, samples, and the way there and back through vector, text and wire."""

from __future__ import annotations

import numpy as np

from ganglion.sdk.seed import generator_from_words, words
from ganglion.sdk.spaces.form import space_from_wire
from ganglion.sdk.spaces.space import Space
from ganglion.sdk.spaces.text import parse_space
from ganglion.testing.checks.clause import clause, expect

__all__ = ["check_space"]


def check_space(space: Space, *, samples: int = 20, seed: int = 1) -> None:
    """Check whether a space keeps its contract.

    Args:
        space: Any object of the six classes, or of a class of your own that inherits one.
        samples: How many values are drawn.
        seed: Of the draws.

    Raises:
        ContractBroken: Names the class, the clause and what was found.
    """
    cls = type(space)
    draw = generator_from_words(words(seed, ["check"]))
    for form, back in (("text", parse_space(space.to_string())), ("wire", space_from_wire(space.to_wire()))):
        expect(cls, f"it is equal after its way through {form}", back == space, back.to_string())
    for _ in range(samples):
        with clause(cls, "a sample can be drawn and has a vector"):
            value = space.sample(draw)
            vector = space.to_vector(value)
            again = space.from_vector(vector)
        expect(cls, "it contains its samples", space.contains(value), repr(value))
        expect(cls, "a vector has `size` elements", vector.shape == (space.size,), str(vector.shape))
        same = np.array_equal(space.to_vector(again), vector)
        expect(cls, "`from_vector` is the inverse of `to_vector`", same, repr(again))
