"""Worlds: documents with learners that are disturbed, and how long they take undisturbed."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RUN = "chaos"
OFTEN = 4096
"""A length by which all journals are begun anew so often that losses happen behind it."""
EPISODES = {1: 30, 2: 10, 3: 8}  # by the number of workers: three seconds and a half on two processors
DOCUMENT = """\
uid: chaos
seed: 7
version: "0.1"
run_config: {condition: "stumbling:Ending"}
recovery: {on_loss: RECOVER, deadlines_s: {setup: 8, start: 8, reset: 4, update: 4, act: 4, think: 8, evaluate: 8,
  boundary: 8, episode: 8}}
schedule:
  - train:
      environments: [environment: {uid: e, WORLD}]
      agents:
        - {name: ada, brain: "stumbling:Learner", muscle: "stumbling:Actor", objective: aggregate_rewards,
           sensors: [e.observation], actuators: [e.action]}
      simulation: {name: "stumbling:Stepping", conditions: ["stumbling:Ending"]}
      phase_config: {mode: train, worker: WORKERS, episodes: EPISODES, evaluate_every: EVERY, evaluate_episodes: 1}
  - test: {phase_config: {mode: test, episodes: 2}}
"""

FORMS = {
    "plugin": 'name: "stumbling:Pole", params: {longest: 60}',
    "command": f"command: [{json.dumps(sys.executable)}, world.py]",
    "attach": "attach: true",
}
"""What the environment of a document is: a plugin of ours, a program of the run's, one that somebody else starts."""
_RAW = Path(__file__).parents[3] / "documents" / "raw_environment.py"
_CHANGES = {  # of the program in our documents: a discrete action, an observation, and short episodes
    '"push: Box(0, 1000)"': '"action: Discrete(2)"',
    '"steps: Box': '"observation: Box',
    "step == 1000": "step == 40",
}

Trip = dict[str, Any]  # place, number, deed: see stumbling.py


def write_world(
    folder: Path,
    workers: int,
    episodes: int,
    trips: Sequence[Trip] = (),
    recover: str = "recover",
    journal_begin_bytes: int = OFTEN,
    form: str = "plugin",
) -> None:
    """Write document, module, orders and limits into a folder; the document is `chaos.yml`."""
    folder.mkdir(parents=True, exist_ok=True)
    words: dict[str, Any] = {
        "WORLD": FORMS[form],
        "WORKERS": workers,
        "EPISODES": episodes,
        "EVERY": max(1, episodes // 3),
        "RECOVER": recover,
    }
    text = DOCUMENT
    for word, value in words.items():
        text = text.replace(word, str(value))
    (folder / "chaos.yml").write_text(text)
    program = _RAW.read_text()
    for old, new in _CHANGES.items():
        assert old in program, old
        program = program.replace(old, new)
    (folder / "world.py").write_text(program)
    shutil.copy(Path(__file__).with_name("stumbling.py"), folder / "stumbling.py")
    (folder / ".ganglion.yml").write_text(f"journal_begin_bytes: {journal_begin_bytes}\n")
    (folder / "trips.json").write_text(json.dumps(list(trips)))
