from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

ACTS = {
    "exec": "exec('1')",
    "eval": "eval('1 + 1')",
    "marshal": "marshal.loads(marshal.dumps(1))",
    "pickle": "pickle.loads(b'cbuiltins\\nlen\\n.')",
    "system": "os.system('true')",
    "popen": "subprocess.run(['true'])",
    "import": "shelve = __import__('shelve')",
    "write": "open('/audit-test', 'w')",
    "create": "os.open('/audit-test', os.O_CREAT)",
}
"""What no file of ours may do. Nothing of it comes to pass: writing ends in an error that is caught."""

SCRIPT = """
import os, sys, marshal, pickle, subprocess
import sitecustomize
seen = []
sitecustomize.install(seen.append)
code = compile("try:\\n    " + sys.argv[1] + "\\nexcept OSError:\\n    pass", sys.argv[2], "exec")
exec(code)
print(*[line for line in seen if f" at {sys.argv[2]}" in line or ": subprocess.Popen: " in line], sep="\\n")
"""


def events(act: str, place: str) -> str:
    """Return what is seen of a process that does something in a file at `place`."""
    act = act.replace("/audit-test", "/no-such-folder/audit-test")  # so nothing is written
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, act, place],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("act", ACTS)
def test_what_is_forbidden_is_seen(act: str) -> None:
    """Each forbidden act in a file of the kernel is reported."""
    assert events(ACTS[act], f"{ROOT}/kernel/ganglion/act.py")


def test_launcher_may_start_programs() -> None:
    """The files that start programs may, and nobody else of ours."""
    assert not events(ACTS["popen"], f"{ROOT}/kernel/ganglion/supervisor/launch/local.py")


DOCUMENT = """
uid: watched
seed: 1
version: "0.1"
schedule:
  - only:
      environments: [{environment: {uid: world, name: world.World}}]
      agents:
        - {name: ada, muscle: {name: random}, brain: {name: dummy}, objective: {name: dummy}, sensors: [world.seen],
           actuators: [world.moved]}
      simulation: {name: vanilla, conditions: [{name: end.End}]}
      phase_config: {mode: train, worker: 1}
run_config:
  condition: {name: vanilla}
"""

WORLD = """
import os
from ganglion.sdk import ActuatorInformation, Discrete, Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk import RewardInformation, SensorInformation


class World(Environment):
    def start_environment(self):
        os.system("exit 7")
        seen = [SensorInformation(0, Discrete(9), "seen")]
        return EnvironmentBaseline(seen, [ActuatorInformation(0, Discrete(2), "moved")])

    def update(self, actuators):
        seen = [SensorInformation(0, Discrete(9), "seen")]
        return EnvironmentState(seen, [RewardInformation(1, Discrete(2), "r")])
"""

END = """
import pickle
from ganglion.sdk import Signal, TerminationCondition


class End(TerminationCondition):
    def episode(self, view):
        pickle.loads(b"cbuiltins\\nlen\\n.")
        return Signal.STOP_PHASE
"""


def test_every_process_of_a_run_is_watched(tmp_path: Path) -> None:
    """Supervisor, broker and what is forked are watched: what a condition does in its controller is seen."""
    for name, text in (("run.yml", DOCUMENT), ("world.py", WORLD), ("end.py", END)):
        (tmp_path / name).write_text(text)
    found = tmp_path / "events"
    command = [str(Path(sys.executable).with_name("ganglion")), "run", "run.yml", "--quiet"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "GANGLION_AUDIT": str(found), "GANGLION_AUDIT_HELLO": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    lines = [line.split(": ", 1) for line in found.read_text().splitlines()]
    watched = {who.split()[0] for who, what in lines if what == "watched"}
    others = {(who.split()[0], what.partition(" ")[0]) for who, what in lines if what != "watched"}

    assert 0 == done.returncode, done.stderr
    assert {"supervisor", "broker", "ganglion.supervisor.launch.warm"} <= watched
    assert {("controller", "pickle.find_class:")} == others
