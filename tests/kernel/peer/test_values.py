from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.peer.step.layout import Layout
from ganglion.peer.worker.world import Values, fields_of
from ganglion.sdk.spaces import Box, Discrete

PAIR = Layout(["w.p", "w.n"], [Box(0.0, 1.0, (2,)), Discrete(10)])
HALVES = np.array([0.25, 0.5])


layout: dict[str, Layout] = {"one": PAIR, "two": PAIR}


def values() -> Values:
    """Return the values of two agents."""
    return Values({"one": PAIR.field([[HALVES, 3]]), "two": PAIR.field([[HALVES, 4]])}, layout)


def test_values_are_shown_in_their_spaces() -> None:
    """What is bytes on the wire is an array of its shape, in declared order, agent by agent."""
    shown = values()

    assert ["one", "two"] == list(shown)
    assert ([0.25, 0.5], 3) == (shown["one"][0].tolist(), shown["one"][1])
    assert 2 == len(shown)
    with pytest.raises(KeyError):
        shown["three"]


def test_changed_setpoints_travel_changed() -> None:
    """In place, replaced, left out, or as a map of the author's own."""
    changed: Any = values()
    changed["one"][1] = 9
    changed["two"] = [np.array([1.0, 0.0]), np.int64(2)]
    whole = np.array([1.0, 0.0])

    assert {"one": PAIR.field([[HALVES, 9]]), "two": PAIR.field([[whole, 2]])} == fields_of(changed, layout)
    del changed["one"]
    assert {"two": PAIR.field([[whole, 2]])} == fields_of(changed, layout)
    assert {"two": PAIR.field([[whole, 1]])} == fields_of({"two": (np.array([1.0, 0.0]), 1)}, layout)
    assert {"one": PAIR.field([[HALVES, 3]]), "two": PAIR.field([[whole, 1]])} == fields_of(
        {**values(), "two": [[1.0, 0.0], 1]}, layout
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([np.zeros(2), 10], r"setpoints of agent one: setpoint w\.n: expected a value of Discrete\(10\), found 10"),
        ([np.array([0.0, 2.0]), 1], r"setpoint w\.p: expected a value of Box"),
        ([np.zeros(3), 1], r"setpoint w\.p: expected a value of Box"),
        ([np.zeros(2)], "setpoints of agent one: expected 2 values, found 1"),
        (7, "setpoints of agent one: expected 2 values, found int"),
        ("ab", "setpoints of agent one: expected 2 values, found 2"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_the_authors_mistake(given: Any, text: str) -> None:
    """Values out of their spaces, too few, or none: named by agent and id, given or written into what was shown."""
    changed: Any = values()
    changed["one"] = given

    for setpoints in ({"one": given}, changed):
        with pytest.raises(AuthorError, match=text):
            fields_of(setpoints, layout)
