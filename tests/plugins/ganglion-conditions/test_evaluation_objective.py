# ruff: noqa: E501 - a row of a table of cases is easier to compare on one line
"""Conditions on evaluations: their rules, and the definition that they keep."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganglion.sdk import EvaluationView, Mode, PhaseView, Signal
from ganglion_conditions.evaluation_objective import EvaluationObjective
from ganglion_conditions.rule import Plateau, Rule, Success

Make = Callable[..., Any]
SUCCESS = {"metric": "objective", "threshold": 1.0}
PLATEAU = {"metric": "objective", "patience": 2}


def _view(*evaluations: dict[str, Any]) -> PhaseView:
    rows = [EvaluationView(number, metrics) for number, metrics in enumerate(evaluations)]
    return PhaseView(Mode.TRAIN, [], evaluations=rows)


def _objectives(*values: float) -> list[dict[str, Any]]:
    return [{"ada": {"objective": value}} for value in values]


def test_success_goes_before_plateau(make: Make) -> None:
    """If both hold it was a success."""
    condition = make(
        EvaluationObjective, agents={"ada": {"plateau": PLATEAU, "success": {**SUCCESS, "consecutive": 3}}}
    )

    assert Signal.STOP_PHASE is condition.phase(_view(*_objectives(1.0, 1.0, 1.0)))
    assert "success: ada objective 1 >= 1 in 3 evaluations in a row" == condition.reason


BAD = [
    ({}, "agents: expected a map of agents to their rules, found an empty one"),
    ({"ada": {}}, "agents.ada: expected a map of success, plateau to their rules, found an empty one"),
    ({"ada": {"sucess": SUCCESS}}, "agents.ada: expected success or plateau, found 'sucess'"),
    ({"ada": {"success": SUCCESS}, "bob": {"plateau": PLATEAU}},
     "agents.bob: expected a success rule as for ada: a rule stands for all agents or for none"),
    ({"ada": {"success": SUCCESS}, "bob": {"success": SUCCESS, "plateau": PLATEAU}},
     "agents.ada: expected a plateau rule as for bob: a rule stands for all agents or for none"),
    ({"ada": {"success": {**SUCCESS, "threshold": None}}},
     "agents.ada.success.threshold: expected a finite number, found None"),
]  # fmt: skip


@pytest.mark.parametrize(("agents", "message"), BAD)
def test_refuses_what_means_nothing(make: Make, agents: dict[str, Any], message: str) -> None:
    """Bad parameters are refused by key, expected and found."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make(EvaluationObjective, agents=agents)


# -- against the definition, written down as it stands ----------------------------------------------------------------
VALUES = st.sampled_from([None, math.nan, math.inf, 0.0, 0.5, 1.0, 1.5, 2.0])
COUNTS = st.integers(1, 4)
SUCCESSES = st.fixed_dictionaries(
    {"metric": st.just("m"), "threshold": st.sampled_from([0.5, 1.0])},
    optional={
        "direction": st.sampled_from(["greater_equal", "less_equal"]),
        "consecutive": COUNTS,
        "min_evaluations": COUNTS,
    },
)
PLATEAUS = st.fixed_dictionaries(
    {"metric": st.just("m"), "patience": COUNTS},
    optional={
        "direction": st.sampled_from(["maximize", "minimize"]),
        "min_delta": st.sampled_from([0.0, 0.5]),
        "min_evaluations": COUNTS,
        "window": COUNTS,
    },
)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _succeeds(rule: dict[str, Any], values: list[float | None]) -> bool:
    """Say whether the last `consecutive` of all evaluations reach the threshold, and there are enough."""
    least, row = rule.get("min_evaluations", 1), rule.get("consecutive", 1)
    upwards = rule.get("direction", "greater_equal") == "greater_equal"
    last = values[-row:]
    good = [
        value is not None and _finite(value) and (value >= rule["threshold"] if upwards else value <= rule["threshold"])
        for value in last
    ]
    return len(values) >= least and len(last) == row and all(good)


def _stalls(rule: dict[str, Any], values: list[float | None]) -> bool:
    """Say whether patience runs out within all evaluations, each looked at from the beginning."""
    sign = -1 if rule.get("direction") == "minimize" else 1
    best: float | None = None
    vain = 0
    for number, value in enumerate(values, 1):
        known = [v for v in values[:number] if v is not None and _finite(v)]
        last = known[-rule.get("window", 1) :]
        smooth = math.fsum(last) / len(last) if last and _finite(value) else None
        if smooth is not None and (
            best is None or (sign * (smooth - best) > 0 and sign * (smooth - best) >= rule.get("min_delta", 0))
        ):
            best, vain = smooth, 0
        elif number >= rule.get("min_evaluations", 1):
            vain += 1
    return vain >= rule["patience"]


