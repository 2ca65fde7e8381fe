"""Workers on a node of a Ray cluster against the same workers started locally; nothing crosses a real network here.

With `near: false` all connections are encrypted, over TCP, as those of another machine. The cluster is of this machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from bench_run import ROUNDS_MAX, meter
from measure import Options, Row, compare, interleave, placed

GATE = 0.9
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
        cases = {"local": "local", "ray": "ray", "encrypted": "ray"}
        meters = {}
        for case, launcher in cases.items():
            (folder / f"{case}.kernel.yml").write_text(f"launchers: {{ray: {{near: {str(case == 'ray').lower()}}}}}\n")
            words = ("--launcher", launcher, "--cpus", "free", "--kernel", str(folder / f"{case}.kernel.yml"))
            meters[case] = meter(folder / case, "train", True, words=words)
        rates = interleave(meters, min(options.rounds, ROUNDS_MAX))
        return [
            compare(TITLE, rates["ray"], rates["local"], GATE),
            compare(f"{TITLE}, encrypted", rates["encrypted"], rates["local"], None),
        ]


@contextmanager
def _cluster() -> Iterator[str]:
    """Run a cluster of one node; gives its address."""
    command, pipe = [sys.executable, "-c", CLUSTER], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        yield started.stdout.readline().strip()
        started.stdin.close()
