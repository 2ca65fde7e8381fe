from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ganglion.errors import UsageError
from ganglion_conformance.bench import Order
from ganglion_conformance.case import Case, Report, Verdict
from ganglion_conformance.drivers import PluginDriver
from ganglion_conformance.kit import cases_of, judge

CASES = [case.name for case in cases_of("environment")]
OF_MUSCLES = [case.name for case in cases_of("muscle") if "environment" not in case.roles]
BROKEN = [*(("environment", name) for name in CASES), *(("muscle", name) for name in OF_MUSCLES)]
SKIPPED_BY = {  # who answers no ERROR cannot be asked of which kind it is, who cannot have bodies how they step
    "errors.unknown-call": ["errors.kind"],
    "bodies.declares": ["bodies.steps", "bodies.same-seed", "bodies.reset", "bodies.groups", "bodies.each"],
    "bodies.sets-up": ["bodies.decides", "bodies.completes"],
}
Maker = Callable[[str], Any]


@pytest.mark.parametrize(("role", "case"), BROKEN)
def test_broken_clause_fails_its_own_case_and_no_other(role: str, case: str, puppet: Maker, order: Order) -> None:
    """A peer that breaks exactly one clause fails exactly the case of that clause."""
    report = judge(puppet(case), replace(order, role=role))

    assert [case] == [v.case.name for v in report.verdicts if v.state == "fail"], report.lines()
    skipped = [v.case.name for v in report.verdicts if v.state == "skip"]
    assert case in ("join.declares", "join.sets-up") or skipped == SKIPPED_BY.get(case, [])
    assert report.conforms is not next(v.case.must for v in report.verdicts if v.case.name == case)


def test_only_names_cases_and_groups() -> None:
    """`only` takes names of cases and of groups, and refuses what is neither with the list of all."""
    assert ["repeat.reset"] == [case.name for case in cases_of("environment", ["repeat.reset"])]
    assert {"repeat", "beat"} == {case.group for case in cases_of("environment", ["beat", "repeat"])}
    with pytest.raises(UsageError, match=r"there is no case 'repeat\.dance' of environments: expected one of beat"):
        cases_of("environment", ["repeat.dance"])


def test_our_own_muscle_conforms() -> None:
    """The random muscle keeps every clause that a plugin can be asked."""
    report = judge(PluginDriver("random"), Order(role="muscle", plugin="random", steps=50, curve=False))
    skipped = {v.case.name for v in report.verdicts if v.state == "skip"}

    assert report.conforms, "\n".join(report.lines())
    assert {"brain.joins", "brain.thinks", "large.reading", "leave.sigterm"} <= skipped


def _case(name: str, must: bool = True) -> Case:
    return Case(name, "Errors", "It is so.", lambda bench: None, ("environment",), must)


def test_report_says_what_is_wrong_and_how_to_ask_again() -> None:
    """Each failure has its clause, its section and the command that asks it again; a should does not fail the peer."""
    verdicts = [
        Verdict(_case("join.one"), "ok"),
        Verdict(_case("join.two"), "fail", "expected 1, found 2"),
        Verdict(_case("join.three", must=False), "fail", "expected 3"),
        Verdict(_case("step.four"), "skip", "no float"),
    ]
    report = Report("a · c", verdicts, "ganglion env test --only {case} -- ./a", (10.4, 99.6, 7))

    assert [
        "a · c",
        "join 1/3",
        "FAIL join.two: expected 1, found 2",
        "     must be: It is so.",
        "     PROTOCOL.md, Errors · again: ganglion env test --only join.two -- ./a",
        "WARN join.three: expected 3",
        "     should be: It is so.",
        "     PROTOCOL.md, Errors · again: ganglion env test --only join.three -- ./a",
        "skip step.four: no float",
        "speed: median 10 us, p99 100 us over 7 round trips",
        "does not conform: 1 of 2 musts failed",
    ] == report.lines()
    assert (1, False) == (report.exit_status, report.conforms)
    assert ["ok", "fail", "fail", "skip"] == [row["state"] for row in report.to_map()["cases"]]
