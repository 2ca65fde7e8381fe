from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Discrete, MultiBinary, MultiDiscrete
from ganglion_learners.choice import Choices


def _actuators(*spaces):
    return [ActuatorInformation(None, space, f"e.{i}") for i, space in enumerate(spaces)]


def test_combinations_and_columns_are_each_others_inverse() -> None:
    """Every combination has columns of its own, which lie in the spaces."""
    space = MultiDiscrete([2, 3], start=[5, -1])
    choices = Choices(_actuators(space))
    columns = choices.split(np.arange(6))

    assert [0, 1, 2, 3, 4, 5] == choices.join(columns).tolist()
    assert [[5, -1], [5, 0], [5, 1], [6, -1], [6, 0], [6, 1]] == columns.tolist()
    assert all(space.contains(row) for row in columns)


def test_what_is_no_choice_is_named() -> None:
    """Each column is a whole number between its first and last choice; another one is named with row and column."""
    choices = Choices(_actuators(Discrete(3, start=-1), MultiBinary(1)))
    choices.check(np.array([[-1, 0], [1.0, 1.0]]))
    for bad, told in (
        ([2, 0], r"decision 1 has the action 2 \(column 0\), expected a whole number in \[-1, 1\]"),
        ([0.5, 0], r"the action 0\.5 \(column 0\)"),
        ([0, np.nan], r"the action nan \(column 1\), expected a whole number in \[0, 1\]"),
    ):
        with pytest.raises(ValueError, match=told):
            choices.check(np.array([[0, 0], bad]))
