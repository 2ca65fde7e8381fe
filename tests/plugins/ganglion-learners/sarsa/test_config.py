from __future__ import annotations

import pytest

from ganglion.sdk import PluginInvalid
from ganglion_learners.sarsa.brain import SarsaBrain


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"order": 0}, "order: expected a whole number >= 1, found 0"),
        ({"step_size": 0.0}, "step_size: expected a finite number above 0"),
        ({"discount": 1.1}, r"discount: expected a number in \[0, 1\]"),
        ({"discount": 1.0}, "initial_value: expected a number given where discount is 1"),
        ({"trace_decay": -0.1}, r"trace_decay: expected a number in \[0, 1\]"),
        ({"exploration": 2.0}, r"exploration: expected a number in \[0, 1\]"),
        ({"exploration_decay": -1.0}, r"exploration_decay: expected a number in \[0, 1\]"),
        ({"exploration_least": -1.0}, r"exploration_least: expected a number in \[0, 1\]"),
        ({"unbounded": 0.0}, "unbounded: expected a finite number above 0"),
        ({"send_every": 0}, "send_every: expected a whole number >= 1"),
    ],
)
def test_refuses_what_is_out_of_range(make, params, told) -> None:
    """Each parameter has its range, and the message names parameter and value."""
    with pytest.raises(ValueError, match=told):
        make(SarsaBrain, **params)


def test_refuses_an_unknown_parameter(make) -> None:
    """A misspelt parameter is refused by the constructor's signature."""
    with pytest.raises(PluginInvalid, match="parameter 'stepsize' is not taken"):
        make(SarsaBrain, stepsize=0.1)


def test_a_discount_of_one_needs_a_first_value(make) -> None:
    """With a first value given, a discount of 1 is possible."""
    assert 7.0 == make(SarsaBrain, discount=1.0, initial_value=7.0).config.first_value
