"""Real runs (documents, plugins, records, store), against the bare step loop over the same bus."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench_steps import bare_loop
from measure import HERE, Options, Row, compare, interleave, placed

EPISODES = 25  # the first ten or so are those in which placement is measured
EPISODES_PLACED = 75  # where these count, too: some ten seconds
EPISODES_LEAST = 5  # of which a rate is taken
STEPS = 400
ROUNDS_MAX = 5  # a round is a whole run: start, thousands of steps, end
JOURNAL_GATE = 0.95  # of the steps without a journal
GATES = {("test", True): 0.5, ("train", True): 0.35}  # mode, store; the others are for information
LEARN_EVERY = 64
CLASSES = HERE / "classes"  # on the path of what is measured
SCALARS = "name: dummy, params: {{max_iter: {steps}, discrete: false}}"

DOCUMENT = """\
uid: bench
seed: 42
version: "0.1"
schedule:
  - steps:
      environments:
        - environment: {{uid: world, ENVIRONMENT}}
      agents:
        - {{name: one, brain: BRAIN, muscle: MUSCLE, objective: dummy, sensors: [world.*], actuators: [world.*]}}
      phase_config: {{mode: {mode}, episodes: {episodes}}}
run_config: {{condition: {{name: vanilla}}}}
"""


def document(environment: str = SCALARS, muscle: str = "dummy", brain: str = "dummy") -> str:
    """Return a document with these classes, to be filled in with mode, steps and episodes."""
    return DOCUMENT.replace("ENVIRONMENT", environment).replace("MUSCLE", muscle).replace("BRAIN", brain)


def rows(options: Options) -> list[Row]:
    """Measure runs in test and train mode, with and without store or journals, and the bare loop, in turns."""
    found: list[Row] = []
    with placed(False), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ganglion-bench-")))
        bare = stack.enter_context(bare_loop(folder))
        cases = [(mode, store) for mode in ("test", "train") for store in (True, False)]
        meters = {f"{mode} {store}": meter(folder, mode, store) for mode, store in cases}
        unrecorded = document() + "recovery: {{on_loss: fail}}\n"  # no process keeps a journal
        meters |= {f"{mode} unrecorded": meter(folder / "u", mode, True, unrecorded) for mode in ("test", "train")}
        rare = document(brain="'bench_classes:Rare'")
        images = document("name: 'bench_classes:Images', params: {{max_iter: {steps}}}", "'bench_classes:Constant'")
        meters["rare"] = meter(folder / "rare", "train", True, rare)
        meters["images"] = meter(folder / "images", "test", True, images)
        placements = {
            cpus: meter(folder / cpus, "test", True, words=("--cpus", cpus), episodes=EPISODES_PLACED)
            for cpus in ("auto", "free", str(max(os.sched_getaffinity(0))))
        }
        meters |= placements
        meters["bare"] = lambda: bare(options.round_s)
        rates = interleave(meters, min(options.rounds, ROUNDS_MAX))
        for mode, store in cases:
            name = f"run, {mode} mode, store {'on' if store else 'off'}, x bare step loop"
            found.append(compare(name, rates[f"{mode} {store}"], rates["bare"], GATES.get((mode, store))))
        for mode in ("test", "train"):
            name = f"run, {mode} mode, journal on, x journal off"
            found.append(compare(name, rates[f"{mode} True"], rates[f"{mode} unrecorded"], JOURNAL_GATE))
        name = "run, test mode, store on, x store off"
        found.append(compare(name, rates["test True"], rates["test False"], None))
        name = f"run, train mode, learn_every = {LEARN_EVERY}, x test mode"
        found.append(compare(name, rates["rare"], rates["test True"], 0.85))
        better = list(map(max, *(rates[cpus] for cpus in placements if cpus != "auto")))
        name = "run, default placement, with its measuring, x the better of free and kept together"
        found.append(compare(name, rates["auto"], better, 0.95))
        name = "run, observation 84 x 84 x 4 uint8, x ten scalars"
        found.append(compare(name, rates["images"], rates["test True"], 0.5))
    return found


def meter(
    folder: Path, mode: str, store: bool, text: str = document(), words: tuple[str, ...] = (), episodes: int = EPISODES
) -> Callable[[], float]:
    """Return what runs a document once, in a folder of its own, and gives its steps per second.

    With `words` of the command the whole run counts, else what comes after its placement has been measured.
    """
    folder.mkdir(exist_ok=True)
    file = folder / f"{mode}.yml"
    file.write_text(text.format(mode=mode, steps=STEPS, episodes=episodes))
    results = folder / f"results-{mode}-{store}"
    more = words if store else (*words, "--store", "none")
    return lambda: rate_of(file, results, episodes, STEPS, more, whole=bool(words))


def rate_of(
    file: Path, results: Path, episodes: int, steps: int, words: tuple[str, ...] = (), whole: bool = False
) -> float:
    """Run a document once; return its steps per second.

    They count from the end of an episode on: the first one, or where not the whole run counts that of the placement.
    """
    command = str(Path(sys.executable).with_name("ganglion"))
    argv = [command, "--results", str(results), "--json", "run", str(file), *words]
    path = os.pathsep.join([str(CLASSES), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "GANGLION_ALLOW": "bench_classes"}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{argv} ended with {done.returncode}: {done.stderr[-2000:]}")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    ended = [event["time_s"] for event in events if event.get("event") == "episode.ended"]
    assert len(ended) == episodes, f"expected {episodes} episodes, found {len(ended)}"
    placed_s = [event["time_s"] for event in events if event.get("event") == "phase.placed" and not whole]
    behind = [moment_s for moment_s in ended if moment_s > max(placed_s, default=0.0)]
    times = behind if len(behind) >= EPISODES_LEAST else ended  # the end comes soon: nothing is to be gained
    return (len(times) - 1) * steps / (times[-1] - times[0])
