"""Two algorithms that share an environment, in common ticks and free of each other, as separate processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from system.command import Command, ganglion, private
from system.processes import MARKER, left_of, marked

pytestmark = [  # the default run has them in tests/simulation/test_free.py
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
]

MODULE = '''
import random, time
from ganglion.sdk import Brain, Muscle
from ganglion_toys.counting import CountingEnvironment
from ganglion_toys.echo import EchoMuscle

class Rules(Brain):
    """Count what came of each rule, one transition at a time, and tell how often."""
    def initial_update(self, muscle_id): return None
    def thinking(self, muscle_id, data):
        self.count = getattr(self, "count", 0) + 1
        return {"rule": self.count}

class Witness(EchoMuscle):
    """Answer alike, and write down what updates say."""
    def update(self, update):
        with open(f"{type(self).__name__}.txt", "a") as file:
            file.write(f"{list(update)[0]}\\n")

class Other(Witness):
    """Be one of another name."""

def rest():
    time.sleep(random.SystemRandom().uniform(0.001, 0.020))

class Moody(EchoMuscle):
    """Take some time for each decision, another one each time."""
    def propose_actions(self, sensors, actuators):
        rest()
        return super().propose_actions(sensors, actuators)

class Weather(CountingEnvironment):
    """Take some time for each step, another one each time."""
    def update_batch(self, setpoints):
        rest()
        return super().update_batch(setpoints)
'''
SHARED = """\
uid: shared
seed: 5
version: "0.1"
schedule:
  - train:
      environments:
        - {{environment: {{uid: lake, name: counting, params: {{length: 5, verify: true}}}}, budget: {{steps: {lake}}}}}
        - {{environment: {{uid: moor, name: counting, params: {{length: 7, verify: true}}}}, budget: {{steps: {moor}}}}}
      agents:
        - {{name: ada, brain: {{name: log, params: {{path: ada.jsonl, update_every: 2}}}},
           muscle: {{name: "parts:Witness", params: {{delay_s: {delay_s}}}}}}}
        - {{name: bob, brain: "parts:Rules", muscle: "parts:Other"}}
      bodies: {{product: custom, num: {{ada: {{lake: 1}}, bob: {{lake: 1, moor: 1}}}}}}
      phase_config: {{mode: train, sync: {sync}}}
      simulation: {{name: aeb, params: {{mode: {mode}, end: {end}}}}}
"""
GOLDEN = """\
uid: golden
seed: 7
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {{uid: north, name: {world}, params: {{length: 3, verify: true}}}}
          clock: {{period: 2, phase: 0}}
          budget: {{episodes: 3}}
        - environment: {{uid: east, name: {world}, params: {{length: 4, verify: true}}}}
          clock: {{period: 3, phase: 1}}
          budget: {{episodes: 2}}
        - environment: {{uid: west, name: {world}, params: {{length: 2, verify: true}}}}
          clock: {{period: 4, phase: 2}}
          budget: {{episodes: 4}}
      agents: [{{name: ada, brain: log, muscle: {muscle}}}, {{name: bob, brain: none, muscle: {muscle}}}]
      phase_config: {{mode: train, sync: {sync}, worker: {workers}}}
      simulation: {{name: aeb, params: {{mode: {mode}}}}}
"""
BARRIER, FREE = {"mode": "barrier", "sync": "lockstep"}, {"mode": "free", "sync": "async"}
PLAIN = {"world": "counting", "muscle": "echo", "workers": 1}
MOODY = {"world": '"parts:Weather"', "muscle": '"parts:Moody"'}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a short path and the module."""
    with tempfile.TemporaryDirectory(prefix="gf-", dir="/tmp") as path:
        (Path(path) / "parts.py").write_text(MODULE)
        yield Path(path)


