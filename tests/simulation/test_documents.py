from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulation import Outcome, simulate
from simulation.documents import Document, documents
from simulation.world import UNKNOWN, Expected, PhaseWorld, expected

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
SEEDS = st.integers(0, 2**32)


def runs_to_its_end(document: Document, seed: int, results: Path) -> None:
    """Assert that a document finishes with what its phases must give."""
    outcome = simulate(document.text, seed, results)

    assert ("finished", "completed", 0, []) == (
        outcome.status,
        outcome.reason,
        outcome.exit_status,
        outcome.defects,
    ), document.text
    outcome.check()
    found = [(p["name"], p["mode"], p["status"]) for p in outcome.tables["phases"]]
    assert [(p.name, p.mode, "finished") for p in document.phases] == found
    for index, phase in enumerate(document.phases):
        if phase.known:
            assert_phase(outcome, index, phase, expected(phase))
        else:
            assert_game(outcome, index, phase)


def assert_phase(outcome: Outcome, index: int, phase: PhaseWorld, known: Expected) -> None:
    """Assert that a phase has the episodes, steps and objectives that the oracle knows, in their order."""
    tables = {
        name: [row for row in rows if row.get("phase") == index] for name, rows in outcome.tables.items()
    }
    assert known.reason == tables["phases"][0]["reason"]
    places = ("worker", "episode", "steps", "terminated", "reason")
    assert known.episodes == [tuple(row[name] for name in places) for row in tables["episodes"]]
    steps = [(row["worker"], row["episode"], row["environment"]) for row in tables["steps"]]
    assert known.steps == {place: steps.count(place) for place in dict.fromkeys(steps)}
    judged: dict[tuple[int, int, str], list[Any]] = {}
    for row in tables["actions"]:
        judged.setdefault((row["worker"], row["episode"], row["agent"]), []).append(row["objective"])
    assert known.objectives.keys() == judged.keys()
    for place, wanted in known.objectives.items():
        assert same(wanted, judged[place]), f"objectives of {place}: {wanted}, {judged[place]}"


def same(wanted: list[Any], found: list[Any]) -> bool:
    """Say whether objectives are those that were expected, as far as they are known."""
    if len(wanted) != len(found):
        return False
    pairs = [(w, f) for w, f in zip(wanted, found, strict=True) if w != UNKNOWN]
    return all(w is f if w is None or f is None else math.isclose(w, f, abs_tol=1e-9) for w, f in pairs)


def assert_game(outcome: Outcome, index: int, phase: PhaseWorld) -> None:
    """Assert what is known of games whatever the players do: how many there are, how long they may be."""
    rows = [row for row in outcome.tables["episodes"] if row["phase"] == index]
    assert all(1 <= row["steps"] <= 9 for row in rows)
    if all(name != "environment" for name, _ in phase.phase_conditions):
        games = [(row["worker"], row["episode"]) for row in rows]
        assert {(w, e) for w in range(phase.worker) for e in range(phase.episodes)} == set(games)


@settings(max_examples=40, suppress_health_check=SLOW)
@given(document=documents(), seed=SEEDS)
def test_any_document_runs_to_its_end(document: Document, seed: int, results: Path) -> None:
    """A valid document finishes on the whole bus with the episodes, rows and objectives that its words imply."""
    runs_to_its_end(document, seed, results)


@pytest.mark.long
@settings(max_examples=200, suppress_health_check=SLOW)
@given(document=documents(), seed=SEEDS)
def test_two_hundred_documents_run_to_their_end(document: Document, seed: int, results: Path) -> None:
    """The same for more documents."""
    runs_to_its_end(document, seed, results)
