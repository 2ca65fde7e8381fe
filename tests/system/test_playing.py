"""Real runs whose environments play what was recorded: as it was, without the simulator, for those who were there."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from system.command import Command, ganglion
from system.processes import below
from system.results import table

pytestmark = [  # the default run has them in tests/simulation/test_replay.py
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
]

BODIES = """
uid: {uid}
seed: {seed}
version: "0.1"
schedule:
  - run:
      environments:
        - {{environment: {lake}{lake_budget}}}
        - {{environment: {moor}, episode_end: each{moor_budget}}}
      agents:
        - {{name: ada, brain: {{name: log, params: {{path: {uid}-ada.jsonl}}}}, muscle: {{name: echo, params: {{offset: {offset}}}}}}}
        - {{name: bob, brain: log, muscle: {{name: echo, params: {{offset: {offset}}}}}}}
      bodies:
        num: [2, 1]
        rules: [{{match: {{agent: ada, body: 1}}, decision: {{period: 3, phase: 1, between: noop}}}}]
        dynamic: [{{agent: bob, environment: lake, max: 2}}]
      simulation: {{name: aeb}}
"""  # noqa: E501
LAKE = (
    "{uid: lake, name: counting, params: {length: [4, 1, 7, 4], events: [{after: 1, spawn: bob}, "
    "{after: 3, retire: bob, spawn: bob}]}}"
)
MOOR = "{uid: moor, name: counting, params: {length: 4}}"
TABLES = ("steps", "resets", "actions", "episodes")


def played(uid: str) -> str:
    """Return an environment that plays the one of its uid."""
    return f"{{uid: {uid}, name: replay, params: {{source: {{run: record}}}}}}"


def carried_out(folder: Path, name: str, text: str, *words: str) -> dict[str, list[dict[str, Any]]]:
    """Carry out a document; return its tables without what names the run."""
    (folder / f"{name}.yml").write_text(text)
    done = ganglion(folder, "run", f"{name}.yml", "--name", name, *words)
    assert 0 == done.returncode, done.stdout + done.stderr
    found = {one: [row for row in table(folder, one) if row["run"] == name] for one in TABLES}
    return {one: [{k: v for k, v in row.items() if k != "run"} for row in rows] for one, rows in found.items()}


def record_of_bodies() -> str:
    """Return a document with bodies that end early, come and go, decide seldom, and have episodes of their own."""
    budgets = {"lake_budget": ", budget: {episodes: 2}", "moor_budget": ", budget: {steps: 6}"}
    return BODIES.format(uid="record", seed=7, lake=LAKE, moor=MOOR, offset=0, **budgets)


def without(rows: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """Return rows without some columns."""
    return [{key: value for key, value in row.items() if key not in keys} for row in rows]


def test_bodies_are_played_as_they_were_recorded(tmp_path: Path) -> None:
    """All rows are those of the record but for what agents proposed: five more; brains learn from what was set."""
    first = carried_out(tmp_path, "record", record_of_bodies())
    again = BODIES.format(
        uid="again", seed=8, lake=played("lake"), moor=played("moor"), offset=5, lake_budget="", moor_budget=""
    )
    second = carried_out(tmp_path, "again", again)
    logs = [(tmp_path / f"{name}-ada.jsonl").read_text() for name in ("record", "again")]

    for one in ("steps", "resets"):
        assert first[one] == second[one], one
    assert without(first["actions"], "proposed") == without(second["actions"], "proposed")
    proposed = [[row["proposed"] for row in tables["actions"]] for tables in (first, second)]
    assert [{uid: value + 5 for uid, value in row.items()} for row in proposed[0]] == proposed[1]
    assert without(first["episodes"], "reason") == without(second["episodes"], "reason")
    assert logs[0] == logs[1]


PLAIN = """
uid: {uid}
seed: {seed}
version: "0.1"
run_config: {{conditions: [max_episodes]}}
schedule:
  - go:
      environments: [{{environment: {environment}}}]
      agents: [{{name: ada, brain: log, muscle: random, sensors: [cart.*], actuators: [cart.*]}}]
      simulation: {{name: vanilla, conditions: [environment, {{name: max_steps, params: {{steps: 12}}}}]}}
      phase_config: {{worker: 2{episodes}}}
"""


def test_ordinary_phases_are_played_too(tmp_path: Path) -> None:
    """Each worker plays what a worker of that number did, once; an episode that was cut is cut at the same step."""
    first = carried_out(
        tmp_path,
        "record",
        PLAIN.format(uid="record", seed=1, environment="{uid: cart, name: cartpole}", episodes=", episodes: 3"),
    )
    text = PLAIN.format(uid="again", seed=2, environment=played("cart"), episodes="")
    second = carried_out(tmp_path, "again", text)

    assert {name: without(rows, "proposed") for name, rows in first.items()} == {
        name: without(rows, "proposed") for name, rows in second.items()
    }
    assert [row["proposed"] for row in first["actions"]] != [row["proposed"] for row in second["actions"]]


def test_a_source_that_is_missing_is_a_fault_of_the_document(tmp_path: Path) -> None:
    """It is told with its line, and no process of a run is started."""
    environment = "{uid: cart, name: replay, params: {source: {run: nil}}}"
    (tmp_path / "run.yml").write_text(PLAIN.format(uid="again", seed=2, environment=environment, episodes=""))
    record = PLAIN.format(uid="record", seed=1, environment="{uid: cart, name: cartpole}", episodes=", episodes: 1")
    carried_out(tmp_path, "record", record)
    done = ganglion(tmp_path, "run", "run.yml", "--name", "again")

    assert 2 == done.returncode
    assert "run.yml:8:" in done.stderr
    assert "there is no run of `nil`" in done.stderr
    assert "run.started" not in done.stdout + done.stderr


def test_a_copy_that_has_changed_ends_the_run_by_its_name(tmp_path: Path) -> None:
    """Who takes the place of an environment that was lost plays what it was told to play, or nothing."""
    short = PLAIN.replace("steps: 12", "steps: 3")
    record = short.format(uid="record", seed=1, environment="{uid: cart, name: cartpole}", episodes=", episodes: 3")
    carried_out(tmp_path, "record", record)
    slowly = played("cart").replace("}}}", "}, pace: clock}}")  # it is still at it
    (tmp_path / "again.yml").write_text(short.format(uid="again", seed=2, environment=slowly, episodes=""))
    command = Command(tmp_path, "run", "again.yml", "--name", "again")
    command.until("episode.ended")
    (file,) = (tmp_path / "results" / "again" / "replay").rglob("*.npz")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    os.kill(next(one.pid for one in below(command.process.pid) if one.role == "environment"), signal.SIGKILL)
    status, said = command.end()

    assert 1 == status, said
    assert f"{file} is damaged: expected SHA-256" in f"{said}{command.events[-3:]}"
