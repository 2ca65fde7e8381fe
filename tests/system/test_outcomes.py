"""Outcomes that are known exactly: streams of seeds, and a run that fails, in real runs of two golden documents."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from system.farm import Farm
from system.results import Rows

from ganglion.sdk.seed import generator_from_words, integer_from_words, words

GOLDEN = Path(__file__).parents[1] / "documents" / "golden"
SEED = 42


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    """Return a folder with the golden documents."""
    shutil.copytree(GOLDEN, tmp_path, dirs_exist_ok=True)
    return Farm(tmp_path)


def run(farm: Farm, document: str) -> subprocess.CompletedProcess[str]:
    """Run a golden document."""
    return farm.ganglion("run", f"{document}.yml", "--plain")


def sums(rows: Rows) -> dict[tuple[Any, ...], tuple[int, float]]:
    """Return per worker and episode how many rows there are and the sum of their objectives."""
    found: dict[tuple[Any, ...], tuple[int, float]] = {}
    for row in rows:
        count, total = found.get(key := (row["worker"], row["episode"]), (0, 0.0))
        found[key] = (count + 1, total + row["objective"])
    return found


def test_an_environment_that_raises_fails_its_run(farm: Farm) -> None:
    """Exit status 1; environment, worker, step and exception are named; complete rows before it are stored."""
    done = run(farm, "crash")
    said = done.stdout + done.stderr
    (row,), (phase,) = farm.rows("runs", "crash-1"), farm.rows("phases", "crash-1")
    steps, episodes = farm.rows("steps", "crash-1"), farm.rows("episodes", "crash-1")

    assert 1 == done.returncode
    for text in ("environment field (worker 1)", "step 3", "OSError: the simulator has crashed", "crumbling.py"):
        assert text in said
    assert ("failed", "failed", "failed") == (row["status"], phase["status"], phase["reason"])
    assert "failed: OSError: the simulator has crashed" == row["reason"]
    # Worker 0 was in the same round: a step that has begun is completed.
    assert [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)] == [(step["worker"], step["step"]) for step in steps]
    assert {(0, 0): (3, 6.0), (1, 0): (2, 3.0)} == sums(farm.rows("actions", "crash-1"))
    assert [(1, 2, True, "failed: OSError: the simulator has crashed"), (0, 3, True, "failed")] == [
        (e["worker"], e["steps"], e["truncated"], e["reason"]) for e in episodes
    ]
    assert {bool} == {type(e[key]) for e in (*episodes, *steps) for key in ("terminated", "truncated")}
    assert [] == farm.rows("signals", "crash-1")


def test_every_part_draws_from_the_stream_of_its_path(farm: Farm) -> None:
    """Environments, their episodes, muscles, objectives, brains and controllers, in training and in evaluation."""
    done = run(farm, "streams")
    assert 0 == done.returncode, done.stdout + done.stderr
    found: dict[tuple[Any, ...], tuple[int, float | None]] = {}
    lines = [line for path in farm.folder.glob("streams-*.jsonl") for line in path.read_text().splitlines()]
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
