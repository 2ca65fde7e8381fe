"""What only plugins can tell of a document, asked for and before a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

from system.command import ganglion

NEVER = "warning: condition can never fire"

DOCUMENT = """\
uid: deep
seed: 1
version: "0.1"
run_config:
  conditions:
    - max_episodes
    - {name: agent_objective, params: {ada: {brain_avg50: 3}}}
schedule:
  - train:
      environments: [{environment: {uid: hill, name: dummy, params: {max_iter: 4}}}]
      agents: [{name: ada, muscle: dummy, sensors: [hill.0], actuators: [hill.0]}]
      simulation: {conditions: [environment, {name: max_steps, params: {steps: 9}}]}
      phase_config: {episodes: 1}
"""


def _ganglion(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "deep.yml").write_text(text)
    return ganglion(folder, *words)


def test_a_run_tells_the_warnings_of_its_conditions(tmp_path: Path) -> None:
    """A run prints what its conditions warn of, each with its line and once, and starts."""
    done = _ganglion(tmp_path, DOCUMENT, "run", "--plain", "deep.yml")

    assert 0 == done.returncode, done.stderr
    assert 1 == done.stderr.count("condition can never fire: max_steps 9, this environment ends after 4")
    assert "deep.yml:12:53: warning: " in done.stderr


def test_a_deep_check_tells_them_too(tmp_path: Path) -> None:
    """Beside the warnings of the document itself, in order of line; with --strict they count as errors."""
    text = DOCUMENT.replace("brain_avg50", "brain_avg7")
    done = _ganglion(tmp_path, text, "check", "--deep", "--strict", "deep.yml")

    assert 2 == done.returncode, done.stderr
    assert [
        f"deep.yml:7:14: {NEVER}: brain_avg7 needs 7 decisions per episode, this environment ends after 4",
        f"deep.yml:12:53: {NEVER}: max_steps 9, this environment ends after 4",
        "2 warnings",
    ] == done.stdout.splitlines()
