"""Programs of other languages as muscles: equal results for a brain in Python, and what is said when they fail."""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from system.command import ganglion
from system.dealer import dealer
from system.languages import command_of, program_of
from system.results import Failed, fail, table

from ganglion_conformance.bench import Bench, Order
from ganglion_conformance.drivers import ProgramDriver
from ganglion_conformance.muscle import Body
from ganglion_conformance.recipes import Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs are started and watched as on Linux")
DOCUMENT = """\
uid: act
seed: 7
version: "0.1"
schedule:
  - act:
      environments:
        - environment: {uid: world, name: pendulum}
      agents:
        - {name: scout, muscle: MUSCLE, brain: BRAIN, sensors: ["world.*"], actuators: ["world.*"]}
      simulation: {name: vanilla, conditions: [{name: environment}]}
      phase_config: {mode: MODE, worker: WORKERS, episodes: EPISODES}
run_config: {condition: {name: vanilla}}
recovery: {deadlines_s: {join: 20, act: 5}}
"""
LINEAR = '''\
import numpy as np
from ganglion.sdk import Brain, Muscle


class Changing(Brain):
    """Draw other weights after every seventh row, in the middle of episodes too."""

    def setup(self):
        self.rows = 0
        self.draw()

    def draw(self):
        m, n = len(self.actuators), len(self.sensors)
        self.policy = {"weights": self.rng.normal(size=(m, n)), "bias": self.rng.normal(size=m)}
        return self.policy

    def initial_update(self, muscle_id):
        return self.policy

    def thinking(self, muscle_id, data):
        row = self.memory.tail(1, include_only=[muscle_id])
        self.rows += 1
        if self.rows % 7:
            return None
        drawn = self.draw()  # and a row that is told otherwise makes other weights
        seen = row.objective[0] + row.sensor_readings.flat[0].sum() + row.actuator_setpoints.flat[0].sum()
        return {"weights": drawn["weights"], "bias": drawn["bias"] + 0.01 * seen}

    def arrays(self):
        return self.policy


class Linear(Muscle):
    """Be muscle.c in Python."""

    def setup(self):
        self.weights, self.bias = np.zeros((len(self.actuators), len(self.sensors))), np.zeros(len(self.actuators))

    def prepare_model(self):
        found = self.load("policy")
        if found is not None:
            self.update(found)

    def update(self, update):
        self.weights, self.bias = update["weights"], update["bias"]

    def propose_actions(self, sensors, actuators_available):
        for actuator, weights, bias in zip(actuators_available, self.weights, self.bias, strict=True):
            total = 0.0
            for weight, sensor in zip(weights, sensors, strict=True):
                total = total + float(weight) * float(sensor.value)
            total = total + float(bias)
            actuator.value = min(max(total, float(actuator.space.low)), float(actuator.space.high))
        return actuators_available
'''


def _document(folder: Path, muscle: str, name: str = "act", **more: Any) -> Path:
    words = {"MUSCLE": muscle, "BRAIN": "none", "MODE": "test", "WORKERS": "1", "EPISODES": "1", **more}
    text = DOCUMENT
    for word, value in words.items():
        text = text.replace(word, str(value))
    path = folder / f"{name}.yml"
    path.write_text(text.replace("uid: act", f"uid: {name}"))
    return path


