"""Settings files, on a real kernel and real runs: what they say holds in all processes."""

from __future__ import annotations

import json
from pathlib import Path

from system.command import ganglion

DOCUMENT = """
uid: small
seed: 1
version: "0.1"
run_config: {condition: max_episodes}
schedule:
  - one:
      environments: [environment: {uid: hill, name: "hill:Hill"}]
      agents: [{name: ada, muscle: dummy, sensors: [hill.s], actuators: []}]
      phase_config: {mode: test, worker: WORKERS, episodes: 1}
"""
HILL = """
from ganglion import limits
from ganglion.sdk import Box, Environment, EnvironmentBaseline, EnvironmentState, SensorInformation

class Hill(Environment):  # tells a limit of its own process
    def start_environment(self):
        return EnvironmentBaseline(self.read(), [])
    def update(self, actuators):
        return EnvironmentState(self.read(), [], terminated=True)
    def read(self):
        return [SensorInformation(float(limits.JOURNAL_BEGIN_BYTES), Box(0.0, 1e9, ()), "s")]
"""


def test_numbers_of_a_file_hold_in_every_process(tmp_path: Path) -> None:
    """Command and participants have the numbers of the working folder's file; results are for their owner alone."""
    (tmp_path / "hill.py").write_text(HILL)
    (tmp_path / ".ganglion.yml").write_text("results: out\nprocesses_per_run: 10\njournal_begin_bytes: 5000\n")
    (tmp_path / "small.yml").write_text(DOCUMENT.replace("WORKERS", "2"))
    (tmp_path / "large.yml").write_text(DOCUMENT.replace("WORKERS", "3"))
    refused, done = ganglion(tmp_path, "run", "large.yml"), ganglion(tmp_path, "run", "small.yml")
    rows = ganglion(tmp_path, "results", "steps", "last", "--json", "--columns", "sensors")

    assert 2 == refused.returncode
    assert "a run may have 10 (setting processes_per_run)" in refused.stderr
    assert 0 == done.returncode, done.stderr
    assert [{"hill.s": 5000.0}] * 2 == [row["sensors"] for row in json.loads(rows.stdout)]
    assert (tmp_path / "out" / "small-1").is_dir()
    assert [] == files_for(tmp_path / "out", 0o077)


def files_for(folder: Path, mask: int) -> list[Path]:
    """Return the files of a run (database, models, logs, manifest) whose mode has one of these bits."""
    found = [path for path in folder.rglob("*") if not path.is_symlink()]
    assert {"ganglion.db", "manifest.json", "logs"} <= {path.name for path in found}
    return [path for path in found if path.stat().st_mode & mask]


def test_results_are_for_a_group_where_a_setting_says_so(tmp_path: Path) -> None:
    """The group of the results may read them, and nobody else."""
    (tmp_path / ".ganglion.yml").write_text("readers: group\n")
    (tmp_path / "hill.py").write_text(HILL)
    (tmp_path / "small.yml").write_text(DOCUMENT.replace("WORKERS", "1"))
    done = ganglion(tmp_path, "run", "small.yml")

    assert 0 == done.returncode, done.stderr
    assert [] == files_for(tmp_path / "results", 0o027)
    assert tmp_path / "results" / "ganglion.db" in files_for(tmp_path / "results", 0o040)
