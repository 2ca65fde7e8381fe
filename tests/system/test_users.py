"""Processes under another user's name, on real runs: they do their work, and read nothing of the run but their own."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.command import GANGLION, SPAN_S, variables

from ganglion.supervisor.launch.system import may_change_user, user_of

pytestmark = pytest.mark.skipif(not may_change_user(), reason="only root starts processes as another user")

SPY = """
import os
from pathlib import Path
from ganglion.sdk import ActuatorInformation, Box, Discrete, Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk import RewardInformation, SensorInformation

class Spy(Environment):  # tells whose process it is, and which files of the run it can read or write
    def __init__(self, results):
        self.results = Path(results)
    def start_environment(self):
        self.step = 0
        return EnvironmentBaseline(self.read(), [ActuatorInformation(0, Discrete(3), "a")])
    def read(self):
        return [SensorInformation(0.5, Box(0.0, 2.0, ()), "s")]
    def reset(self, request):
        return self.start_environment()
    def update(self, actuators):
        self.step += 1
        if self.step == 2:
            self.look()
        reward = RewardInformation(1, Discrete(9), "r")
        return EnvironmentState(self.read(), [reward], terminated=self.step >= 4)
    def look(self):
        names = [name for name in NAMES if readable(self.results / name)]
        folders = [self.results / name for name in ("spy-1", "spy-1/logs", "spy-1/journals", "spy-1/brains")]
        listed = [path.name for path in folders if os.access(path, os.R_OK) or os.access(path, os.W_OK)]
        print("SEEN", os.getuid(), names, listed, flush=True)

NAMES = [
    "ganglion.db", "spy-1/document.yml", "spy-1/resolved.yml", "spy-1/manifest.json", "spy-1/connection.json",
    "spy-1/plan.msgpack", "spy-1/logs/governor.jsonl", "spy-1/logs/store.jsonl", "spy-1/logs/broker.out",
    "spy-1/journals/governor.journal", "spy-1/brains/models.json", "spy-1/logs/environment.hut.0.jsonl",
]

def readable(path):
    try:
        path.open("rb").close()
    except PermissionError:
        return False
    except FileNotFoundError:
        return None
    return True
"""
DOCUMENT = """
uid: spy
seed: 5
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - train:
      environments:
        - environment: {uid: hut, name: "spy:Spy", params: {results: RESULTS}}
          recovery: {run_as: nobody}
      agents:
        - {name: ada, muscle: dummy, brain: dummy, sensors: [hut.s], actuators: [hut.a], recovery: {run_as: nobody}}
        - {name: bob, muscle: dummy, brain: dummy, sensors: [hut.s], actuators: []}
      phase_config: {episodes: 2}
  - test:
      phase_config: {mode: test}
"""
# Another user may not be able to reach our Python: then its folder is shown where he can, to this run alone.
_SHOWN = """
set -e
kept=$(mktemp -d)
mount --bind {prefix} "$kept"
mount -t tmpfs -o mode=711 none {wall}
mkdir -p {prefix}
mount --bind "$kept" {prefix}
exec "$@"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder through which everybody may pass; those of pytest are for one user."""
    with tempfile.TemporaryDirectory(prefix="ganglion-users-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def reaching(*argv: str) -> list[str]:
    """Return a command line that makes Python reachable for the user `nobody`; skips where that cannot be done."""
    user = user_of("nobody")
    prefix = Path(sys.base_prefix).resolve()
    wall = next((p for p in [*reversed(prefix.parents), prefix] if not user.passes(p)), None)
    if wall is None:
        return list(argv)
    script = _SHOWN.format(prefix=shlex.quote(str(prefix)), wall=shlex.quote(str(wall)))
    command = ["unshare", "--mount", "sh", "-c", script, "sh"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip(f"the user nobody cannot reach {prefix}, and this machine lets nobody change that for one run")
    return [*command, *argv]


def ganglion(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command where the user `nobody` can reach all that he needs."""
    return subprocess.run(
        reaching(GANGLION, *words),
        cwd=folder,
        env=variables(),
        capture_output=True,
        text=True,
        timeout=SPAN_S,
        check=False,
    )


def test_another_user_works_and_sees_only_what_is_his(folder: Path) -> None:
    """A run with processes of another user finishes; that one's can read no file of the run but their own."""
    (folder / "spy.py").write_text(SPY)
    (folder / "spy.yml").write_text(DOCUMENT.replace("RESULTS", str(folder / "results")))
    ended = ganglion(folder, "run", "spy.yml", "--json")
    run = folder / "results" / "spy-1"
    nobody = pwd.getpwnam("nobody").pw_uid

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [1, 1] == [event["files"] > 0 for event in events if event["event"] == "brain.stored"][:2]
    seen = (run / "logs" / "environment.hut.0.out").read_text()
    said = {line.partition(" ")[2] for line in seen.splitlines()}  # behind its time
    assert {f"SEEN {nobody} ['spy-1/logs/environment.hut.0.jsonl'] []"} == said
    owners = {path.name: path.stat().st_uid for path in (run / "logs").iterdir()}
    theirs = {name for name, owner in owners.items() if owner == nobody}
    assert {"environment.hut.0.jsonl", "brain.ada.jsonl", "muscle.ada.0.jsonl"} == theirs
    assert (nobody, 0) == tuple((run / "brains" / "0" / name).stat().st_uid for name in ("ada", "bob"))


@pytest.mark.long
def test_another_user_learns_from_recordings(folder: Path) -> None:
    """A brain of another user reads the episodes that are copied for it, and nobody else does."""
    (folder / "spy.py").write_text(SPY)
    again = "  - again:\n      agents: [{name: ada, replay: [{phase: train}]}, {name: bob, replay: [{}]}]\n"
    again += "      phase_config: {mode: train, episodes: 1}\n"
    (folder / "spy.yml").write_text(DOCUMENT.replace("RESULTS", str(folder / "results")) + again)
    ended = ganglion(folder, "run", "spy.yml", "--json")
    nobody = pwd.getpwnam("nobody").pw_uid

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    learned = [event for event in events if event["event"] == "brain.pretrained"]
    assert {("ada", 2), ("bob", 2)} == {(event["agent"], event["episodes"]) for event in learned}
    places = [folder / "results" / "spy-1" / "replay" / "2" / name for name in ("ada", "bob")]
    assert [(nobody, 0o700), (0, 0o700)] == [(p.stat().st_uid, p.stat().st_mode & 0o777) for p in places]


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ("no-such-one", "run_as: expected the name of a user of this machine, found 'no-such-one'"),
        ("nobody", "run_as: expected that the user 'nobody' may pass through "),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(folder: Path, user: str, said: str) -> None:
    """A user that is not known, or cannot reach the results, ends the command with 2 and a word about what he needs."""
    (folder / "spy.py").write_text(SPY)
    (folder / "spy.yml").write_text(DOCUMENT.replace("nobody", user).replace("RESULTS", "x"))
    (folder / "hidden").mkdir(mode=0o700)
    ended = ganglion(folder, "--results", "hidden/results", "run", "spy.yml")

    assert 2 == ended.returncode, ended.stdout + ended.stderr
    assert said in ended.stderr
    assert [] == list((folder / "hidden" / "results").iterdir())
    assert os.listdir(folder / "hidden") == ["results"]  # noqa: PTH208 - names, not paths
