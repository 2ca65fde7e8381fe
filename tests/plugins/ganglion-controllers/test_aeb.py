from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ganglion.sdk import Controller
from ganglion_controllers.aeb import AEB
from ganglion_controllers.taking_turns import TakingTurns
from ganglion_controllers.vanilla import Vanilla


def test_it_says_that_its_phases_have_bodies() -> None:
    """The bus goes by that; controllers that say nothing have none."""
    assert [True, False, False, False] == [cls.multiplicity for cls in (AEB, Vanilla, TakingTurns, Controller)]


@pytest.mark.parametrize("end", ["all", "any", {"environment": "lake"}])
def test_ends_of_a_phase(end: Any) -> None:
    """All, any, or one environment by its uid."""
    assert end == AEB("barrier", end).end
    assert "all" == AEB("free", lead=3).end == AEB().end


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"mode": "fast"}, "mode: expected barrier or free, found 'fast'"),
        ({"mode": None}, "mode: expected barrier or free, found None"),
        ({"mode": ["barrier"]}, "mode: expected barrier or free, found"),
        ({"end": "some"}, "end: expected all, any or {environment: <uid>}, found 'some'"),
        ({"end": None}, "end: expected all, any or {environment: <uid>}, found None"),
        ({"end": {}}, "end: expected all, any or"),
        ({"end": {"environment": 3}}, "end: expected all, any or"),
        ({"end": {"environment": ""}}, "end: expected all, any or"),
        ({"end": {"environment": "lake", "body": 1}}, "end: expected all, any or"),
        ({"end": ["lake"]}, "end: expected all, any or"),
        ({"lead": 4}, "lead: expected a number of ticks of at least 1, in mode free, found 4"),
        ({"lead": 0, "mode": "free"}, "lead: expected a number of ticks of at least 1, in mode free, found 0"),
        ({"lead": True, "mode": "free"}, "lead: expected a number of ticks of at least 1, in mode free, found True"),
    ],
)
def test_wrong_params_are_named(params: dict[str, Any], text: str) -> None:
    """The error says which parameter, what is expected, what was found."""
    with pytest.raises(ValueError, match="expected") as caught:
        AEB(**params)

    assert str(caught.value).startswith(text)


def test_it_makes_no_steps_itself() -> None:
    """The bus makes the ticks; whoever calls its loop is told so."""
    with pytest.raises(NotImplementedError, match="AEB has neither advance nor a simulate"):
        asyncio.run(AEB().simulate())
