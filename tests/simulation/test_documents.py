from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from simulation import Outcome, searched, simulate
from simulation.documents import Document, documents
from simulation.world import UNKNOWN, Expected, PhaseWorld, evaluated, expected


@searched(200, {"document": documents(), "seed": st.integers(0, 2**32)}, few=6)
def test_any_document_runs_to_its_end(results: Path, document: Document, seed: int) -> None:
    """A valid document finishes on the whole bus with the episodes, rows and objectives that its words imply."""
    outcome = simulate(document.text, seed, results)

    assert ("finished", "completed", 0, []) == (outcome.status, outcome.reason, outcome.exit_status, outcome.defects), (
        document.text
    )
    outcome.check()
    found = [(p["phase"], p["name"], p["mode"], p["status"]) for p in outcome.tables["phases"]]
    modes = []
    for index, phase in enumerate(document.phases):
        modes.append((index, phase.name, phase.mode, "finished"))
        rows = [row for row in outcome.tables["evaluations"] if row["phase"] == index]
        count = len({row["number"] for row in rows})
        assert len(rows) == count * len(phase.agents)
        if count:
            modes.append((index, phase.name, "evaluate", "finished"))
        if not phase.known:
            assert_race(outcome, index, phase, count)
            continue
        known = expected(phase)
        assert known.reason == next(p for p in outcome.tables["phases"] if p["phase"] == index)["reason"]
        assert_episodes(outcome, index, phase.mode, known)
        assert known.evaluations == count
        if count:
            assert_episodes(outcome, index, "evaluate", evaluated(phase, count))
    assert modes == found
    assert_readings(outcome, document)


def assert_readings(outcome: Outcome, document: Document) -> None:
    """Assert that environments which say where they are say it right: one object per worker, phase and mode."""
    counting = {
        (index, environment.uid)
        for index, phase in enumerate(document.phases)
        for environment in phase.environments
        if environment.kind == "counting"
    }
    for row in outcome.tables["steps"]:
        if (row["phase"], row["environment"]) in counting:
            told = row["sensors"][f"{row['environment']}.observation"]
            assert [0, row["episode"], row["step"], 0] == told


def assert_episodes(outcome: Outcome, index: int, mode: str, known: Expected) -> None:
    """Assert that a phase has the episodes, steps and objectives that the oracle knows, in their order."""
    tables = {name: outcome.tables[name] for name in ("episodes", "steps", "actions")}
    tables = {
        name: [row for row in rows if (row["phase"], row["mode"]) == (index, mode)] for name, rows in tables.items()
    }
    places = ("worker", "episode", "steps", "terminated", "reason")
    episodes = [tuple(row[name] for name in places) for row in tables["episodes"]]
    assert known.episodes == episodes if mode != "evaluate" else sorted(known.episodes) == sorted(episodes)
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


def assert_race(outcome: Outcome, index: int, phase: PhaseWorld, evaluations: int) -> None:
    """Assert what is known of games, and of workers that race, whoever is faster."""
    rows = [row for row in outcome.tables["episodes"] if row["phase"] == index]
    trained = [row for row in rows if row["mode"] == phase.mode]
    assert all(1 <= row["steps"] <= 9 for row in rows)
    assert evaluations * phase.each * phase.worker == len(rows) - len(trained)
    assert phase.every is None or evaluations <= len(trained) // phase.every
    if all(name != "environment" for name, _ in phase.phase_conditions):
        found = {(row["worker"], row["episode"]) for row in trained}
        assert {(w, e) for w in range(phase.worker) for e in range(phase.episodes)} == found
        assert not phase.evaluates or evaluations >= (phase.worker * phase.episodes >= phase.every)
