"""Learning over the bus: three tasks that must be mastered, PPO with and without a bus, and with many bodies."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing, suppress
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

BODIES_GATE = 4.0  # times as long as with 64 bodies takes PPO with one until it has mastered CartPole
MASTERED = 475.0  # mean length of the newest episodes: as many as there are bodies, of one body twenty
LIMIT_S = 1800.0
BODIES = """\
uid: bodies
seed: 2
version: "0.1"
schedule:
  - train:
      environments:
        - {environment: {uid: field, name: cartpole}, budget: {episodes: 3000}, episode_end: each, max_steps: 500}
      agents: [{name: scout, brain: {name: ppo, params: PARAMS}, muscle: ppo, objective: aggregate_rewards}]
      bodies: {num: COUNT}
      phase_config: {mode: train}
      simulation: {name: aeb}
"""
SETTINGS = {  # of one body those of the shipped example
    64: "{rollout: 1024, minibatch: 256, epochs: 10, learning_rate: 0.002, discount: 0.98, trace_decay: 0.8}",
    1: "{}",
}


def rows(options: Options) -> list[Row]:
    """Train on the three tasks, once each, then PPO with and without the bus in turns."""
    missing = [name for name in ("torch", "gymnasium") if importlib.util.find_spec(name) is None]
    if missing:
        return [Row("learn", None, None, note=f"needs {', '.join(missing)}: scripts/setup --with torch")]
    with tempfile.TemporaryDirectory(prefix="ganglion-bench-") as text:
        folder = Path(text)
        found = [_task(folder, name, least) for name, least in TASKS.items()]
        found.append(_many_bodies(folder))
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


def _many_bodies(folder: Path) -> Row:
    """Train PPO with 64 bodies and with one, each until CartPole is mastered."""
    spans_s, steps = {}, {}
    for count, params in SETTINGS.items():
        (folder / "bodies.yml").write_text(BODIES.replace("PARAMS", params).replace("COUNT", str(count)))
        spans_s[count], steps[count] = _until_mastered(folder, f"results-{count}", max(count, 20))
    note = f"{spans_s[64]:.0f} s and {steps[64]} steps against {spans_s[1]:.0f} s and {steps[1]} steps, one run each"
    name = f"learn, PPO with 64 bodies until {MASTERED:g}, x speed with one body"
    return Row(name, spans_s[1] / spans_s[64], BODIES_GATE, 1 / spans_s[64], 1 / spans_s[1], note)


def _until_mastered(folder: Path, results: str, window: int) -> tuple[float, int]:
    """Run the document until the newest episodes are long enough; return seconds from its start, and steps."""
    argv = [str(Path(sys.executable).with_name("ganglion")), "--results", results, "--quiet", "run", "bodies.yml"]
    begin_s = time.perf_counter()
    running = subprocess.Popen(argv, cwd=folder, env={**os.environ, **ONE_THREAD}, stderr=subprocess.DEVNULL)
    lengths: list[int] = []
    try:
        while sum(lengths[-window:]) < MASTERED * window:
            if running.poll() is not None or time.perf_counter() - begin_s > LIMIT_S:
                raise RuntimeError(f"{argv}: CartPole was not mastered in {LIMIT_S:g} s; status {running.poll()}")
            time.sleep(0.5)
            with suppress(sqlite3.Error):  # as long as there is no table
                uri = f"file:{folder / results / 'ganglion.db'}?mode=ro"
                with closing(sqlite3.connect(uri, uri=True)) as store:
                    lengths = [row[0] for row in store.execute("SELECT steps FROM stored_episodes ORDER BY rowid")]
        return time.perf_counter() - begin_s, sum(lengths)
    finally:
        running.send_signal(signal.SIGINT)
        running.wait()


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
