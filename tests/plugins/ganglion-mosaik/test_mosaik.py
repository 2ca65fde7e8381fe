"""Simulators of mosaik as environments, as classes and as programs; runs as simulators where mosaik is installed."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from system.command import ganglion
from system.results import table

from ganglion.sdk import SpaceError
from ganglion_mosaik.environment import MosaikEnvironment
from ganglion_mosaik.scenario import ScenarioEnvironment

BOX = "Box(low=-1000.0, high=1000.0, shape=())"

# A model whose value grows by `delta`, in each step; it needs no package of mosaik.
SIMULATOR = """\
import json, socket, sys

class Growing:
    def init(self, sid, time_resolution=1.0, step_size=1, kind="time-based", version="3.0"):
        self.step_size, self.models = step_size, {}
        attrs = {"public": True, "params": ["init_val"], "attrs": ["val", "delta"]}
        return {"api_version": version, "type": kind, "models": {"Model": attrs}}

    def create(self, num, model, init_val=0.0):
        names = [f"Model_{i}" for i in range(len(self.models), len(self.models) + num)]
        self.models.update({name: {"val": init_val, "delta": 1.0} for name in names})
        return [{"eid": name, "type": model} for name in names]

    def setup_done(self):
        pass

    def step(self, time, inputs, max_advance):
        for name, model in self.models.items():
            model["delta"] = sum(inputs.get(name, {}).get("delta", {"": model["delta"]}).values())
            model["val"] += model["delta"]
        return time + self.step_size

    def get_data(self, outputs):
        return {name: {attr: self.models[name][attr] for attr in attrs} for name, attrs in outputs.items()}

    def finalize(self):
        pass

if __name__ == "__main__":
    host, port = sys.argv[1].split(":")
    file = socket.create_connection((host, int(port))).makefile("rwb")
    growing = Growing()
    while True:
        kind, number, (hook, args, named) = json.loads(file.read(int.from_bytes(file.read(4), "big")))
        if hook == "stop":
            break
        data = json.dumps([1, number, getattr(growing, hook)(*args, **named)]).encode()
        file.write(len(data).to_bytes(4, "big") + data)
        file.flush()
"""
Make = Callable[..., Any]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make) -> Make:
    """Return a function that makes an environment of the simulator above."""
    (tmp_path / "growing_simulator.py").write_text(SIMULATOR)
    monkeypatch.syspath_prepend(str(tmp_path))
    usual = {
        "simulator": {"python": "growing_simulator:Growing"},
        "models": [{"model": "Model", "num": 2, "params": {"init_val": 2.0}}],
        "sensors": {"Model_0.val": BOX, "Model_1.val": BOX},
        "actuators": {"Model_0.delta": BOX},
        "rewards": {"Model_0.val": BOX},
        "init": {"step_size": 60},
        "end": 180,
        "start_date": "2030-01-01T00:00:00+00:00",
    }
    return lambda **params: make(MosaikEnvironment, **{**usual, **params})


def play(environment: Any) -> list[tuple[int | None, list[float], bool]]:
    """Return time, readings and end of an episode in which 0.5 is set in each step."""
    baseline = environment.start_environment()
    found = [(baseline.simtime.simtime_ticks, [it.value for it in baseline.sensors_available], False)]
    while not found[-1][-1]:
        for it in baseline.actuators_available:
            it.value = 0.5
        state = environment.update(baseline.actuators_available)
        found.append((state.simtime.simtime_ticks, [it.value for it in state.sensor_information], state.truncated))
    environment.shutdown()
    return found


GROWN = [(0, [3.0, 3.0], False), (60, [3.5, 4.0], False), (120, [4.0, 5.0], True)]


def test_a_class_is_played_step_by_step(world: Make) -> None:
    """Each step is one of the simulator's own, with its time; setpoints are its inputs."""
    assert play(world()) == GROWN


def test_a_program_is_played_as_the_class_is(world: Make, tmp_path: Path) -> None:
    """A program that connects back gives the same values, and is gone behind the episode."""
    command = {"cmd": "%(python)s growing_simulator.py %(addr)s", "cwd": str(tmp_path)}

    assert play(world(simulator=command)) == GROWN


def test_a_program_is_asked_for_a_step_and_its_values_together(world: Make, tmp_path: Path) -> None:
    """A program that answers a step once it was asked for the values, too, is not waited for in vain."""
    later = SIMULATOR.replace(
        "        data = json.dumps", "        if hook == 'step':\n            file.peek(1)\n        data = json.dumps"
    )
    (tmp_path / "later.py").write_text(later)
    command = {"cmd": "%(python)s later.py %(addr)s", "cwd": str(tmp_path)}

    assert play(world(simulator=command, answer_s=10.0)) == GROWN


