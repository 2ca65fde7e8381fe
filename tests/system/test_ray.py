from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from system.command import Command, ganglion
from system.farm import counting
from system.results import table

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: scripts/setup --with ray"),
]

RAY = ["--launcher", "ray"]
CLUSTER = """
import sys
from ray.cluster_utils import Cluster

more = {"num_cpus": 2, "object_store_memory": 80_000_000}
cluster = Cluster(initialize_head=True, head_node_args={**more, "include_dashboard": False})
other = cluster.add_node(**more)
print(cluster.address, flush=True)
for line in sys.stdin:
    cluster.remove_node(other)
    print("removed", flush=True)
cluster.shutdown()
"""
PPO = """
uid: farm
seed: 5
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - train:
      environments: [environment: {uid: hut, name: gymnasium, params: {id: CartPole-v1, max_episode_steps: 30}}]
      agents:
        - name: ada
          brain: {name: ppo, params: {rollout: 128, minibatch: 64, epochs: 2}}
          muscle: ppo
          objective: aggregate_rewards
          sensors: [hut.*]
          actuators: [hut.*]
      phase_config: {mode: train, worker: 4, episodes: 12}
"""
BODIES = """
uid: farm
seed: 5
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - train:
      environments:
        - {environment: {uid: cart, name: cartpole}, budget: {steps: 1200}, episode_end: each, max_steps: 40}
      agents: [{name: ada, brain: {name: log, params: {update_every: 3}}, muscle: random}]
      bodies: {num: 16}
      phase_config: {mode: train, worker: 2}
      simulation: {name: aeb}
"""
BROKEN = """
from ganglion.sdk import Environment

class Broken(Environment):
    def start_environment(self):
        raise LookupError("there is no world")

    def update(self, actuators):
        raise NotImplementedError
"""
SWEEP = """
uid: many
seed: 5
version: "0.1"
run:
  schedule:
    - first:
        environments: [environment: {uid: hut, name: counting}]
        agents: [{name: ada, muscle: dummy, brain: dummy, sensors: ["hut.*"], actuators: ["hut.*"]}]
        phase_config: {mode: train, episodes: 4}
  run_config: {condition: vanilla}
repetitions: 10
pairing: false
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[dict[str, str], Callable[[], None]]]:
    """Start a cluster of two nodes; yield the variable that names it, and what removes the second node."""
    started = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert started.stdin is not None
    assert started.stdout is not None
    out, feed = started.stdout, started.stdin

    def remove() -> None:
        feed.write("remove\n")
        feed.flush()
        assert "removed\n" == out.readline()

    try:
        # Not audited: Ray itself pickles, starts programs and imports what it likes in the process that uses it.
        yield {"RAY_ADDRESS": out.readline().strip(), "GANGLION_AUDIT": ""}, remove
    finally:
        feed.close()
        started.wait(60)
        out.close()


@pytest.mark.parametrize("said", ["near: true", "near: false", "near: false, relay: false", "shared: false"])
def test_a_run_on_a_cluster_is_the_run_of_one_machine(
    tmp_path: Path, cluster: tuple[dict[str, str], Callable[[], None]], said: str
) -> None:
    """Processes that Ray places give the digest of local ones: by sockets, relays, encrypted, without shared files."""
    (tmp_path / "farm.yml").write_text(counting(4))
    (tmp_path / ".ganglion.yml").write_text(f"launchers: {{ray: {{{said}, roles: {{brain: {{cpu: 1}}}}}}}}\n")
    done = [ganglion(tmp_path, "run", "farm.yml", *more, more=cluster[0], span_s=200.0) for more in ([], RAY)]
    digests = [ganglion(tmp_path, "verify", run, "--digest").stdout for run in ("farm-1", "farm-2")]

    assert [0, 0] == [one.returncode for one in done], done[1].stderr
    assert 1 == len(set(digests))
    assert "defect" not in done[1].stderr


@pytest.mark.parametrize("shared", ["true", "false"])
def test_a_node_that_is_lost_changes_no_result(
    tmp_path: Path, cluster: tuple[dict[str, str], Callable[[], None]], shared: str
) -> None:
    """What a removed node had goes on from journals elsewhere, or the phase begins again: the digest is the same."""
    (tmp_path / "farm.yml").write_text(counting(40))
    (tmp_path / ".ganglion.yml").write_text(f"launchers: {{ray: {{near: false, shared: {shared}}}}}\n")
    assert 0 == ganglion(tmp_path, "run", "farm.yml", span_s=200.0).returncode
    variables, remove = cluster
    running = Command(tmp_path, "run", "farm.yml", *RAY, more=variables, span_s=400.0)
    running.next_event(120.0)
    running.until("episode.ended")
    remove()
    status, errors = running.end()
    digests = [ganglion(tmp_path, "verify", run, "--digest").stdout for run in ("farm-1", "farm-2")]

    assert 0 == status, errors
    assert 1 == len(set(digests))
    kinds = {row["kind"] for row in table(tmp_path, "incidents", "farm-2")}
    assert ("lost" if shared == "true" else "rewound") in kinds


@pytest.mark.parametrize("text", [PPO, BODIES], ids=["ppo", "bodies"])
def test_what_learns_and_many_bodies_are_on_a_cluster_what_they_are_on_one_machine(
    tmp_path: Path, cluster: tuple[dict[str, str], Callable[[], None]], text: str
) -> None:
    """PPO of four workers, and bodies with episodes of their own, give the digest of local runs, also after a loss."""
    (tmp_path / "farm.yml").write_text(text)
    (tmp_path / ".ganglion.yml").write_text("launchers: {ray: {near: false}}\n")
    variables, remove = cluster
    done = [ganglion(tmp_path, "run", "farm.yml", *more, more=variables, span_s=300.0) for more in ([], RAY)]
    running = Command(tmp_path, "run", "farm.yml", *RAY, more=variables, span_s=400.0)
    running.until("episode.ended")
    remove()
    status, errors = running.end()
    digests = [ganglion(tmp_path, "verify", run, "--digest").stdout for run in ("farm-1", "farm-2", "farm-3")]

    assert ([0, 0], 0) == ([one.returncode for one in done], status), (done[1].stderr, errors)
    assert 1 == len(set(digests))
    assert "lost" in {row["kind"] for row in table(tmp_path, "incidents", "farm-3")}


def test_drawn_kills_over_ray_change_no_result(
    tmp_path: Path, cluster: tuple[dict[str, str], Callable[[], None]]
) -> None:
    """Twenty processes, drawn one after another, relays too, are killed: the digest is that of one machine."""
    often = "recovery: {restarts: {max: 20, within_s: 1, poison: 20}}\n"
    (tmp_path / "farm.yml").write_text(counting(200) + often)
    (tmp_path / ".ganglion.yml").write_text("launchers: {ray: {near: false}}\n")
    assert 0 == ganglion(tmp_path, "run", "farm.yml", span_s=400.0).returncode
    running = Command(tmp_path, "run", "farm.yml", *RAY, more=cluster[0], span_s=900.0)
    draw, killed = random.Random(7), 0
    while killed < 20:
        running.until("episode.ended")
        rows = json.loads(ganglion(tmp_path, "ps", "--json").stdout)
        there = [row for row in rows if row["host"] and row["pid"] and row.get("joined", True)]
        if there:
            with suppress(ProcessLookupError):  # one that was lost with its relay a moment ago
                os.kill(draw.choice(there)["pid"], signal.SIGKILL)
                killed += 1
    status, errors = running.end()
    digests = [ganglion(tmp_path, "verify", run, "--digest").stdout for run in ("farm-1", "farm-2")]

    assert 0 == status, errors
    assert 1 == len(set(digests))
    assert 20 <= len([row for row in table(tmp_path, "incidents", "farm-2") if row["kind"] == "restarted"])


def test_ten_runs_of_a_sweep_are_on_both_nodes_at_once(
    tmp_path: Path, cluster: tuple[dict[str, str], Callable[[], None]]
) -> None:
    """Runs at the same time are on both nodes, and have the digests of runs on one machine."""
    (tmp_path / "many.yml").write_text(SWEEP)
    (tmp_path / ".ganglion.yml").write_text("launchers: {ray: {near: false}}\n")
    local = ganglion(tmp_path, "--results", "local", "sweep", "many.yml", "--parallel", "2", span_s=200.0)
    running = Command(tmp_path, "sweep", "many.yml", "--parallel", "10", *RAY, more=cluster[0], span_s=500.0)
    relays, most = set[str](), 0
    running.until("point.started")
    while running.next_event() is not None:
        rows = json.loads(ganglion(tmp_path, "ps", "--json").stdout or "[]")
        relays |= {row["name"] for row in rows if row["role"] == "relay"}
        most = max(most, len({row["run"] for row in rows if row["run"] and row["host"]}))
    status, errors = running.end()
    digests = [
        [ganglion(tmp_path, *where, "verify", f"many-{number}-1", "--digest").stdout for number in range(10)]
        for where in (["--results", "local"], [])
    ]

    assert [0, 0] == [local.returncode, status], (local.stderr, errors)
    assert (2, True) == (len(relays), most > 4)
    assert digests[0] == digests[1]
    assert 10 == len(set(digests[1]))


def test_what_no_node_has_is_said_before_anything_starts(
    tmp_path: Path, cluster: tuple[dict[str, str], Callable[[], None]]
) -> None:
    """A role that needs more than any node has is an error of use that names it and what there is."""
    (tmp_path / "farm.yml").write_text(counting(4))
    (tmp_path / ".ganglion.yml").write_text("launchers: {ray: {roles: {brain: {gpu: 1}}}}\n")
    done = ganglion(tmp_path, "run", "farm.yml", *RAY, more=cluster[0])

    assert 2 == done.returncode
    assert "no node has GPU 1 (settings, launchers.ray.roles.brain); there are 2, with CPU 2; CPU 2" in done.stderr
    assert [] == [*(tmp_path / "results").glob("farm-*/journals")]


def test_the_report_of_a_failed_run_names_the_node(
    tmp_path: Path, cluster: tuple[dict[str, str], Callable[[], None]]
) -> None:
    """What a process on a node could not do is told with that node, and nothing of the run is left."""
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "farm.yml").write_text(counting(4).replace("name: counting", 'name: "broken:Broken"'))
    (tmp_path / ".ganglion.yml").write_text("launchers: {ray: {near: false}}\n")
    done = ganglion(tmp_path, "run", "farm.yml", *RAY, more=cluster[0])

    assert done.returncode not in (0, 2)
    assert "there is no world" in done.stderr
    assert f"it ran on node {socket.gethostname()}" in done.stderr
