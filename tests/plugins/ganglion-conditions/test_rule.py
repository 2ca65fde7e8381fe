# ruff: noqa: E501 - a row of a table of cases is easier to compare on one line
from __future__ import annotations

import re
from typing import Any

import pytest

from ganglion_conditions.rule import Plateau, Rule, Success

NAN, INF = float("nan"), float("inf")


def test_earliest() -> None:
    """No rule holds before the evaluation that it names."""
    assert 3 == Success("a", {"metric": "m", "threshold": 1, "consecutive": 3}).earliest()
    assert 4 == Success("a", {"metric": "m", "threshold": 1, "min_evaluations": 4}).earliest()
    assert 2 == Plateau("a", {"metric": "m", "patience": 2}).earliest()
    assert 6 == Plateau("a", {"metric": "m", "patience": 2, "min_evaluations": 5}).earliest()


BAD: list[tuple[type[Rule], Any, str]] = [
    (Success, {}, "a: expected a map of metric, threshold, direction, consecutive, min_evaluations, found an empty one"),
    (Success, {"metric": "m"}, "a: key 'threshold' is missing"),
    (Success, {"threshold": 1}, "a: key 'metric' is missing"),
    (Success, {"metric": "m", "threshold": "1"}, "a.threshold: expected a finite number, found '1'"),
    (Success, {"metric": "m", "threshold": 1, "patience": 1},
     "a: expected metric, threshold, direction, consecutive, min_evaluations, found 'patience'"),
    (Success, {"metric": "m", "threshold": 1, "direction": "maximize"},
     "a.direction: expected greater_equal or less_equal, found 'maximize'"),
    (Success, {"metric": "m", "threshold": 1, "consecutive": 0}, "a.consecutive: expected an integer >= 1, found 0"),
    (Plateau, {"metric": "m"}, "a: key 'patience' is missing"),
    (Plateau, {"metric": "", "patience": 1}, "a.metric: expected a text, found ''"),
    (Plateau, {"metric": "m", "patience": 1.5}, "a.patience: expected an integer >= 1, found 1.5"),
    (Plateau, {"metric": "m", "patience": 1, "min_delta": -1}, "a.min_delta: expected a finite number >= 0, found -1"),
    (Plateau, {"metric": "m", "patience": 1, "window": 0}, "a.window: expected an integer >= 1, found 0"),
    (Plateau, {"metric": "m", "patience": 1, "min_evaluations": 0}, "a.min_evaluations: expected an integer >= 1, found 0"),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "given", "message"), BAD)
def test_refuses_what_means_nothing(cls: type[Rule], given: Any, message: str) -> None:
    """Bad parameters are refused by key, expected and found."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        cls("a", given)
