"""Phases with bodies whose processes are killed at drawn ticks: no row differs."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.command import Command, ganglion, private
from system.processes import MARKER, ROLES, below, left_of, marked

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")]

PARTS = '''
import fcntl, json, os, pathlib, random, time
from ganglion_toys.counting import CountingEnvironment
from ganglion_toys.echo import EchoMuscle

HERE = pathlib.Path(__file__).parent

def pass_by(place):
    """Count, in whatever process; wait where somebody is to be killed now."""
    file = os.open(HERE / f"{place}.count", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.write(file, b".")
    count = os.fstat(file).st_size
    os.close(file)
    for number, trip in enumerate(json.loads((HERE / "trips.json").read_text())):
        if trip == [place, count]:
            (HERE / f"tripped-{number}").touch()
            while not (HERE / f"go-{number}").exists():
                time.sleep(0.001)

class Lake(CountingEnvironment):
    """Count, and be a place at which somebody is killed."""
    def update_batch(self, setpoints):
        pass_by("environment")
        return super().update_batch(setpoints)

class Echo(EchoMuscle):
    """Answer, likewise."""
    def propose_actions(self, sensors, actuators):
        pass_by("muscle")
        return super().propose_actions(sensors, actuators)
'''
EACH = """\
      environments:
        - environment: {uid: lake, name: "parts:Lake", params: {length: [4, 2, 7, 3]}}
          budget: {episodes: 3}
          clock: {period: 2}
        - environment: {uid: moor, name: "parts:Lake", params: {length: 9}}
          budget: {steps: 20}
          episode_end: each
          max_steps: 5
      agents: [{name: ada, brain: log, muscle: "parts:Echo"}, {name: bob, brain: log, muscle: echo}]
      bodies: {num: 2}
      phase_config: {worker: 2}
"""
SPAWNED = """\
      environments:
        - environment:
            uid: lake
            name: "parts:Lake"
            params:
              length: [4, 2, 5, 3]
              events: [{after: 1, spawn: bob}, {after: 1, spawn: ada}, {after: 2, retire: bob, spawn: bob},
                {after: 3, spawn: bob}, {after: 3, group: herd, reward: 0.5}, {after: 4, group: herd, reward: 0.25}]
          budget: {episodes: 3}
        - environment:
            uid: moor
            name: "parts:Lake"
            params:
              length: [5, 9, 5, 5]
              events: [{after: 1, spawn: bob}, {after: 2, spawn: bob}, {after: 3, retire: bob},
                {after: 4, spawn: bob, retire: bob}, {after: 4, retire: bob}, {after: 5, group: herd, reward: 2}]
          budget: {steps: 15}
          episode_end: each
          max_steps: 5
      agents: [{name: ada, brain: log, muscle: random}, {name: bob, brain: log, muscle: "parts:Echo"}]
      bodies:
        num: 2
        dynamic: [{agent: bob, environment: lake, max: 3}, {agent: ada, environment: lake, max: 1},
          {agent: bob, environment: moor, max: 3}]
        rules: [{match: {agent: ada}, decision: {period: 2, phase: 1}}, {group: herd}]
      phase_config: {worker: 2}
"""
KINDS = {"each": EACH, "spawned": SPAWNED}
HEAD = 'uid: lost\nseed: 7\nversion: "0.1"\nschedule:\n  - train:\n      simulation: {name: aeb}\n'
VICTIMS = [role for role in ROLES if role != "warm"]
DRAWS = 20


def write(folder: Path, kind: str) -> None:
    """Write document and module into a folder."""
    folder.mkdir()
    (folder / "parts.py").write_text(PARTS)
    (folder / "lost.yml").write_text(HEAD + KINDS[kind])
    (folder / ".ganglion.yml").write_text("journal_begin_bytes: 4096\n")  # journals begin anew again and again
    (folder / "trips.json").write_text("[]")


def digest(folder: Path) -> str:
    """Return the digest of the tables of the run in a folder."""
    done = ganglion(folder, "verify", "lost", "--digest", "--json", more=private(folder))
    assert 0 == done.returncode, done.stdout + done.stderr
    return str(json.loads(done.stdout)["runs"][0]["digest"])


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Return a folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="gl-", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture(scope="module", params=KINDS)
def quiet(place: Path, request: pytest.FixtureRequest) -> tuple[str, Path, dict[str, int]]:
    """Return a kind, the folder of its run in peace, and how often it came by each place."""
    folder = place / request.param
    write(folder, request.param)
    done = ganglion(folder, "run", "lost.yml", "--name", "lost", more=private(folder))
    assert 0 == done.returncode, done.stdout + done.stderr
    return (
        request.param,
        folder,
        {name: (folder / f"{name}.count").stat().st_size for name in ("environment", "muscle")},
    )


def strike(command: Command, marker: str, trips: list[tuple[str, list[object]]]) -> None:
    """Kill the processes of these roles, each at its place; then all goes on."""
    waiting = dict(enumerate(role for role, _ in trips))
    while waiting and command.process.poll() is None:
        time.sleep(0.002)
        for number in [number for number in waiting if (command.folder / f"tripped-{number}").exists()]:
            role = waiting.pop(number)
            victims = [seen.pid for seen in below(command.process.pid) if seen.role == role]
            chosen = victims[number % max(1, len(victims)) :][:1]
            for pid in [command.process.pid, *marked(marker)] if role == "everything" else chosen:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            (command.folder / f"go-{number}").touch()


def carry_out(folder: Path, trips: list[tuple[str, list[object]]]) -> Command:
    """Run the document with these losses to its end, or until all of it is killed."""
    (folder / "trips.json").write_text(json.dumps([trip for _, trip in trips]))
    more = {**private(folder), MARKER: str(folder)}
    command = Command(folder, "run", "lost.yml", "--name", "lost", more=more)
    strike(command, str(folder), trips)
    command.output()
    assert {} == left_of(str(folder))
    return command


@pytest.mark.parametrize("number", range(DRAWS))
def test_who_is_killed_at_any_tick_comes_back(
    number: int, quiet: tuple[str, Path, dict[str, int]], place: Path
) -> None:
    """One process of each kind is killed, each at a tick that is drawn: the tables are those of peace."""
    kind, peace, counts = quiet
    dice, folder = random.Random(f"{kind}/{number}"), place / f"{kind}-{number}"
    places = [dice.choice(list(counts)) for _ in VICTIMS]
    drawn = [[name, dice.randint(1, counts[name])] for name in places]
    drawn.sort(key=lambda one: one[1] / counts[str(one[0])])
    write(folder, kind)
    trips = list(zip(dice.sample(VICTIMS, len(VICTIMS)), drawn, strict=True))
    command = carry_out(folder, trips)

    assert 0 == command.process.returncode, (trips, command.err.rest(), command.events[-1:])
    assert digest(peace) == digest(folder), trips


@pytest.mark.parametrize("number", range(DRAWS))
def test_a_run_that_is_killed_at_any_tick_is_resumed(
    number: int, quiet: tuple[str, Path, dict[str, int]], place: Path
) -> None:
    """All of its processes are killed at a tick that is drawn, and it is resumed: the tables are those of peace."""
    kind, peace, counts = quiet
    dice, folder = random.Random(f"all/{kind}/{number}"), place / f"{kind}-all-{number}"
    name = dice.choice(list(counts))
    write(folder, kind)
    trips = [("everything", [name, dice.randint(1, counts[name])])]
    command = carry_out(folder, trips)
    done = ganglion(folder, "resume", "lost", more=private(folder))

    assert -signal.SIGKILL == command.process.returncode
    assert 0 == done.returncode, done.stdout + done.stderr
    assert digest(peace) == digest(folder), trips
