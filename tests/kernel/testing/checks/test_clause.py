from __future__ import annotations

import pytest

from ganglion.errors import ContractBroken
from ganglion.testing.checks.clause import clause, encoded, expect, first_difference
from ganglion.wire.messages import MuscleReset


class Thing:
    pass


def test_an_error_is_told_with_its_clause() -> None:
    """Whatever is raised becomes the cause of an error that says whose clause it breaks; notes are kept."""
    error = KeyError("x")
    error.add_note("here")
    with pytest.raises(ContractBroken) as caught, clause(Thing, "it works"):
        raise error

    assert "Thing: it works: KeyError: 'x'\n  here" == str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)
    assert isinstance(caught.value, AssertionError)


def test_an_inner_clause_is_told_alone() -> None:
    """A clause within a clause is not told twice."""
    with pytest.raises(ContractBroken) as caught, clause(Thing, "outside"):
        expect(Thing, "inside", kept=False, found="nothing")

    assert "Thing: inside: found nothing" == str(caught.value)


def test_traces_are_compared_by_element() -> None:
    """The first element that differs or lacks has a number; equal traces have none."""
    assert encoded(MuscleReset(1)) != encoded(MuscleReset(2))
    assert first_difference([b"a", b"b"], [b"a", b"b"]) is None
    assert 1 == first_difference([b"a", b"b"], [b"a", b"c"])
    assert 1 == first_difference([b"a"], [b"a", b"c"])
