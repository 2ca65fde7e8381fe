"""Workers on a node of a Ray cluster against the same workers started locally; nothing crosses a real network here.

With `near: false` they are treated as those of another machine: behind a relay, or each with an encrypted connection
over TCP. How many messages of a step travel between relay and kernel is counted. The cluster is of this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from bench_run import meter
from measure import Options, Row, compare, interleave, placed

GATE = 0.9
EPISODES, ROUNDS_MAX = 8, 3  # a round is four runs, for each process of which Ray starts a Python: minutes
TITLE = "ray, workers on a node, steps/s, x the same workers started locally"
CLUSTER = """
import sys
from ray.cluster_utils import Cluster

args = {"num_cpus": 2, "object_store_memory": 80_000_000, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=args)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def rows(options: Options) -> list[Row]:
    """Measure runs of one worker in train mode, locally, on a node by sockets, and encrypted, in turns."""
    if find_spec("ray") is None:
        return [Row(TITLE, None, GATE, note="ray is missing: pip install 'ganglion-ray[ray]'")]
    with placed(False), tempfile.TemporaryDirectory(prefix="ganglion-bench-") as name, _cluster() as address:
        os.environ["RAY_ADDRESS"] = address
        folder = Path(name)
        cases = {
            "local": "{}",
            "near": "{near: true}",
            "relay": "{near: false}",
            "encrypted": "{near: false, relay: false}",
        }
        meters = {}
        for case, said in cases.items():
            (folder / case / "ganglion").mkdir(parents=True)
            (folder / case / "ganglion" / "config.yml").write_text(f"launchers: {{ray: {said}}}\n")
            launcher = "local" if case == "local" else "ray"
            words = ("--launcher", launcher, "--cpus", "free")
            measured = meter(folder / case, "train", True, words=words, episodes=EPISODES)
            meters[case] = _by_settings(folder / case, measured)
        rates = interleave(meters, min(options.rounds, ROUNDS_MAX))
        stay, travel = _per_step(folder / "relay", meters["relay"])
        return [
            compare(f"{TITLE}, near", rates["near"], rates["local"], GATE),
            compare(f"{TITLE}, behind a relay", rates["relay"], rates["local"], GATE),
            compare(f"{TITLE}, encrypted", rates["encrypted"], rates["local"], None),
            Row("ray, messages of a step that stay, x those that travel", stay / travel, None, stay, travel),
        ]


def _by_settings(home: Path, meter: Callable[[], float]) -> Callable[[], float]:
    """Return a meter whose run finds its settings below a folder."""

    def measured() -> float:
        os.environ["XDG_CONFIG_HOME"] = str(home)
        return meter()

    return measured


def _per_step(folder: Path, meter: Callable[[], float]) -> tuple[float, float]:
    """Return how many messages of a step stay on a node and how many travel, as `ganglion ps` tells in a run."""
    results = str(next(folder.glob("results-*")))
    command = [str(Path(sys.executable).with_name("ganglion")), "--results", results, "ps", "--json"]
    running, found = threading.Thread(target=meter), [0.0, 0.0]
    running.start()
    while running.is_alive():
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        rows = json.loads(asked.stdout) if asked.returncode == 0 and asked.stdout else []
        found = next((row["per_step"] for row in rows if row.get("per_step")), found)
    running.join()
    assert found[1], "the run was over before its relay had told anything"
    return found[0], found[1]


@contextmanager
def _cluster() -> Iterator[str]:
    """Run a cluster of one node; gives its address."""
    command, pipe = [sys.executable, "-c", CLUSTER], subprocess.PIPE
    environment = {**os.environ, "RAY_worker_niceness": "0"}  # else the workers on the node have a lower priority
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        yield started.stdout.readline().strip()
        started.stdin.close()
