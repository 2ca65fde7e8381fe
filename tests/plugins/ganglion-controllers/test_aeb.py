from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ganglion import registry
from ganglion.sdk import Controller
from ganglion_controllers.aeb import AEB


def test_controller_of_bodies_is_found_and_says_so() -> None:
    """Its class attribute is what documents are checked by; controllers that say nothing have no bodies."""
    assert AEB is registry.load("controller", "aeb")
    assert (True, False) == (AEB.multiplicity, Controller.multiplicity)
    others = [registry.load("controller", name).multiplicity for name in ("vanilla", "taking_turns")]
    assert [False, False] == others


@pytest.mark.parametrize("end", ["all", "any", {"environment": "lake"}])
def test_ends_of_a_phase(end: Any) -> None:
    """All, any, or one environment by its uid."""
    assert end == AEB("barrier", end).end
    assert "all" == AEB().end


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"mode": "free"}, "mode: free is not built yet, expected barrier"),
        ({"mode": "fast"}, "mode: expected barrier, found 'fast'"),
        ({"mode": None}, "mode: expected barrier, found None"),
        ({"mode": ["barrier"]}, "mode: expected barrier, found"),
        ({"end": "some"}, "end: expected all, any or {environment: <uid>}, found 'some'"),
        ({"end": None}, "end: expected all, any or {environment: <uid>}, found None"),
        ({"end": {}}, "end: expected all, any or"),
        ({"end": {"environment": 3}}, "end: expected all, any or"),
        ({"end": {"environment": ""}}, "end: expected all, any or"),
        ({"end": {"environment": "lake", "body": 1}}, "end: expected all, any or"),
        ({"end": ["lake"]}, "end: expected all, any or"),
        ({"lead": 4}, "lead: not built yet: it belongs to mode free"),
        ({"lead": 0, "mode": "free"}, "mode: free is not built yet"),
    ],
)
def test_wrong_params_are_named(params: dict[str, Any], text: str) -> None:
    """The error says which parameter, what is expected, what was found."""
    with pytest.raises(ValueError, match=r"expected|not built") as caught:
        AEB(**params)

    assert str(caught.value).startswith(text)


def test_it_makes_no_steps_itself() -> None:
    """The bus makes the ticks; whoever calls its loop is told so."""
    with pytest.raises(NotImplementedError, match="AEB has neither advance nor a simulate"):
        asyncio.run(AEB().simulate())
