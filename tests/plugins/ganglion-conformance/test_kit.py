from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ganglion.errors import UsageError
from ganglion_conformance.bench import Order
from ganglion_conformance.kit import cases_of, judge

CASES = [case.name for case in cases_of("environment")]
OF_MUSCLES = [case.name for case in cases_of("muscle") if "environment" not in case.roles]
BROKEN = [*(("environment", name) for name in CASES), *(("muscle", name) for name in OF_MUSCLES)]
SKIPPED_BY = {"errors.unknown-call": ["errors.kind"]}  # who answers no ERROR cannot be asked of which kind it is
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
