"""Learning over the bus: three tasks that must be mastered, and PPO with and without a bus."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measure import Options, Row, compare, interleave, placed, python

GATE = 0.6  # of the reference's steps per second in whole wall time, processes and store included
EPISODES = 300  # about 20 000 steps
ROUNDS_MAX = 3  # a round is a whole training
TASKS = {"PPO_CARTPOLE": 475.0, "DQN_CARTPOLE": 475.0, "SAC_PENDULUM": -200.0}  # example -> least mean return
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # for both sides: more of them only get into each other's way

DOCUMENT = f"""\
uid: bench
seed: 1
version: "0.1"
schedule:
  - train:
      environments: [{{environment: {{uid: field, name: gymnasium, params: {{id: CartPole-v1}}}}}}]
      agents:
        - name: scout
          brain: LEARNER
          muscle: LEARNER
          objective: aggregate_rewards
          sensors: [field.*]
          actuators: [field.*]
      phase_config: {{mode: train, episodes: {EPISODES}}}
run_config: {{condition: vanilla}}
"""


def rows(options: Options) -> list[Row]:
    """Train on the three tasks, once each, then PPO with and without the bus in turns."""
    missing = [name for name in ("torch", "gymnasium") if importlib.util.find_spec(name) is None]
    if missing:
        return [Row("learn", None, None, note=f"needs {', '.join(missing)}: scripts/setup --with torch")]
    with tempfile.TemporaryDirectory(prefix="ganglion-bench-") as text:
        folder = Path(text)
        found = [_task(folder, name, least) for name, least in TASKS.items()]
        pairs = [(learner, alone) for learner in ("sb3", "ppo") for alone in (False, True)]
        return [*found, *(_against_sb3(folder, options, learner, alone) for learner, alone in pairs)]


def _task(folder: Path, name: str, least: float) -> Row:
    """Run an example; the ratio is 1 where its test phase has the return that must hold, and more above."""
    from ganglion_learners import examples

    began_s = time.perf_counter()
    events = _run(folder, str(getattr(examples, name)))
    wall_s = time.perf_counter() - began_s
    ended = [event for event in events if event.get("event") == "episode.ended"]
    steps = sum(event["steps"] for event in ended if event["phase"] == 0)
    tested = [_return(event) for event in ended if event["phase"] == 1]
    mean = sum(tested) / len(tested)
    ratio = mean / least if least > 0 else least / mean
    note = f"return {mean:.1f} of {len(tested)} episodes, after {steps} steps, {wall_s:.0f} s in all"
    title = name.lower().replace("_", " on ")
    return Row(f"learn, {title}, x return {least:g}", ratio, 1.0, steps / wall_s, 0.0, note)


def _return(event: Mapping[str, Any]) -> float:
    return float(next(iter(event["returns"].values())))


def _against_sb3(folder: Path, options: Options, learner: str, alone: bool) -> Row:
    """Train PPO with and without the bus in turns; `alone`: each side on one processor, which is all that one needs.

    The learner over the bus is `ppo`, ours, or `sb3`, the same code as without the bus.

    In lockstep with one worker exactly one process has something to do at any moment: kept together, none of them has
    to be woken on another processor.
    """
    where = "on one processor" if alone else "free"
    name = f"learn, PPO of {learner} on CartPole-v1, x PPO.learn of SB3, both {where}"
    words = ("--cpus", str(max(os.sched_getaffinity(0)))) if alone else ()
    if importlib.util.find_spec("stable_baselines3") is None:
        note = "needs Stable-Baselines3: scripts/setup --with stable-baselines3"
        return Row(name, None, GATE, note=note)
    document = f"{learner}.yml"
    (folder / document).write_text(DOCUMENT.replace("LEARNER", learner))
    steps = 0

    def ours() -> float:
        nonlocal steps
        began_s = time.perf_counter()
        events = _run(folder, document, *words)
        wall_s = time.perf_counter() - began_s
        steps = sum(event["steps"] for event in events if event.get("event") == "episode.ended")
        return steps / wall_s

    def theirs() -> float:
        began_s = time.perf_counter()
        argv = python("reference_sb3.py", "CartPole-v1", str(steps))
        with placed(alone):
            made = int(_output(argv, folder).split()[-1])  # it makes whole rollouts
        return made / (time.perf_counter() - began_s)

    rates = interleave({"ours": ours, "theirs": theirs}, min(options.rounds, ROUNDS_MAX))
    return compare(name, rates["ours"], rates["theirs"], GATE, f"{steps} steps, whole wall time")


def _run(folder: Path, document: str, *words: str) -> list[dict[str, Any]]:
    """Run a document; return its events."""
    argv = [str(Path(sys.executable).with_name("ganglion")), "--json", "run", document, *words]
    return [json.loads(line) for line in _output(argv, folder).splitlines()]


def _output(argv: list[str], folder: Path) -> str:
    done = subprocess.run(
        argv, cwd=folder, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{argv} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout
