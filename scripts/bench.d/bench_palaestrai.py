"""The same dummy documents in palaestrAI, installed beside: steps per second, and the wall time of two phases."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

from bench_run import meter
from measure import Options, Row, compare, interleave

VERSION = "3.5.18"
HOME = Path(__file__).parents[2] / ".venv-palaestrai"
ROUNDS_MAX = 2  # its start alone takes half a minute
STEPS, SHORT_STEPS = 400, 20
IDS = ", ".join(f"world.{i}" for i in range(10))

THEIRS = """\
uid: bench
seed: 42
version: "3.5"
schedule:
{phases}run_config:
  condition: {{name: "palaestrai.experiment:VanillaRunGovernorTerminationCondition", params: {{}}}}
"""
THEIR_PHASE = """\
  - phase_{number}:
      environments:
        - environment:
            name: palaestrai.environment.dummy_environment:DummyEnvironment
            uid: world
            params: {{max_iter: {steps}, discrete: false}}
      agents:
        - name: one
          brain: {{name: "palaestrai.agent.dummy_brain:DummyBrain", params: {{}}}}
          muscle: {{name: "palaestrai.agent.dummy_muscle:DummyMuscle", params: {{}}}}
          objective: {{name: "palaestrai.agent.dummy_objective:DummyObjective", params: {{params: 1}}}}
          sensors: [{ids}]
          actuators: [{ids}]
      simulation:
        name: palaestrai.simulation:VanillaSimulationController
        conditions: [{{name: "palaestrai.simulation:VanillaSimControllerTerminationCondition", params: {{}}}}]
      phase_config: {{mode: train, worker: 1, episodes: 1}}
"""
OURS = """\
uid: bench
seed: 42
version: "0.1"
schedule:
{phases}run_config: {{condition: {{name: vanilla}}}}
"""
OUR_PHASE = """\
  - phase_{number}:
      environments:
        - environment: {{uid: world, name: dummy, params: {{max_iter: {steps}, discrete: false}}}}
      agents:
        - {{name: one, brain: dummy, muscle: dummy, objective: dummy, sensors: [world.*], actuators: [world.*]}}
      phase_config: {{mode: train, worker: 1, episodes: 1}}
"""


def rows(options: Options) -> list[Row]:
    """Measure both systems in turns; the rows are left out where the other one cannot be installed."""
    try:
        theirs = _installed()
    except (OSError, subprocess.SubprocessError) as error:
        return [Row("palaestrAI", None, None, note=f"palaestrAI {VERSION} cannot be installed: {error}")]
    with tempfile.TemporaryDirectory(prefix="ganglion-bench-") as name:
        folder = Path(name)
        long = folder / "long.yml"
        long.write_text(THEIRS.format(phases=THEIR_PHASE.format(number=0, steps=STEPS, ids=IDS)))
        phases = "".join(THEIR_PHASE.format(number=number, steps=SHORT_STEPS, ids=IDS) for number in range(2))
        short = folder / "short.yml"
        short.write_text(THEIRS.format(phases=phases))
        own = folder / "own.yml"
        phases = "".join(OUR_PHASE.format(number=number, steps=SHORT_STEPS) for number in range(2))
        own.write_text(OURS.format(phases=phases))
        ganglion = [str(Path(sys.executable).with_name("ganglion")), "--results", str(folder / "results"), "run"]
        hosted = folder / "hosted.yml"
        hosted.write_text("palaestrai: real\n" + short.read_text())
        meters: dict[str, Callable[[], float]] = {
            "steps, ours": meter(folder, "train", True),
            "steps, theirs": partial(_steps_per_s, theirs, folder, long),
            "wall, ours": partial(_runs_per_s, [*ganglion, str(own)], folder),
            "wall, theirs": partial(_runs_per_s, [*_their_run(theirs, folder), str(short)], folder),
        }
        here = importlib.util.find_spec("palaestrai") is not None
        if here:
            meters["wall, hosted"] = partial(_runs_per_s, [*ganglion, str(hosted)], folder)
        rates = interleave(meters, min(options.rounds, ROUNDS_MAX))
    steps = compare(
        "dummy document, train mode, steps/s x palaestrAI", rates["steps, ours"], rates["steps, theirs"], 100
    )
    wall = compare("two phases, runs by wall time x palaestrAI", rates["wall, ours"], rates["wall, theirs"], 30)
    name = "the same with palaestrAI's own classes here, x palaestrAI"
    if not here:
        return [steps, wall, Row(name, None, None, note="palaestrAI is not beside: scripts/setup --with palaestrai")]
    return [steps, wall, compare(name, rates["wall, hosted"], rates["wall, theirs"], 20)]


def _installed() -> Path:
    """Return the command of palaestrAI in an environment of its own, which is made where it is missing."""
    command = HOME / "bin" / "palaestrai"
    if not command.exists():
        venv.create(HOME, with_pip=True, clear=True)
        pip = [str(HOME / "bin" / "pip"), "install", "--quiet", f"palaestrai=={VERSION}"]
        subprocess.run(pip, check=True, timeout=600)
    return command


def _their_run(command: Path, folder: Path) -> list[str]:
    """Return the command that runs a document of theirs, with a store of its own that has been made."""
    config = folder / "palaestrai.yml"
    if not config.exists():
        config.write_text(f"store_uri: sqlite:///{folder / 'palaestrai.db'}\nbroker_uri: ipc://*\nlogger_port: 0\n")
        _run([str(command), "-c", str(config), "database-create"], folder)
    return [str(command), "-c", str(config), "experiment-start"]


def _steps_per_s(command: Path, folder: Path, document: Path) -> float:
    """Run once; return steps per second between the first and the last state in its database."""
    store = folder / "palaestrai.db"
    argv = _their_run(command, folder)
    with sqlite3.connect(store) as database:
        known = database.execute("select coalesce(max(id), 0) from world_states").fetchone()[0]
    _run([*argv, str(document)], folder)
    with sqlite3.connect(store) as database:
        query = "select walltime from world_states where id > ? order by id"
        times = [datetime.fromisoformat(row[0]) for row in database.execute(query, (known,))]
    if len(times) != STEPS:
        raise RuntimeError(f"expected {STEPS} states in the database of palaestrAI, found {len(times)}")
    return (STEPS - 1) / (times[-1] - times[0]).total_seconds()


def _runs_per_s(argv: list[str], folder: Path) -> float:
    began_s = time.monotonic()
    _run(argv, folder)
    return 1 / (time.monotonic() - began_s)


def _run(argv: list[str], folder: Path) -> None:
    done = subprocess.run(argv, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv} ended with {done.returncode}: {done.stderr[-2000:]}")