@settings(deadline=None)
@given(
    st.lists(st.tuples(VALUES, VALUES), max_size=10),
    st.tuples(SUCCESSES, SUCCESSES),
    st.tuples(PLATEAUS, PLATEAUS),
    st.sampled_from(["success", "plateau", "both"]),
    st.integers(0, 10),
)
def test_against_the_definition(
    values: list[tuple[float | None, float | None]],
    successes: tuple[dict[str, Any], dict[str, Any]],
    plateaus: tuple[dict[str, Any], dict[str, Any]],
    which: str,
    restart: int,
) -> None:
    """After any evaluations the answer is that of the definition, also of an object that took over another's state."""
    agents: dict[str, Any] = {}
    for i, agent in enumerate(("ada", "bob")):
        rules = {"success": successes[i], "plateau": plateaus[i]}
        agents[agent] = rules if which == "both" else {which: rules[which]}
    condition = EvaluationObjective(agents=agents)
    rows: list[dict[str, Any]] = []
    for number in range(len(values)):
        rows.append({a: {} if v is None else {"m": v} for a, v in zip(agents, values[number], strict=True)})
        if number == restart:
            fresh = EvaluationObjective(agents=agents)
            fresh.restore(condition.state())
            condition = fresh
        given_up_to_now = [[pair[i] for pair in values[: number + 1]] for i in range(2)]
        success = which != "plateau" and all(
            _succeeds(rule, row) for rule, row in zip(successes, given_up_to_now, strict=True)
        )
        plateau = which != "success" and all(
            _stalls(rule, row) for rule, row in zip(plateaus, given_up_to_now, strict=True)
        )
        expected = Signal.STOP_PHASE if success or plateau else Signal.CONTINUE

        assert expected is condition.phase(_view(*rows))
        assert expected is condition.phase(_view(*rows))
        if expected is Signal.STOP_PHASE:
            assert ("success" if success else "plateau") == condition.reason.partition(":")[0]


# -- warnings ---------------------------------------------------------------------------------------------------------
def _document(every: int | None, episodes: int | None, worker: int = 1, ends: str = "max_episodes") -> dict[str, Any]:
    config = {"evaluate_every": every, "episodes": episodes, "worker": worker, "conditions": [{"name": ends}]}
    return {"phase_config": config, "episode_limit": episodes if ends == "max_episodes" else None}


NEEDS = "condition can never fire: agents.ada.success needs 3 evaluations, this phase has at most 2"


@pytest.mark.parametrize(
    ("document", "messages"),
    [
        (_document(2, 5), [NEEDS]),
        (_document(2, 6), []),
        (_document(2, 5, worker=2), []),
        (_document(2, 5, ends="other"), []),
        (_document(2, None), []),
        (_document(None, 5), ["condition can never fire: without `evaluate_every` there is no evaluation"]),
        (_document(9, 5), []),  # that there is none at all is told without importing anything
    ],
)
def test_warns_of_too_few_evaluations(make: Make, document: dict[str, Any], messages: list[str]) -> None:
    """A rule that needs more evaluations than the phase can have is told."""
    condition = make(EvaluationObjective, agents={"ada": {"success": {**SUCCESS, "consecutive": 3}}})

    assert messages == list(condition.warnings(document))


NAN, INF = float("nan"), float("inf")


def test_earliest() -> None:
    """No rule holds before the evaluation that it names."""
    assert 3 == Success("a", {"metric": "m", "threshold": 1, "consecutive": 3}).earliest()
    assert 4 == Success("a", {"metric": "m", "threshold": 1, "min_evaluations": 4}).earliest()
    assert 2 == Plateau("a", {"metric": "m", "patience": 2}).earliest()
    assert 6 == Plateau("a", {"metric": "m", "patience": 2, "min_evaluations": 5}).earliest()


BAD_RULES: list[tuple[type[Rule], Any, str]] = [
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


@pytest.mark.parametrize(("cls", "given", "message"), BAD_RULES)
def test_rules_that_mean_nothing_are_refused(cls: type[Rule], given: Any, message: str) -> None:
    """Bad parameters are refused by key, expected and found."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        cls("a", given)
