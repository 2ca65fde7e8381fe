"""Drawing recorded experience: batches of sessions and of steps, against Minari and torchrl, with the same data.

All of them hold one run: sessions of 20 to 200 decisions with a closing observation. Minari reads sessions from its
file, as it does everywhere; torchrl holds sessions that are padded already, and steps as they are. What is not
installed is left out; nothing of it is a dependency of ours (`pip install --no-deps torchrl tensordict`, beside torch).
A run whose two brains ask one table is measured beside the same run in which one of them does.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench_run import rate_of
from measure import Options, Row, compare, interleave

from ganglion_replay import SessionPoolEnvironment

GATE = 1.0
SESSIONS, LEAST, MOST = 500, 20, 200
BATCHES = {"sessions": 64, "steps": 256}
SHARED_GATE = 1 / 1.2  # two brains on one table cost less than 1.2 times one
EPISODES, LENGTH = 12, 100
ROUNDS_MAX = 5  # a round is a whole run
SHARED = """\
uid: shared
seed: 1
version: "0.1"
schedule:
  - train:
      environments:
        - {{environment: {{uid: lake, name: counting, params: {{length: {length}}}}}, budget: {{episodes: {episodes}}}}}
        - {{environment: {{uid: moor, name: counting, params: {{length: {length}}}}}, budget: {{episodes: {episodes}}}}}
      agents:
        - {{name: ada, brain: "bench_classes:Draws", muscle: echo}}
        - {{name: bob, brain: {{name: "bench_classes:Draws", params: {{asks: {both}}}}}, muscle: echo}}
      bodies: {{product: inner}}
      tables: [{{uid: recent, name: pool, params: {{capacity: {{steps: 1000}}}}, feed: [ada], serve: [ada, bob]}}]
      phase_config: {{mode: train}}
      simulation: {{name: aeb}}
"""


def _run() -> dict[str, list[Any]]:
    """Return observations, actions, rewards and flags of each session."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(LEAST, MOST + 1, SESSIONS).tolist()
    return {
        "observations": [rng.normal(size=(length + 1, 4)).astype(np.float32) for length in lengths],
        "actions": [rng.integers(2, size=length) for length in lengths],
        "rewards": [np.ones(length) for length in lengths],
        "terminated": [np.arange(length) == length - 1 for length in lengths],
        "truncated": [np.zeros(length, bool) for length in lengths],
    }


def _ours(run: dict[str, list[Any]]) -> dict[str, Callable[[], Any]]:
    pool = SessionPoolEnvironment([("observation", (4,), np.float32)], [("action", (), np.int64)], 0)
    pool.load_sessions(
        run["observations"], run["actions"], run["rewards"], terminated=run["terminated"], truncated=run["truncated"]
    )
    return {
        "sessions": partial(pool.sample_session_batch, BATCHES["sessions"]),
        "steps": partial(pool.sample_steps, BATCHES["steps"]),
    }


def _minari(run: dict[str, list[Any]], folder: str) -> dict[str, Callable[[], Any]]:
    os.environ["MINARI_DATASETS_PATH"] = folder
    import gymnasium
    import minari
    from minari.data_collector import EpisodeBuffer

    names = {"observations": "observations", "actions": "actions", "rewards": "rewards"}
    names |= {"terminations": "terminated", "truncations": "truncated"}
    buffers = [EpisodeBuffer(id=i, **{name: run[ours][i] for name, ours in names.items()}) for i in range(SESSIONS)]
    dataset = minari.create_dataset_from_buffers(
        "bench/cart-v0",
        buffers,
        observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32),
        action_space=gymnasium.spaces.Discrete(2),
    )
    return {"sessions": partial(dataset.sample_episodes, BATCHES["sessions"])}


def _torchrl(run: dict[str, list[Any]]) -> dict[str, Callable[[], Any]]:
    import torch
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

    torch.set_num_threads(1)  # several wait for one another on a machine that is in use: it is faster so

    def padded(arrays: list[Any], rows: int) -> Any:
        found = np.zeros((len(arrays), rows, *arrays[0].shape[1:]), arrays[0].dtype)
        for row, array in zip(found, arrays, strict=True):
            row[: len(array)] = array
        return torch.from_numpy(found)

    def buffer(fields: dict[str, Any], batch: int) -> Callable[[], Any]:
        count = len(fields["rewards"])
        found = TensorDictReplayBuffer(storage=LazyTensorStorage(count), batch_size=batch)
        found.extend(TensorDict(fields, batch_size=[count]))
        return found.sample

    whole = {name: padded(arrays, MOST + (name == "observations")) for name, arrays in run.items()}
    whole["is_alive"] = padded([np.ones(len(one), bool) for one in run["rewards"]], MOST)
    flat = {name: torch.from_numpy(np.concatenate(arrays)) for name, arrays in run.items() if name != "observations"}
    flat["observations"] = torch.from_numpy(np.concatenate([one[:-1] for one in run["observations"]]))
    flat["next_observations"] = torch.from_numpy(np.concatenate([one[1:] for one in run["observations"]]))
    return {"sessions": buffer(whole, BATCHES["sessions"]), "steps": buffer(flat, BATCHES["steps"])}


def rows(options: Options) -> list[Row]:
    """Measure how many batches a second are drawn; the reference is whoever is faster."""
    run = _run()
    with tempfile.TemporaryDirectory() as folder:
        makers: dict[str, Callable[[], Any]] = {
            "minari": lambda: _minari(run, folder),
            "torchrl": lambda: _torchrl(run),
        }
        draws = {"ganglion": _ours(run)}
        missing = {}
        for name, make in makers.items():
            try:
                draws[name] = make()
            except ImportError as error:
                missing[name] = str(error)
        found = []
        for kind, count in BATCHES.items():
            name = f"replay: batches of {count} {kind}"
            having = {who: meters[kind] for who, meters in draws.items() if kind in meters}
            rates = interleave(
                {who: partial(_rate, draw, options.round_s) for who, draw in having.items()}, options.rounds
            )
            others = sorted(rates.keys() - {"ganglion"}, key=lambda who: -float(np.median(rates[who])))
            if not others:
                found.append(Row(name, None, GATE, note="; ".join(missing.values())))
            found += [
                compare(f"{name}, {who}", rates["ganglion"], rates[who], GATE if who == others[0] else None)
                for who in others
            ]
        return [*found, _shared(options)]


def _shared(options: Options) -> Row:
    """Measure runs in which both brains, or one of them, ask the table with each tick."""
    with tempfile.TemporaryDirectory(prefix="ganglion-bench-") as folder:
        meters = {}
        for both in (True, False):
            file = Path(folder) / f"{both}.yml"
            file.write_text(SHARED.format(both=str(both).lower(), episodes=EPISODES, length=LENGTH))
            meters[str(both)] = partial(rate_of, file, Path(folder) / "results", EPISODES, LENGTH)
        rates = interleave(meters, min(options.rounds, ROUNDS_MAX))
    return compare("replay: two brains on one table, one", rates["True"], rates["False"], SHARED_GATE)


def _rate(draw: Callable[[], Any], round_s: float) -> float:
    begin_s, count = time.perf_counter(), 0
    while (now_s := time.perf_counter()) - begin_s < round_s:
        draw()
        count += 1
    return count / (now_s - begin_s)
