"""Cases of the kit: one clause each, with its place in PROTOCOL.md."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ganglion.testing.kit.bench import Bench

__all__ = ["CASES", "Case", "Miss", "Skip", "case", "expect"]

Run = Callable[["Bench"], str | None]
CASES: dict[str, Case] = {}
"""All cases by name, in the order in which they are carried out."""


class Miss(Exception):
    """Tell that a clause is not kept; the text says what was expected and what was found."""


class Skip(Exception):
    """Tell that a clause cannot be asked here; the text says why."""


@dataclass(frozen=True, slots=True)
class Case:
    """Hold one clause and how it is judged.

    `heading` is the section of PROTOCOL.md that says it, `text` the clause in a sentence. `run` raises Miss or Skip,
    or returns None or a word for the report. One with `alone` starts the peer anew, and only a program that the kit
    itself starts can be asked.
    """

    name: str
    heading: str
    text: str
    run: Run
    roles: tuple[str, ...]
    must: bool = True
    alone: bool = False

    @property
    def group(self) -> str:
        """Return the part before the dot."""
        return self.name.partition(".")[0]


def case(
    name: str,
    heading: str,
    *roles: str,
    must: bool = True,
    alone: bool = False,
) -> Callable[[Run], Run]:
    """Enter a function as the case `name`; the first line of its docstring is the clause. No roles: all."""

    def enter(run: Run) -> Run:
        text = (inspect.getdoc(run) or "").split("\n", 1)[0]
        assert name not in CASES, f"the case {name} is there twice"
        CASES[name] = Case(name, heading, text, run, roles or ("environment", "muscle"), must, alone)
        return run

    return enter


def expect(holds: object, text: str) -> None:
    """Raise Miss with the text unless something holds."""
    if not holds:
        raise Miss(text)
