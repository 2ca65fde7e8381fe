from __future__ import annotations

import re
from pathlib import Path

import pytest

from ganglion.testing.kit.case import CASES, Miss, case, expect
from ganglion.testing.kit.kit import GROUPS, cases_of

PAPER = Path(__file__).parents[4] / "kernel" / "PROTOCOL.md"


def test_expectation_that_does_not_hold_is_a_miss() -> None:
    """What does not hold is told in the words that were given for it."""
    expect(1, "never said")

    with pytest.raises(Miss, match="it is not there"):
        expect([], "it is not there")


def test_name_is_entered_once() -> None:
    """Two cases of one name would hide each other."""
    with pytest.raises(AssertionError, match=r"the case join\.hello is there twice"):
        case("join.hello", "Joining")(lambda bench: None)


def test_every_case_says_its_clause_and_where_it_stands() -> None:
    """Each case has a sentence, a group of the report, and the heading of a section of the paper."""
    headings = set(re.findall(r"^## \d+\. (.*)$", PAPER.read_text(), re.MULTILINE))

    assert {"environment", "muscle"} == {role for one in CASES.values() for role in one.roles}
    assert set() == {one.heading for one in CASES.values()} - headings
    assert [] == [one.name for one in CASES.values() if not one.text.endswith(".")]
    assert {one.group for one in CASES.values()} == set(GROUPS)
    assert [] == [
        one.name for one in CASES.values() if one.name not in {c.name for r in one.roles for c in cases_of(r)}
    ]
