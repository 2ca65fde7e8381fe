"""Programs of other languages as muscles: equal results for a brain in Python, and what is said when they fail."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from system.command import Command, ganglion
from system.languages import program_of

from ganglion.supervisor.connection import find_connections
from ganglion.supervisor.toolchain import Program
from ganglion.testing.kit.bench import Bench, Order
from ganglion.testing.kit.body import Body
from ganglion.testing.kit.process import ProgramDriver

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="programs are started and watched as on Linux"
)

WAIT_S = 60.0  # nothing here takes so long unless it is broken
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


def _command(program: Program) -> str:
    return json.dumps({"command": list(program.argv), "variables": dict(program.variables)})


def _rows(folder: Path, run: str, table: str) -> list[dict[str, Any]]:
    shown = ganglion(folder, "results", "--table", table, "--format", "json", run)
    assert 0 == shown.returncode, shown.stderr
    rows: list[dict[str, Any]] = json.loads(shown.stdout)
    return rows


# == a linear policy in C =============================================================================================
def test_program_and_plugin_act_alike_for_a_brain(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Two documents that differ in the muscle only leave equal tables; weights change in mid-episode."""
    program = program_of("c-muscle", request.config)
    (tmp_path / "linear.py").write_text(LINEAR)
    form = {"BRAIN": '"linear:Changing"', "MODE": "train, evaluate_every: 2", "WORKERS": 2, "EPISODES": 2}
    for name, muscle in (("python", '"linear:Linear"'), ("c", _command(program))):
        done = ganglion(tmp_path, "-q", "run", str(_document(tmp_path, muscle, **form)), "--name", name)
        assert (0, "") == (done.returncode, done.stderr)

    actions = _rows(tmp_path, "c", "actions")
    assert {"train", "evaluate"} == {row["mode"] for row in actions}
    assert 800 <= len(actions)
    assert 100 < len({row["setpoints"]["world.torque"] for row in actions})
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


UPDATES = [
    ({"weights": _array(3, 1, data=bytes(24)), "bias": [0.0]}, "weights: expected float64 of the shape"),
    ({"weights": _array(1, 3, blob=3), "bias": [0.0]}, "weights: expected float64 of the shape"),
    (
        {"weights": {**_array(1, 3, data=bytes(24)), "dtype": "<f4"}, "bias": [0.0]},
        "weights: expected float64",
    ),
    ({"weights": [[0.0, 0.0, 0.0]], "bias": [0.0, 1.0]}, "bias: expected float64 of the shape"),
    ({"weights": [["a", 0.0, 0.0]], "bias": [0.0]}, "weights: expected float64 of the shape"),
    ({"bias": [0.0]}, "weights: expected float64 of the shape"),
]
SET_UPS: list[tuple[dict[str, Any], str]] = [
    (
        {"objective": {"name": "aggregate_rewards", "params": {"factor": 2.0}}},
        "this program adds up its rewards",
    ),
    ({"filters": [{"name": "x", "params": {}}]}, "filters: this program has none"),
    ({"brain": None, "models": "/tmp/m"}, "models: this program reads no stored model"),
    ({"plugin": {"name": "", "params": {"weights": [1.0]}}}, "weights: expected float64 of the shape"),
]


def test_what_the_program_cannot_do_is_refused(request: pytest.FixtureRequest) -> None:
    """Weights of a wrong shape, objectives, filters and models are refused with a sentence, and disturb nothing."""
    program = program_of("c-muscle", request.config)
    with Bench(ProgramDriver(program.argv, program.variables), Order(role="muscle")) as bench:
        body = Body(bench, bench.session())
        assert "not_set_up" == body.ask({"readings": [body.readings()]}).fields["kind"]
        ours = body.session.calls
        for update, text in UPDATES:
            body.session.calls = lambda call, fields, update=update: _thought(update)
            assert text in body.try_setup().text
        body.session.calls = ours
        for more, text in SET_UPS:
            assert text in body.try_setup(**more).text
        body.setup()
        body.setpoints(body.act())


