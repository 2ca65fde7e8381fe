"""Outcomes that are known exactly: streams of seeds, and a run that fails, of two golden documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simulation import Outcome, simulate

from ganglion.sdk.seed import generator_from_words, integer_from_words, words

GOLDEN = Path(__file__).parents[1] / "documents" / "golden"
SEED = 42


def run(beside: Callable[[str, str], None], document: str, module: str, results: Path) -> Outcome:
    """Run a golden document beside its module."""
    beside(module, (GOLDEN / f"{module}.py").read_text())
    return simulate((GOLDEN / f"{document}.yml").read_text(), 1, results)


def sums(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], tuple[int, float]]:
    """Return per worker and episode how many rows there are and the sum of their objectives."""
    found: dict[tuple[Any, ...], tuple[int, float]] = {}
    for row in rows:
        count, total = found.get(key := (row["worker"], row["episode"]), (0, 0.0))
        found[key] = (count + 1, total + row["objective"])
    return found


def test_an_environment_that_raises_fails_its_run(beside: Any, results: Path) -> None:
    """Exit status 1; environment, worker, step and exception are named; complete rows before it are stored."""
    outcome = run(beside, "crash", "crumbling", results)
    said = str(outcome.ended.failure)
    (row,), (phase,) = outcome.tables["runs"], outcome.tables["phases"]
    steps, episodes = outcome.tables["steps"], outcome.tables["episodes"]

    assert 1 == outcome.exit_status
    for text in ("environment field (worker 1)", "step 3", "OSError: the simulator has crashed", "crumbling.py"):
        assert text in said
    assert ("failed", "failed", "failed") == (row["status"], phase["status"], phase["reason"])
    assert "failed: OSError: the simulator has crashed" == row["reason"]
    # Worker 0 was in the same round: a step that has begun is completed.
    assert [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)] == [(step["worker"], step["step"]) for step in steps]
    assert {(0, 0): (3, 6.0), (1, 0): (2, 3.0)} == sums(outcome.tables["actions"])
    assert [(1, 2, True, "failed: OSError: the simulator has crashed"), (0, 3, True, "failed")] == [
        (e["worker"], e["steps"], e["truncated"], e["reason"]) for e in episodes
    ]
    assert {bool} == {type(e[key]) for e in (*episodes, *steps) for key in ("terminated", "truncated")}
    assert [] == outcome.tables["signals"]


def test_every_part_draws_from_the_stream_of_its_path(beside: Any, results: Path, tmp_path: Path) -> None:
    """Environments, their episodes, muscles, objectives, brains and controllers, in training and in evaluation."""
    assert "finished" == run(beside, "streams", "streams", results).status
    found: dict[tuple[Any, ...], tuple[int, float | None]] = {}
    lines = [line for path in tmp_path.glob("streams-*.jsonl") for line in path.read_text().splitlines()]
    for row in map(json.loads, lines):
        place = (row["kind"], row["mode"], row["worker"], row.get("episode"))
        assert place not in found  # each is made once
        found[place] = (int(row["given"] if "given" in row else row["seed"]), row.get("draw"))
    expected: dict[tuple[Any, ...], tuple[int, float | None]] = {}
    for mode in ("train", "evaluate"):
        for worker in (0, 1):
            begin: list[str | int] = ["phase", "phase_0", mode]
            end: list[str | int] = ["worker", worker]
            environment = [*begin, "environment", "myenv", *end]
            for kind, path_ in (
                ("environment", environment),
                ("muscle", [*begin, "agent", "One", "muscle", *end]),
                ("objective", [*begin, "agent", "One", "objective", *end]),
                ("controller", [*begin, "controller", *end]),
            ):
                stream = words(SEED, path_)
                draw = float(generator_from_words(stream).random())
                expected[kind, mode, worker, None] = (integer_from_words(stream), draw)
            stream = words(SEED, [*environment, "episode", 1])
            expected["episode", mode, worker, 1] = (integer_from_words(stream), None)
    stream = words(SEED, ["phase", "phase_0", "agent", "One", "brain"])
    expected["brain", "train", 0, None] = (integer_from_words(stream), float(generator_from_words(stream).random()))

    assert expected == found
    assert 4031383811298489202 == found["environment", "train", 0, None][0]
