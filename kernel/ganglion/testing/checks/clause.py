"""Clauses of the contract: what is checked has a sentence, and what breaks it is told with that sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ganglion.errors import ContractBroken, GanglionError
from ganglion.wire.codec import codec_of

__all__ = ["clause", "encoded", "expect", "first_difference"]


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
