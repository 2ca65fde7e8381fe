"""Runs that must end with a clear error."""

from __future__ import annotations

import pytest
from system.results import Failed, fail

MISFITS = """\
import time
from ganglion.sdk import Brain, Environment


class Unlicensed(Environment):
    def __init__(self):
        raise RuntimeError("no licence for the simulator")

    def start_environment(self): ...
    def update(self, actuators): ...


class Silent(Brain):
    def thinking(self, muscle_id, data_from_muscle):
        while data_from_muscle is not None:
            time.sleep(0.05)
"""
DOCUMENT = """\
uid: UID
seed: 1
version: "0.1"
schedule:
  - only:
      environments: [{environment: {uid: world, ENVIRONMENT}}]
      agents: [{name: scout, brain: BRAIN, muscle: dummy, sensors: [world.0], actuators: [world.0]}]
      phase_config: {mode: train, episodes: 2}
run_config: {condition: {name: vanilla}}
recovery: {deadlines_s: {think: 1, attach: 1}}
"""
CASES = {  # uid -> environment, brain, what the story says
    "raises": (
        "name: 'misfits:Unlicensed'",
        "dummy",
        ["RuntimeError: no licence for the simulator", 'misfits.py", line 7', "environment world (worker 0)"],
    ),
    "silent": (
        "name: dummy",
        "{name: 'misfits:Silent'}",
        ["poison: brain scout died 3 times", "did not answer brain."],
    ),
    "absent": ("attach: true", "dummy", ["for environment world (worker 0) to attach"]),
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Failed:
    """Return what came of the runs: one command carries them out."""
    folder = tmp_path_factory.mktemp("failed")
    (folder / "misfits.py").write_text(MISFITS)
    files = [folder / f"{uid}.yml" for uid in CASES]
    for file, (uid, (environment, brain, _)) in zip(files, CASES.items(), strict=True):
        file.write_text(DOCUMENT.replace("UID", uid).replace("ENVIRONMENT", environment).replace("BRAIN", brain))
    return fail(folder, files)


@pytest.mark.parametrize("uid", CASES)
def test_who_fails_is_named(failed: Failed, uid: str) -> None:
    """The run ends within its deadline, with exit status 1, and its story names who, what and where."""
    story = "\n".join(failed.stories[uid])

    for sentence in CASES[uid][2]:
        assert sentence in story
