from __future__ import annotations

import csv
from pathlib import Path

import pytest
from system.command import ganglion
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
    assert "observer csv looks on\n" == observed.stderr
    assert stored == told
    assert not (tmp_path / "results" / "one-1" / "csv").exists()


@pytest.mark.long
def test_an_observer_that_cannot_be_starts_nothing(tmp_path: Path) -> None:
    """A run with an observer that there is not is exit status 2, and nothing is stored of it."""
    (tmp_path / "one.yml").write_text(DOCUMENT)
    done = ganglion(tmp_path, "run", "--observe", "csc", "one.yml")

    assert 2 == done.returncode
    assert "there is no observer `csc`; did you mean `csv`?" in done.stderr
    assert not (tmp_path / "results" / "ganglion.db").exists()
