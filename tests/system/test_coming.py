"""Bodies that come and go, as separate processes: one that ends itself once, and a run that is resumed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from system.command import ganglion, private

DOCUMENT = """\
uid: coming
seed: 7
version: "0.1"
schedule:
  - train:
      environments:
        - environment:
            uid: lake
            name: counting
            params:
              length: 7
              verify: true
              events: [{after: 1, spawn: ada}, {after: 3, retire: ada, spawn: ada}, {after: 5, retire: ada}]
              crash_at: {episode: 1, step: 4}
          budget: {episodes: 3}
      agents: [{name: ada, brain: log, muscle: echo}]
      bodies: {num: 3, dynamic: [{agent: ada, environment: lake, max: 2}]}
      simulation: {name: aeb}
"""
"""The environment ends its process at one step, once in a run."""
GOLDEN = [3, 4, 4, 4, 4, 3, 3]


@pytest.mark.long
@pytest.mark.parametrize("on_loss", ["recover", "fail"])
def test_an_environment_that_ends_itself_does_so_once_in_a_run(on_loss: str) -> None:
    """Its successor goes on where it stood, at once or in the run that is resumed; bodies are the golden ones."""
    with tempfile.TemporaryDirectory(prefix="gc-", dir="/tmp") as path:
        folder, more = Path(path), private(Path(path))
        (folder / "run.yml").write_text(f"{DOCUMENT}recovery: {{on_loss: {on_loss}}}\n")
        ended = ganglion(folder, "run", "run.yml", "--name", "coming", more=more)
        if on_loss == "fail":
            assert 1 == ended.returncode, ended.stdout + ended.stderr
            ended = ganglion(folder, "resume", "coming", more=more)
        shown = ganglion(folder, "results", "coming", "--table", "steps", "--format", "json", more=more)

        assert 0 == ended.returncode, ended.stdout + ended.stderr
        assert 3 * GOLDEN == [len(row["rewards"]) for row in json.loads(shown.stdout)]
