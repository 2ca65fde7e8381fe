"""A farm: a folder in which documents are run; and a document of dummies for tests that disturb a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

from system.command import ganglion
from system.results import Rows, table

_DUMMIES = """\
uid: UID
seed: 7
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {uid: field, name: dummy}
      agents:
        - name: scout
          brain: {name: dummy}
          muscle: {name: dummy}
          objective: {name: dummy}
          sensors: [field.*]
          actuators: [field.*]
      phase_config: {mode: train, worker: 2, episodes: EPISODES}
run_config:
  condition: {name: vanilla}
"""


def dummies(uid: str, episodes: int) -> str:
    """Return a document of one agent in one environment, by two workers, each with so many episodes of ten steps."""
    return _DUMMIES.replace("UID", uid).replace("EPISODES", str(episodes))


_COUNTING = """\
uid: farm
seed: 5
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - train:
      environments: [environment: {uid: hut, name: counting}]
      agents: [{name: ada, muscle: dummy, brain: dummy, sensors: ["hut.*"], actuators: ["hut.*"]}]
      phase_config: {mode: train, worker: 2, episodes: EPISODES}
"""


def counting(episodes: int) -> str:
    """Return a document whose one phase may be followed by others: an agent that learns in a world that counts."""
    return _COUNTING.replace("EPISODES", str(episodes))


class Farm:
    """Run documents in a folder of their own and read what came of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, text: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run a document; return exit status and output."""
        (self.folder / "document.yml").write_text(text)
        return self.ganglion("run", "document.yml", "--plain", *options)

    def ganglion(self, *words: str) -> subprocess.CompletedProcess[str]:
        return ganglion(self.folder, *words)

    def rows(self, name: str, run: str) -> Rows:
        """Return the rows of a table of a run."""
        return table(self.folder, name, run)