def test_a_program_that_fails_is_told_with_its_words(world: Make, tmp_path: Path) -> None:
    """The first of two requests that fails is named, with what the program said."""
    failing = SIMULATOR.replace("[1, number, getattr(growing, hook)(*args, **named)]", "answer(hook, args, named)")
    failing = failing.replace(
        "    while True:",
        """\
    def answer(hook, args, named):
        if hook == "step" and args[0] == 60:
            return [2, number, ["ValueError", "no 60", "where it was"]]
        return [1, number, getattr(growing, hook)(*args, **named)]

    while True:""",
    )
    (tmp_path / "failing.py").write_text(failing)
    command = {"cmd": "%(python)s failing.py %(addr)s", "cwd": str(tmp_path)}

    environment = world(simulator=command)
    environment.start_environment()
    with pytest.raises(RuntimeError, match=r"simulator '.*failing.py .*': step: ValueError, no 60"):
        environment.update([])
    environment.shutdown()


def test_the_calendar_follows_the_ticks(world: Make) -> None:
    """With a start date simulated times have one, too."""
    environment = world(time_resolution=0.5)

    environment.start_environment()
    state = environment.update([])

    assert state.simtime.simtime_timestamp.isoformat() == "2030-01-01T00:00:30+00:00"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"sensors": {"Model_7.val": BOX}}, "there is no entity 'Model_7'; expected Model_0, Model_1"),
        ({"sensors": {"Model_0.vat": BOX}}, "Model_0 has no attribute 'vat'; expected val, delta"),
        ({"models": [{"model": "Modell"}]}, "there is no model 'Modell'; expected Model"),
        ({"init": {"version": "2.4"}}, "expected API 3, found 2.4"),
        ({"init": {"kind": "event-based"}}, "expected time-based or hybrid, found event-based"),
        ({"init": {"step_size": 0}}, "expected a later next step, found 0"),
        ({"simulator": {"python": "a:B", "cmd": "c"}}, "expected one of python and cmd"),
        ({"simulator": {"pyhton": "a:B"}}, "expected one of python and cmd"),
        ({"actuators": {"Model_0.delta": "Bx()"}}, "actuators.Model_0.delta: "),
    ],
)
def test_what_is_wrong_is_named(world: Make, params: dict[str, Any], said: str) -> None:
    """Entities, attributes, models, versions and kinds that are not there are told with those that are."""
    with pytest.raises((ValueError, SpaceError), match=said.replace("(", r"\(")):
        play(world(**params))


