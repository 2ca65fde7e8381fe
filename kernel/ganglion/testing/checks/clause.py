"""Clauses of the contract, each a sentence with which a breach is told; the check of a space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ganglion.errors import ContractBroken, GanglionError
from ganglion.sdk.seed import generator_from_words, words
from ganglion.sdk.spaces.kinds import Box
from ganglion.sdk.spaces.space import Space
from ganglion.sdk.spaces.text import parse_space, space_from_wire
from ganglion.wire.codec import codec_of


@contextmanager
def clause(whose: type[Any], sentence: str) -> Iterator[None]:
    """Say of everything that goes wrong inside which sentence of the contract is broken.

    Raises:
        ContractBroken: Stands for any exception; it is its cause.
    """
    try:
        yield
    except ContractBroken:
        raise
    except Exception as error:
        text = str(error) if isinstance(error, GanglionError) else f"{type(error).__name__}: {error}"
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        raise ContractBroken(f"{whose.__qualname__}: {sentence}: {text}{notes}") from error


def expect(whose: type[Any], sentence: str, kept: bool, found: str) -> None:
    """Raise ContractBroken with what was found unless a clause is kept."""
    if not kept:
        raise ContractBroken(f"{whose.__qualname__}: {sentence}: found {found}")


def encoded(message: Any) -> bytes:
    """Return a message's bytes: equal bytes are equal values, bit by bit."""
    return codec_of(type(message)).encode(message)


def first_difference(one: Sequence[bytes], other: Sequence[bytes]) -> int | None:
    """Return the number of the first element in which two traces differ, None if they are equal."""
    for number, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return number
    return None if len(one) == len(other) else min(len(one), len(other))


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
    _check_forms(cls, space)
    draws = [generator_from_words(words(seed, ["check"])) for _ in range(2)]
    for _ in range(samples):
        with clause(cls, "a sample can be drawn"):
            value, twin = (space.sample(draw) for draw in draws)
        expect(cls, "it contains its samples", space.contains(value), repr(value))
        with clause(cls, "a value has a vector, and a vector its value"):
            vector = space.to_vector(value)
            again = space.from_vector(vector)
        expect(cls, "a vector has `size` elements", vector.shape == (space.size,), str(vector.shape))
        same = np.array_equal(space.to_vector(again), vector)
        expect(cls, "`from_vector` is the inverse of `to_vector`", same, repr(again))
        equal = np.array_equal(space.to_vector(twin), vector)
        expect(cls, "`sample` draws from the generator that it is given", equal, f"{value!r}, then {twin!r}")
        with clause(cls, "`clip` takes what is contained"):
            clipped = space.to_vector(space.clip(value))
        expect(cls, "`clip` leaves what is contained as it is", np.array_equal(clipped, vector), repr(clipped))
    if isinstance(space, Box):
        _check_bounds(cls, space, draws[0])


def _check_forms(cls: type[Space], space: Space) -> None:
    """Send a space through text and wire, where one of an author's class is told as the class that it inherits."""
    for form in ("text", "wire"):
        sentence = f"it is equal after its way through {form}"
        with clause(cls, sentence):
            back = parse_space(space.to_string()) if form == "text" else space_from_wire(space.to_wire())
            same = isinstance(space, type(back)) and type(back)._key(space) == back._key()  # noqa: SLF001
            if type(back) is cls:
                same = same and back == space and hash(back) == hash(space)
        expect(cls, sentence, same, back.to_string())


def _check_bounds(cls: type[Space], box: Box, draw: np.random.Generator) -> None:
    """Look at what lies at the edges of a box and beyond them, and at its scale."""
    ends = [end for end in (box.low, box.high) if np.isfinite(end.astype(np.float64)).all()]
    for end in ends:
        expect(cls, "bounds are inclusive", box.contains(end), f"{end!r} outside")
    nothing = np.full(box.shape, np.nan)
    expect(cls, "NaN is not contained", not (box.size and box.contains(nothing)), "it inside")
    if len(ends) == 2 and box.dtype.kind == "f" and (box.high > box.low).all():
        with clause(cls, "`scale` maps [-1, 1] to its bounds, `unscale` is the inverse"):
            corners = [np.asarray(box.scale(np.full(box.shape, side))) for side in (-1.0, 1.0)]
            share = draw.uniform(-1.0, 1.0, box.shape)
            back = np.asarray(box.unscale(box.scale(share)))
        kept = all(np.allclose(corner, end) for corner, end in zip(corners, ends, strict=True))
        near = np.allclose(back, share, atol=1e-3)
        sentence = "`scale` maps [-1, 1] to its bounds, `unscale` is the inverse"
        expect(cls, sentence, kept and near, f"{corners} and {back}")