# == what is said when a program fails ================================================================================
DEALER = """\
import msgpack, os, sys, zmq
dealer = zmq.Context().socket(zmq.DEALER)
dealer.linger = 500
dealer.connect(os.environ["GANGLION_ENDPOINT"])
def send(to, head, body): dealer.send_multipart([to, msgpack.packb(head), msgpack.packb(body)])
who = {"name": os.environ["GANGLION_NAME"], "token": os.environ["GANGLION_TOKEN"]}
send(b"", [1, 1], {"version": 1, "role": "muscle", **who})
first = os.environ.get("GANGLION_INCARNATION") == "1"
verb, acts = 0, 0
while verb != 10:
    source, head, body = dealer.recv_multipart()[:3]
    verb, serial, call = [*msgpack.unpackb(head), None][:3]
    act, answer = call == "muscle.act", {}
    acts += act
    if act: answer = {"setpoints": [[0.5]], "objective": [1]}
    if acts == 5: pass
    if verb == 3: send(source, [4, serial], answer)
    if verb == 8: send(b"", [8, serial, "here"], {})
    if verb == 10: send(b"", [10, serial], {})
    if verb == 5: raise SystemExit(msgpack.unpackb(body)["message"])
dealer.close()
"""
WRONG = {  # uid -> what is said otherwise, by what; how the story begins, and what else is in it
    "dies": (
        "pass",
        "print('ouch', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)",
        "was killed by SIGKILL",
        "ouch",
    ),
    "leaves": ("pass", "sys.exit('no more')", "ended with exit status 1", "no more"),
    "garbage": ("pass", "answer = 7", "expected a map", ""),
    "late": ("pass", "continue", "muscle.act", ""),
    "two": ("[[0.5]]", "[[0.5, 0.5]]", "setpoints: expected one row of 1 values, found [[0.5, 0.5]]", ""),
    "outside": ("[[0.5]]", "[[9.0]]", "setpoints.world.torque: expected a value of Box", ""),
    "text": ("[1]", "['x']", "objective: expected a list of one finite number or nil, found ['x']", ""),
    "wish": (
        "[1]}",
        "[1], 'signal': {'signal': 'SHUTDOWN'}}",
        "signal: there is no brain that could wish for it",
        "",
    ),
    "version": (
        '"version": 1',
        '"version": 2',
        "ended with exit status 1",
        "this kernel speaks protocol 1, found 2",
    ),
    "refuses": (
        "pass",
        "send(source, [5, serial], {'kind': 'author', 'message': 'too hot'}); continue",
        "author: too hot",
        "",
    ),
}


@dataclass(frozen=True)
class Failed:
    """Hold what came of runs that fail: folder, and the lines of the story of each, by its uid."""

    folder: Path
    stories: Mapping[str, list[str]]


def _dealer(folder: Path, name: str, old: str = "", new: str = "") -> str:
    """Write a muscle in Python that uses pyzmq alone; return its form in a document."""
    assert old in DEALER
    path = folder / f"{name}.py"
    path.write_text(DEALER.replace(old, new, 1) if old else DEALER)
    return _command(Program([sys.executable, str(path)]))


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Failed:
    """Run all documents of this part by one command, two at a time: each of them ends soon after it was started."""
    folder = tmp_path_factory.mktemp("failed")
    files = []
    for name, (old, new, *_) in WRONG.items():
        files.append(_document(folder, _dealer(folder, name, old, new), name))
        if name == "late":
            files[-1].write_text(files[-1].read_text().replace("act: 5", "act: 0.3, think: 0.2"))
    done = ganglion(folder, "run", *map(str, files), "--json", "--parallel", "2", span_s=3 * WAIT_S)
    assert 1 == done.returncode, done.stdout + done.stderr
    ended = [event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "run.ended"]
    assert {1} == {event["exit_status"] for event in ended}
    return Failed(folder, {event["run"].removesuffix("-1"): event["story"] for event in ended})


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


def test_restart_costs_the_open_episode(tmp_path: Path) -> None:
    """With `on_loss: restart` a lost program is started anew and set up again; the open episode is lost, and told."""
    form = _dealer(
        tmp_path, "mortal", "if acts == 5: pass", "if acts == 5 and first: os.kill(os.getpid(), 9)"
    )
    document = _document(tmp_path, form, EPISODES=2)
    done = ganglion(tmp_path, "-q", "run", str(document), "--set", "recovery.on_loss=restart", "--name", "r")

    assert 0 == done.returncode, done.stderr
    episodes = _rows(tmp_path, "r", "episodes")
    assert ["lost: muscle scout"] == [e["reason"] for e in episodes if e["reason"].startswith("lost")]
    assert [4, 200, 200] == [e["steps"] for e in episodes]


def test_program_attaches_as_a_muscle(tmp_path: Path) -> None:
    """A run waits for a muscle that somebody else starts, who joins by its agent's name, though a world has it too."""
    path = _document(tmp_path, "{attach: true}")
    path.write_text(path.read_text().replace("world", "scout"))
    path.write_text(path.read_text().replace("name: pendulum", "attach: true"))
    _dealer(tmp_path, "hand")
    world = Path(__file__).parents[2] / "plugins" / "foreign" / "python" / "pendulum.py"
    command = Command(tmp_path, "--results", str(tmp_path / "results"), "run", str(path), "--name", "r")
    command.until("waiting")
    (connection,) = [c for _, c in find_connections(tmp_path / "results") if c.run == "r"]
    place = {"GANGLION_ENDPOINT": connection.tcp or "", "GANGLION_TOKEN": connection.attach_token}
    variables = {**os.environ, **place, "GANGLION_NAME": "scout"}
    started = [
        subprocess.Popen([sys.executable, str(program)], env=variables, stderr=subprocess.PIPE, text=True)
        for program in (tmp_path / "hand.py", world)
    ]
    ended = command.end()
    left = [(process.communicate(timeout=WAIT_S)[1], process.returncode) for process in started]

    assert ((0, ""), [("", 0), ("", 0)]) == (ended, left)
    assert 200 == len(_rows(tmp_path, "r", "actions"))