# == a linear policy in C =============================================================================================
@pytest.mark.long  # the default run has the clauses of a muscle in C in test_languages.py
def test_program_and_plugin_act_alike_for_a_brain(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Two documents that differ in the muscle only leave equal tables; weights change in mid-episode."""
    program = program_of("c-muscle", request.config)
    (tmp_path / "linear.py").write_text(LINEAR)
    form = {"BRAIN": '"linear:Changing"', "MODE": "train, evaluate_every: 1", "WORKERS": 1, "EPISODES": 1}
    for name, muscle in (("python", '"linear:Linear"'), ("c", f"{{{command_of(program)}}}")):
        done = ganglion(tmp_path, "-q", "run", str(_document(tmp_path, muscle, **form)), "--name", name)
        assert (0, "") == (done.returncode, done.stderr)

    actions = table(tmp_path, "actions", "c")
    assert {"train", "evaluate"} == {row["mode"] for row in actions}
    assert 400 <= len(actions)
    assert 50 < len({row["setpoints"]["world.torque"] for row in actions})
    same = ganglion(tmp_path, "runs", "diff", "python", "c")
    assert 0 == same.returncode, same.stdout


def _array(*shape: int, **more: Any) -> dict[str, Any]:
    return {"dtype": "<f8", "shape": list(shape), **more}


def _thought(update: Mapping[str, Any], *blobs: bytes) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    return {"fresh": True, "update": update, "signal": None}, blobs


def test_large_weights_come_as_a_blob(request: pytest.FixtureRequest) -> None:
    """Weights that travel as a frame of their own are taken, and the sum goes over all columns."""
    program = program_of("c-muscle", request.config)
    columns = 20_000
    weights = struct.pack(f"<{columns}d", *[1e-5 * (i % 7) for i in range(columns)])
    update = {"weights": _array(1, columns, blob=0), "bias": _array(1, data=struct.pack("<d", 0.25))}
    with Bench(ProgramDriver(program.argv, program.variables), Order(role="muscle")) as bench:
        body = Body(bench, bench.session())
        space = {"type": "box", "shape": [columns], "dtype": "<f8", "low": -1.0, "high": 1.0}
        body.deal["sensors"] = [{"id": "world.image", "space": space}]
        body.session.calls = lambda call, fields: _thought(update, weights)
        body.setup()
        answer = body.ask({"readings": [[struct.pack(f"<{columns}d", *[0.5] * columns)]]})
    total = 0.0
    for i in range(columns):
        total += 1e-5 * (i % 7) * 0.5

    assert [[total + 0.25]] == answer.fields["setpoints"]


# == what is said when a program fails ================================================================================
MUSCLE = dealer(
    "muscle",
    'count += call == "muscle.act"',
    'answer = {"setpoints": [[0.5]], "objective": [1]} if call == "muscle.act" else {}',
    "if count == 5: pass",
)
WRONG = {  # uid -> what is said otherwise, by what; how the story begins, and what else is in it
    "dies": (
        "pass",
        "print('ouch', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)",
        "was killed by SIGKILL",
        "ouch",
    ),
    "late": ("pass", "continue", "muscle.act", ""),
    "outside": ("[[0.5]]", "[[9.0]]", "setpoints.world.torque: expected a value of Box", ""),
    "version": ('"version": 1', '"version": 2', "ended with exit status 1", "this kernel speaks protocol 1, found 2"),
    "refuses": (
        "pass",
        "send(source, [5, serial], {'kind': 'author', 'message': 'too hot'}); continue",
        "author: too hot",
        "",
    ),
}


def _dealer(folder: Path, name: str, old: str = "", new: str = "") -> str:
    """Write a muscle in Python that uses pyzmq alone; return its form in a document."""
    assert old in MUSCLE
    path = folder / f"{name}.py"
    path.write_text(MUSCLE.replace(old, new, 1) if old else MUSCLE)
    return f"{{{command_of(Program([sys.executable, str(path)]))}}}"


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Failed:
    """Run all documents of this part by one command."""
    folder = tmp_path_factory.mktemp("failed")
    files = []
    for name, (old, new, *_) in WRONG.items():
        files.append(_document(folder, _dealer(folder, name, old, new), name))
        if name == "late":
            files[-1].write_text(files[-1].read_text().replace("act: 5", "act: 0.3, think: 0.2"))
    return fail(folder, files)


@pytest.mark.parametrize("uid", WRONG)
def test_program_that_fails_is_named(failed: Failed, uid: str) -> None:
    """Whatever a program does instead of acting ends the run in its name, with its last words."""
    story = failed.stories[uid]
    words, more = WRONG[uid][2:]

    assert story[0].startswith("muscle scout (worker 0)")
    assert words in story[0]
    assert more in "\n".join(story)
    assert "Traceback" not in "\n".join(story)


def test_words_of_a_program_are_in_the_log(failed: Failed) -> None:
    """What a program writes to its standard error is kept in the run's folder."""
    (log,) = failed.folder.glob("results/dies*/logs/muscle.scout.0.out")

    assert "ouch" in log.read_text()
