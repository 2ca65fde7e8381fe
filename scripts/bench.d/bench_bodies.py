"""Phases with bodies: carts in one environment, array classes, against one body and against a vector of processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from measure import HERE, Options, Row, compare, interleave

CLASSES = HERE / "classes"
ROUNDS_MAX = 3  # a round is a run of some seconds for each row
TICKS = {1: 5_000, 8: 4_000, 16: 4_000, 64: 4_000, 256: 3_000}
GATES = {64: 40.0, 256: 120.0}  # body-steps per second x those of one body
RATES = {64: 100_000, 256: 200_000}  # body-steps per second that are asked for on two processors
DOCUMENT = """\
uid: bench
seed: 42
version: "0.1"
schedule:
  - steps:
      environments:
        - {{environment: {{uid: cart, name: cartpole}}, budget: {{steps: {ticks}}}, episode_end: each}}
      agents: [{{name: one, brain: "{brain}", muscle: "bench_classes:Upright"}}]
      bodies: {{num: {bodies}}}
      phase_config: {{mode: {mode}}}
      simulation: {{name: aeb}}
"""
ENTRY = "{{environment: {{uid: cart{i}, name: cartpole}}, budget: {{steps: {ticks}}}, episode_end: each}}"
WIDTHS = (2, 4, 8)  # environments, and agents, whose tick is to cost no more than so many of one
_TICKS_WIDE = 1_500
_BODIES_WIDE = 4  # of each agent in each environment
_VECTOR = 300  # steps of all copies in a round of the reference


def rows(options: Options) -> list[Row]:
    """Measure runs of many bodies, with and without store and learner, and vectors of as many processes, in turns."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="ganglion-bench-") as folder:
        test = partial(meter, Path(folder))
        meters: dict[str, Callable[[], float]] = {str(n): test(n) for n in TICKS}
        meters |= {"store": test(64, store=True), "train": test(64, mode="train", brain="bench_classes:Deaf")}
        meters |= {f"vector {n}": partial(vector, n) for n in (8, 16, 64)}
        shapes = [(1, 1), *((n, 1) for n in WIDTHS), *((1, n) for n in WIDTHS)]
        meters |= {f"wide {shape}": wide(Path(folder), *shape) for shape in shapes}
        rates = interleave(meters, min(options.rounds, ROUNDS_MAX))
        for n, gate in GATES.items():
            found.append(compare(f"{n} bodies, test mode, x one body", rates[str(n)], rates["1"], gate))
            asked = [float(RATES[n])] * len(rates[str(n)])
            found.append(compare(f"{n} bodies, test mode, x {RATES[n]:,} body-steps/s", rates[str(n)], asked, 1.0))
        found.append(compare("64 bodies, store on, x store off", rates["store"], rates["64"], 1 / 3))
        found.append(compare("64 bodies, train mode, x test mode", rates["train"], rates["64"], 0.5))
        for environments, agents in shapes[1:]:
            n, kind = max(environments, agents), "environments" if environments > 1 else "agents"
            rate = [n * one for one in rates[f"wide {(environments, agents)}"]]
            found.append(compare(f"{n} {kind}, ticks/s x {n}, x those of one", rate, rates[f"wide {(1, 1)}"], 1.0))
        for n, least in ((8, 1.0), (16, 1.0), (64, 4.0)):
            name = f"{n} bodies x gymnasium's AsyncVectorEnv with {n} copies of CartPole-v1"
            found.append(compare(name, rates[str(n)], rates[f"vector {n}"], least))
    return found


def meter(
    folder: Path, bodies: int, *, mode: str = "test", brain: str = "none", store: bool = False
) -> Callable[[], float]:
    """Return what runs a document once and gives its body-steps per second, from the begin of the phase to its end."""
    name = f"{bodies}-{mode}-{store}"
    file, ticks = folder / f"{name}.yml", TICKS[bodies]
    file.write_text(DOCUMENT.format(ticks=ticks, brain=brain, bodies=bodies, mode=mode))
    ganglion = str(Path(sys.executable).with_name("ganglion"))
    argv = [ganglion, "--results", str(folder / name), "--json", "run", str(file)]
    argv += [] if store else ["--store", "none"]
    return lambda: bodies * ticks / _phase_s(argv)


def wide(folder: Path, environments: int, agents: int) -> Callable[[], float]:
    """Return what runs agents in environments, each with bodies in each, and gives the ticks per second."""
    name, text = f"wide-{environments}-{agents}", DOCUMENT.format(ticks=1, brain="none", bodies=1, mode="test")
    entries = ", ".join(ENTRY.format(i=i, ticks=_TICKS_WIDE) for i in range(environments))
    names = ", ".join(f'{{name: a{i}, brain: none, muscle: "bench_classes:Upright"}}' for i in range(agents))
    lines = [line for line in text.splitlines() if not line.strip().startswith("- {environment")]
    lines = [line.replace("environments:", f"environments: [{entries}]") for line in lines]
    lines = [line.partition("agents:")[0] + f"agents: [{names}]" if "agents:" in line else line for line in lines]
    file = folder / f"{name}.yml"
    file.write_text("\n".join(lines).replace("num: 1", f"num: {_BODIES_WIDE}") + "\n")
    ganglion = str(Path(sys.executable).with_name("ganglion"))
    argv = [ganglion, "--results", str(folder / name), "--json", "run", str(file), "--store", "none"]
    return lambda: _TICKS_WIDE / _phase_s(argv)


def _phase_s(argv: list[str]) -> float:
    path = os.pathsep.join([str(CLASSES), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "GANGLION_ALLOW": "bench_classes"}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{argv} ended with {done.returncode}: {done.stderr[-2000:]}")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    moments = {event["event"]: event["time_s"] for event in events if "event" in event}
    return float(moments["phase.ended"] - moments["phase.started"])


def vector(copies: int) -> float:
    """Return the steps per second, of all copies, that Gymnasium's vector of processes makes with the same policy."""
    import gymnasium
    import numpy as np

    worlds = gymnasium.vector.AsyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * copies)
    try:
        seen, _ = worlds.reset(seed=1)
        since_s = time.perf_counter()
        for _ in range(_VECTOR):
            seen, *_ = worlds.step((seen[:, 2] + 0.5 * seen[:, 3] > 0).astype(np.int64))
        return copies * _VECTOR / (time.perf_counter() - since_s)
    finally:
        worlds.close()
