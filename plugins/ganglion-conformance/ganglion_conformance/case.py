"""Cases and the report of them: one clause of the protocol's paper each, and how it was judged."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganglion_conformance.bench import Bench


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


def case(name: str, heading: str, *roles: str, must: bool = True, alone: bool = False) -> Callable[[Run], Run]:
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


OK, FAIL, SKIP = "ok", "fail", "skip"
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Verdict:
    """Hold what became of one case: `ok`, `fail` or `skip`, and the reason."""

    case: Case
    state: str
    text: str = ""


@dataclass(slots=True)
class Report:
    """Hold the verdicts about one peer, in the order of the cases.

    `who` is the first line: what it is and what it declares. `again` is the command that asks one case again, with
    `{case}` for its name. `speed` is median and 99th percentile of a round trip in microseconds, and their number.
    """

    who: str
    verdicts: list[Verdict]
    again: str = "{case}"
    speed: tuple[float, float, int] | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> list[Verdict]:
        """Return the musts that are not kept."""
        return [v for v in self.verdicts if v.state == FAIL and v.case.must]

    @property
    def conforms(self) -> bool:
        """Say whether every must is kept."""
        return not self.failed

    @property
    def exit_status(self) -> int:
        """Return 0 if it conforms, else 1."""
        return 0 if self.conforms else 1

    def lines(self) -> list[str]:
        """Return the report as lines."""
        asked = [v for v in self.verdicts if v.case.must and v.state != SKIP]
        lines = [self.who, *self._groups()]
        for verdict in self.verdicts:
            if verdict.state == FAIL:
                word = "FAIL" if verdict.case.must else "WARN"
                again = self.again.format(case=verdict.case.name)
                lines.append(f"{word} {verdict.case.name}: {verdict.text}")
                lines.append(f"     {'must' if verdict.case.must else 'should'} be: {verdict.case.text}")
                lines.append(f"     PROTOCOL.md, {verdict.case.heading} · again: {again}")
        lines += [f"skip {v.case.name}: {v.text}" for v in self.verdicts if v.state == SKIP]
        if self.speed is not None:
            median_us, p99_us, count = self.speed
            lines.append(f"speed: median {median_us:.0f} us, p99 {p99_us:.0f} us over {count} round trips")
        musts = f"{len(asked)} must{'' if len(asked) == 1 else 's'}"
        failed = f"does not conform: {len(self.failed)} of {musts} failed"
        lines.append(f"conforms: {musts}" if self.conforms else failed)
        return lines

    def _groups(self) -> list[str]:
        found: dict[str, list[Verdict]] = {}
        for verdict in self.verdicts:
            if verdict.state != SKIP:
                found.setdefault(verdict.case.group, []).append(verdict)
        words = [f"{group} {sum(v.state == OK for v in all_)}/{len(all_)}" for group, all_ in found.items()]
        lines, line = [], ""
        for word in words:
            if line and len(line) + len(word) > _WIDTH:
                lines.append(line)
                line = ""
            line += f"  {word}" if line else word
        return [*lines, line] if line else lines

    def to_map(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "who": self.who,
            "conforms": self.conforms,
            "cases": [
                {
                    "case": v.case.name,
                    "must": v.case.must,
                    "state": v.state,
                    "text": v.text,
                    "clause": v.case.text,
                    "heading": v.case.heading,
                }
                for v in self.verdicts
            ],
            "speed_us": None if self.speed is None else list(self.speed[:2]),
            **self.facts,
        }
