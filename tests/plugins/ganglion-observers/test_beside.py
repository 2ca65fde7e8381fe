from __future__ import annotations

import csv
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from system.command import Command, ganglion
from system.results import table

DOCUMENT = """
uid: one
seed: 5
version: "0.1"
schedule:
  - train:
      environments: [{environment: {uid: net, name: dummy, params: {max_iter: 4}}}]
      agents: [{name: ada, muscle: dummy, brain: dummy, objective: dummy, sensors: [net.0], actuators: [net.0]}]
      phase_config: {mode: train, episodes: 3, worker: 2}
run_config: {condition: vanilla}
"""


@pytest.mark.long
def test_a_run_with_an_observer_is_the_same_run(tmp_path: Path) -> None:
    """Each episode of a run is observed from the first on, its results are those without, and none is imported then."""
    (tmp_path / "one.yml").write_text(DOCUMENT)
    alone = ganglion(tmp_path, "run", "-q", "one.yml")
    observed = ganglion(tmp_path, "run", "-q", "--observe", "csv", "one.yml")
    same = ganglion(tmp_path, "runs", "diff", "one-1", "one-2")
    rows = list(csv.DictReader((tmp_path / "results" / "one-2" / "csv" / "episodes.csv").read_text().splitlines()))
    told = sorted((int(row["worker"]), int(row["episode"]), float(row["return"])) for row in rows)
    stored = sorted((row["worker"], row["episode"], row["return"]) for row in table(tmp_path, "returns", "one-2"))

    assert (0, 0, 0) == (alone.returncode, observed.returncode, same.returncode)
    assert "observer csv is connected\n" == observed.stderr
    assert stored == told
    assert not (tmp_path / "results" / "one-1" / "csv").exists()


@pytest.mark.long
def test_a_run_is_measured_while_it_runs(tmp_path: Path) -> None:
    """Prometheus finds the numbers of a live run at the printed address; nothing of it is left behind the run."""
    parser = pytest.importorskip("prometheus_client.parser", reason="needs ganglion-observers[metrics]")
    (tmp_path / "one.yml").write_text(DOCUMENT.replace("episodes: 3", "episodes: 100000"))
    run = Command(tmp_path, "run", "-q", "--metrics", "0", "one.yml", output=None, span_s=600.0)
    url = run.err.line().strip().removeprefix("metrics are at ")
    wanted = {
        "ganglion_messages_total", "ganglion_call_seconds_count", "ganglion_steps_total", "ganglion_episodes_total",
        "ganglion_return", "ganglion_last_heard_seconds", "ganglion_waiting_seconds", "ganglion_queue_bytes",
        "ganglion_restarts_total", "ganglion_store_rows_total", "ganglion_store_lag_seconds",
        "ganglion_cpu_seconds_total", "ganglion_memory_bytes",
    }  # fmt: skip
    found: dict[str, float] = {}
    for _ in range(600):
        text = urllib.request.urlopen(url, timeout=60.0).read().decode()
        found = {
            sample.name: sample.value for one in parser.text_string_to_metric_families(text) for sample in one.samples
        }
        if wanted <= set(found) and found["ganglion_steps_total"] > 0:
            break
    run.process.send_signal(2)
    status, _ = run.end()

    assert set() == wanted - set(found)
    assert found["ganglion_steps_total"] > 0
    assert 130 == status
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5.0)