def test_a_document_from_the_network_starts_no_simulator(world: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the run has no folder of a local user nothing is imported and no program started."""
    monkeypatch.setenv("GANGLION_FOLDER", "")

    with pytest.raises(ValueError, match="came over the network"):
        world().start_environment()


def test_a_run_alone_is_no_scenario(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a scenario says who has to start the run."""
    monkeypatch.delenv("GANGLION_MOSAIK", raising=False)

    with pytest.raises(RuntimeError, match="a scenario of mosaik starts this run"):
        make(ScenarioEnvironment).start_environment()


RUN = """\
uid: in-a-scenario
seed: 3
version: "0.1"
schedule:
  - act:
      environments: [{environment: {uid: world, name: mosaik_scenario}}]
      agents: [{name: hand, muscle: random, sensors: [world.*], actuators: [world.*]}]
      phase_config: {mode: test, episodes: 1}
run_config: {condition: vanilla}
"""
SCENARIO = """\
import mosaik
world = mosaik.World({{
    "Grow": {{"cmd": "%(python)s growing_simulator.py %(addr)s"}},
    "Ganglion": {{"python": "ganglion_mosaik.simulator:GanglionSimulator"}},
}})
grow = world.start("Grow", step_size=1)
run = world.start("Ganglion", document="run.yml", sensors={{"val": "{box}"}}, rewards={{"val": "{box}"}},
                  actuators={{"delta": "Box(low=-1.0, high=1.0, shape=())"}})
model, agent = grow.Model(init_val=2.0), run.Run()
world.connect(model, agent, "val")
world.connect(agent, model, "delta", time_shifted=True, initial_data={{"delta": 0.0}})
world.run(until=10, print_progress=False)
"""


@pytest.mark.long
def test_a_run_is_a_simulator_in_a_scenario(tmp_path: Path) -> None:
    """The scenario's values are the run's readings, the run's setpoints the scenario's inputs, step by step."""
    pytest.importorskip("mosaik", reason="mosaik is not installed: scripts/setup --with mosaik")
    (tmp_path / "growing_simulator.py").write_text(SIMULATOR)
    (tmp_path / "run.yml").write_text(RUN)
    (tmp_path / "scenario.py").write_text(SCENARIO.format(box=BOX))

    done = subprocess.run([sys.executable, "scenario.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = table(tmp_path, "steps")

    values = [2.0, *(row["sensors"]["world.val"] for row in rows)]
    grown = [round(after - before, 9) for before, after in itertools.pairwise(values)]
    assert len(rows) == 10
    assert grown == [*(round(row["setpoints"]["world.delta"], 9) for row in rows[:-1]), 0.0]
    assert [row["truncated"] for row in rows] == [False] * 9 + [True]


# The scenario of mosaik's tutorial: models that grow, and a controller that turns them round at 3 and at -3.
TUTORIAL = """\
import json, sys, mosaik, mosaik_api_v3

class Turning(mosaik_api_v3.Simulator):
    def __init__(self):
        super().__init__({{"type": "time-based", "models": {{"Agent": {{
            "public": True, "params": [], "attrs": ["val", "delta"]}}}}}})
        self.deltas, self.seen = {{}}, []

    def create(self, num, model):
        self.deltas.update({{f"a{{i}}": 1.0 for i in range(len(self.deltas), len(self.deltas) + num)}})
        return [{{"eid": eid, "type": model}} for eid in list(self.deltas)[-num:]]

    def step(self, time, inputs, max_advance):
        values = {{eid: next(iter(given["val"].values())) for eid, given in inputs.items()}}
        self.seen.append([values[eid] for eid in self.deltas])
        for eid, value in values.items():
            self.deltas[eid] = -1.0 if value >= 3 else 1.0 if value <= -3 else self.deltas[eid]
        return time + 1

    def get_data(self, outputs):
        return {{eid: {{"delta": self.deltas[eid]}} for eid in outputs}}

    def finalize(self):
        print(json.dumps(self.seen))

world = mosaik.World({{
    "Grow": {{"cmd": "%(python)s growing_simulator.py %(addr)s"}}, "Turn": {{"python": "__main__:Turning"}},
}})
grow, turn = world.start("Grow", step_size=1), world.start("Turn")
for start in (-2.0, 0.0, 2.0):
    model, agent = grow.Model(init_val=start), turn.Agent()
    world.connect(model, agent, "val")
    world.connect(agent, model, "delta", time_shifted=True, initial_data={{"delta": 1.0}})
world.run(until={steps}, print_progress=False)
"""
BRIDGED = """\
uid: bridged
seed: 3
version: "0.1"
schedule:
  - act:
      environments:
        - environment:
            uid: world
            name: mosaik
            params:
              simulator: {{cmd: "%(python)s growing_simulator.py %(addr)s"}}
              models: [{models}]
              sensors: {{Model_0.val: "{box}", Model_1.val: "{box}", Model_2.val: "{box}"}}
              actuators: {{Model_0.delta: "{box}", Model_1.delta: "{box}", Model_2.delta: "{box}"}}
              end: {steps}
      agents: [{{name: hand, muscle: "turning:Turning", sensors: [world.*], actuators: [world.*]}}]
      phase_config: {{mode: test, episodes: 1}}
run_config: {{condition: vanilla}}
"""
TURNING = """\
from ganglion.sdk import Muscle

class Turning(Muscle):
    def setup(self):
        self.deltas = {}

    def propose_actions(self, sensors, actuators_available):
        for reading, setpoint in zip(sensors, actuators_available, strict=True):
            delta = self.deltas.get(reading.uid, 1.0)
            self.deltas[reading.uid] = -1.0 if reading.value >= 3 else 1.0 if reading.value <= -3 else delta
            setpoint.value = self.deltas[reading.uid]
        return actuators_available, None
"""


@pytest.mark.long
def test_the_tutorials_scenario_has_equal_values(tmp_path: Path) -> None:
    """Models of a program that a controller turns round grow through the bridge as they do in mosaik."""
    pytest.importorskip("mosaik", reason="mosaik is not installed: scripts/setup --with mosaik")
    steps = 20
    models = ", ".join(f"{{model: Model, params: {{init_val: {start}}}}}" for start in (-2.0, 0.0, 2.0))
    (tmp_path / "growing_simulator.py").write_text(SIMULATOR)
    (tmp_path / "turning.py").write_text(TURNING)
    (tmp_path / "scenario.py").write_text(TUTORIAL.format(steps=steps))
    (tmp_path / "run.yml").write_text(BRIDGED.format(box=BOX, steps=steps, models=models))
    done = subprocess.run([sys.executable, "scenario.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    theirs = json.loads(done.stdout.strip().splitlines()[-1])
    assert ganglion(tmp_path, "run", "-q", "run.yml", span_s=300.0).returncode == 0
    rows = [*table(tmp_path, "resets"), *table(tmp_path, "steps")]

    assert [[row["sensors"][f"world.Model_{i}.val"] for i in range(3)] for row in rows] == theirs
    assert len(theirs) == steps
