# ruff: noqa: E501 - a row of a table of cases is easier to compare on one line
from __future__ import annotations

import re
from typing import Any

import pytest

from ganglion_conditions.rule import Plateau, Rule, Success

NAN, INF = float("nan"), float("inf")


def _after(rule: Rule, values: list[float | None]) -> int | None:
    """Return after how many evaluations the rule holds for the first time."""
    for number, value in enumerate(values, 1):
        rule.take({} if value is None else {"m": value})
        if rule.met:
            return number
    return None


SUCCESS = [
    ({"threshold": 1.0}, [1.0], 1),
    ({"threshold": 1.0}, [0.9, 1.0], 2),
    ({"threshold": 1.0}, [0.9, 0.99], None),
    ({"threshold": 1.0, "direction": "less_equal"}, [1.1, 1.0], 2),
    ({"threshold": 1, "consecutive": 2}, [1, 0, 1, 1], 4),
    ({"threshold": 1, "consecutive": 2}, [1, None, 1, 1], 4),
    ({"threshold": 1, "consecutive": 2}, [1, NAN, 1, INF, 1, 1], 6),
    ({"threshold": 1, "min_evaluations": 3}, [1, 1, 1], 3),
    ({"threshold": 1, "min_evaluations": 3}, [0, 0, 0, 1], 4),
    ({"threshold": 1, "min_evaluations": 2, "consecutive": 2}, [0, 1, 1], 3),
    ({"threshold": 1}, [None, INF, NAN], None),
]


@pytest.mark.parametrize(("given", "values", "expected"), SUCCESS)
def test_success(given: dict[str, Any], values: list[float | None], expected: int | None) -> None:
    """Success takes `consecutive` evaluations in a row that reach the threshold, and `min_evaluations` in all."""
    assert expected == _after(Success("a", {"metric": "m", **given}), values)


PLATEAU = [
    ({"patience": 2}, [1, 2, 3, 3, 3], 5),
    ({"patience": 1}, [5, 5], 2),
    ({"patience": 1}, [5, 6, 7, 8], None),
    ({"patience": 2}, [1, 0, 2, 1, 1], 5),
    ({"patience": 2, "direction": "minimize"}, [3, 2, 1, 1, 2], 5),
    ({"patience": 2, "min_delta": 1.0}, [1, 1.5, 2.0, 2.5, 2.9], 5),  # 2.0 is better by exactly 1
    ({"patience": 1, "min_delta": 0.0}, [1, 1], 2),  # equal is not better
    ({"patience": 1, "min_evaluations": 4}, [5, 5, 5, 5], 4),
    ({"patience": 2, "min_evaluations": 4}, [5, 5, 5, 5, 5], 5),
    ({"patience": 2, "min_evaluations": 4}, [5, 4, 3, 6, 6, 6], 6),
    ({"patience": 1, "window": 2}, [0, 4, 2, 5], None),
    ({"patience": 1, "window": 2}, [0, 4, 0], 3),
    ({"patience": 2, "window": 3}, [9, 0, 0, 0], 3),
    ({"patience": 2}, [1, None, NAN], 3),
    ({"patience": 2}, [None, INF], 2),
    ({"patience": 2}, [1, None, 2, None, 3, None], None),
]


@pytest.mark.parametrize(("given", "values", "expected"), PLATEAU)
def test_plateau(given: dict[str, Any], values: list[float | None], expected: int | None) -> None:
    """A plateau is `patience` evaluations in a row, from `min_evaluations` on, none of which was better."""
    assert expected == _after(Plateau("a", {"metric": "m", **given}), values)


def test_reasons() -> None:
    """Each rule says by which metric it holds."""
    one = Success("a", {"metric": "m", "threshold": 1})
    row = Success("a", {"metric": "m", "threshold": 1, "consecutive": 2, "direction": "less_equal"})
    flat = Plateau("a", {"metric": "m", "patience": 2})
    void = Plateau("a", {"metric": "n", "patience": 2})
    for rule in (one, row, flat, void):
        for _ in range(3):
            rule.take({"m": 1.0})

    assert "ada m 1 >= 1" == one.words("ada")
    assert "ada m 1 <= 1 in 3 evaluations in a row" == row.words("ada")
    assert "ada m not better than 1 in 2 evaluations" == flat.words("ada")
    assert "ada n had no value in 3 evaluations" == void.words("ada")


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