def table(folder: Path, run: str, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    done = ganglion(folder, "results", run, "--table", name, "--format", "json", more=private(folder))
    assert 0 == done.returncode, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return [{key: value for key, value in row.items() if key != "run"} for row in found]


def sets(folder: Path, run: str) -> dict[str, list[str]]:
    """Return the rows of a run, each table in an order of their own."""
    names = ("episodes", "resets", "steps", "actions")
    return {name: sorted(json.dumps(row, sort_keys=True) for row in table(folder, run, name)) for name in names}


def carry_out(folder: Path, name: str, text: str, **given: Any) -> str:
    """Carry out a document; return the run's name."""
    (folder / f"{name}.yml").write_text(text.format(**given))
    done = ganglion(folder, "run", f"{name}.yml", "--name", name, more=private(folder))
    assert 0 == done.returncode, done.stdout + done.stderr
    return name


@pytest.mark.parametrize("mode", [BARRIER, FREE], ids=["barrier", "free"])
def test_two_algorithms_share_an_environment(mode: dict[str, str], folder: Path) -> None:
    """No update of one reaches the other, each brain hears of its own bodies, and a step has the setpoints of both."""
    run = carry_out(folder, "two", SHARED, lake=10, moor=14, delay_s=0, end="all", **mode)
    heard = [json.loads(line) for line in (folder / "ada.jsonl").read_text().splitlines()]
    actions, steps = table(folder, run, "actions"), table(folder, run, "steps")

    assert (10, {"ada"}, {"lake"}) == (len(heard), {h["agent"] for h in heard}, {h["environment"][0] for h in heard})
    assert {"version"} == {*(folder / "Witness.txt").read_text().split()}
    assert {"rule"} == {*(folder / "Other.txt").read_text().split()}
    assert (34, 24) == (len(actions), len(steps))
    seats = {"lake": {"lake.answer[ada/0]", "lake.answer[bob/0]"}, "moor": {"moor.answer[bob/0]"}}
    assert all(row["setpoints"].keys() == seats[row["environment"]] for row in steps)


@pytest.mark.parametrize(("mode", "least", "most"), [(BARRIER, 60, 60), (FREE, 1, 30)], ids=["barrier", "free"])
def test_a_slow_muscle_delays_who_waits_for_it(mode: dict[str, str], least: int, most: int, folder: Path) -> None:
    """Of 60 steps of moor, lake with its slow body makes as many in common ticks, and a few where moor is free."""
    given = {"lake": 1000, "moor": 60, "delay_s": 0.05, "end": "{environment: moor}"}
    steps = table(folder, carry_out(folder, "slow", SHARED, **given, **mode), "steps")
    lake = sum(row["environment"] == "lake" for row in steps)

    assert 60 == len(steps) - lake
    assert least <= lake <= most


def test_free_runs_are_equal_as_sets(folder: Path) -> None:
    """Also where each call takes another time in each run; the rows are those of common ticks."""
    common = sets(folder, carry_out(folder, "common", GOLDEN, **{**PLAIN, **BARRIER}))
    assert (9, 9 + 8 + 8) == (len(common["episodes"]), len(common["steps"]))

    for number in range(5):
        assert common == sets(folder, carry_out(folder, f"free{number}", GOLDEN, **{**PLAIN, **FREE, **MOODY}))


def test_a_free_run_goes_on_after_all_is_killed(folder: Path) -> None:
    """Whatever was under way: each environment goes on where it was, and the rows are those of common ticks."""
    common = sets(folder, carry_out(folder, "common", GOLDEN, **{**PLAIN, **BARRIER, "workers": 2}))
    (folder / "cut.yml").write_text(GOLDEN.format(**{**PLAIN, **FREE, **MOODY, "workers": 2}))
    command = Command(folder, "run", "cut.yml", "--name", "cut", more={**private(folder), MARKER: str(folder)})
    for _ in range(2):
        command.until("episode.ended")
    pids = list(marked(str(folder)))
    command.process.kill()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    command.output()
    assert {} == left_of(str(folder))
    done = ganglion(folder, "resume", "cut", more=private(folder))

    assert 0 == done.returncode, done.stdout + done.stderr
    assert common == sets(folder, "cut")
