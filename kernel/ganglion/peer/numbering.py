"""Numbering: which batch of a writer comes next, which came before, and which are missing."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

LIFE_BITS = 32  # of a number, for the batches of one life of a writer; what is above counts its lives


class Place(Enum):
    """Where a batch stands among those that have come."""

    NEXT = "next"
    KNOWN = "known"  # it has come before
    AHEAD = "ahead"  # one before it is missing


class Numbering:
    """Know the last number of each writer.

    A writer counts its batches from one, without a gap. One that has lost what it knew begins a new life: its numbers
    begin anew above all that it has used.
    """

    def __init__(self, last: Mapping[str, int] | None = None) -> None:
        self.last = dict(last or {})

    def expected(self, writer: str, number: int) -> int:
        """Return the number that comes next of a writer which says `number`."""
        life, last = number >> LIFE_BITS, self.last.get(writer)
        if last is None or life > last >> LIFE_BITS:
            return (life << LIFE_BITS) + 1
        return last + 1

    def place(self, writer: str, number: int) -> Place:
        """Return where a batch stands; one that is next is noted as come."""
        expected = self.expected(writer, number)
        if number == expected:
            self.last[writer] = number
            return Place.NEXT
        return Place.AHEAD if number > expected or writer not in self.last else Place.KNOWN
