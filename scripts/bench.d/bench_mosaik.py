"""A simulator of mosaik that is a program: the rate of its steps in a run of ours and in a scenario of mosaik.

In both another process turns three growing models round, as in mosaik's tutorial; the simulator takes the times. Where
mosaik has its controller inside, that is a class of its own process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from measure import Options, Row, compare, interleave

TITLE = "steps of a mosaik simulator that is a program, x mosaik"
GATE = 1.0
STEPS, SKIPPED_STEPS = 5000, 500  # the first ones are not counted
ROUNDS_MAX = 5
SIMULATOR = """\
import json, pathlib, socket, sys, time

host, port = sys.argv[1].split(":")
file = socket.create_connection((host, int(port))).makefile("rwb")
values, began_s, now = {}, 0.0, 0

def answer(hook, args, named):
    global began_s, now
    if hook == "init":
        attrs = {"public": True, "params": ["init_val"], "attrs": ["val", "delta"]}
        return {"api_version": "3.0", "type": "time-based", "models": {"Model": attrs}}
    if hook == "create":
        names = [f"Model_{i}" for i in range(len(values), len(values) + args[0])]
        values.update(dict.fromkeys(names, named["init_val"]))
        return [{"eid": name, "type": "Model"} for name in names]
    if hook == "step":
        now = args[0]
        if now == SKIPPED:
            began_s = time.monotonic()
        for name, given in args[1].items():
            values[name] += sum(given["delta"].values())
        return now + 1
    if hook == "get_data":
        return {name: {"val": values[name]} for name in args[0]}

while True:
    kind, number, (hook, args, named) = json.loads(file.read(int.from_bytes(file.read(4), "big")))
    if hook == "stop":
        break
    data = json.dumps([1, number, answer(hook, args, named)]).encode()
    file.write(len(data).to_bytes(4, "big") + data)
    file.flush()
    if hook == "step":
        ended_s = time.monotonic()
pathlib.Path("rate").write_text(str((now - SKIPPED) / (ended_s - began_s)))
""".replace("SKIPPED", str(SKIPPED_STEPS))
CONTROLLER = """\
import mosaik_api_v3

class Turning(mosaik_api_v3.Simulator):
    def __init__(self):
        super().__init__({"type": "time-based", "models": {"Agent": {
            "public": True, "params": [], "attrs": ["val", "delta"]}}})
        self.deltas = {}

    def create(self, num, model):
        eid = f"a{len(self.deltas)}"
        self.deltas[eid] = 1.0
        return [{"eid": eid, "type": model}]

    def step(self, time, inputs, max_advance):
        for eid, given in inputs.items():
            value = next(iter(given["val"].values()))
            self.deltas[eid] = -1.0 if value >= 3 else 1.0 if value <= -3 else self.deltas[eid]
        return time + 1

    def get_data(self, outputs):
        return {eid: {"delta": self.deltas[eid]} for eid in outputs}

if __name__ == "__main__":
    mosaik_api_v3.start_simulation(Turning())
"""
SCENARIO = """\
import mosaik, sys

turning = {"cmd": "%(python)s controller.py %(addr)s"} if sys.argv[1] == "cmd" else {"python": "controller:Turning"}
world = mosaik.World({"Grow": {"cmd": "%(python)s simulator.py %(addr)s"}, "Turn": turning})
grow, turn = world.start("Grow"), world.start("Turn")
for start in (-2.0, 0.0, 2.0):
    model, agent = grow.Model(init_val=start), turn.Agent()
    world.connect(model, agent, "val")
    world.connect(agent, model, "delta", time_shifted=True, initial_data={"delta": 1.0})
world.run(until=STEPS, print_progress=False)
""".replace("STEPS", str(STEPS))
TURNING = """\
from ganglion.sdk import Muscle

class Turning(Muscle):
    def setup(self):
        self.deltas = {}

    def propose_actions(self, sensors, actuators_available):
        for reading, setpoint in zip(sensors, actuators_available):
            delta = self.deltas.get(reading.uid, 1.0)
            self.deltas[reading.uid] = -1.0 if reading.value >= 3 else 1.0 if reading.value <= -3 else delta
            setpoint.value = self.deltas[reading.uid]
        return actuators_available, None
"""
BOX = '"Box(low=-1000.0, high=1000.0, shape=())"'
RUN = """\
uid: bench
seed: 42
version: "0.1"
schedule:
  - act:
      environments:
        - environment:
            uid: world
            name: mosaik
            params:
              simulator: {{cmd: "%(python)s simulator.py %(addr)s"}}
              models: [{models}]
              sensors: {{{sensors}}}
              actuators: {{{actuators}}}
              end: {steps}
      agents: [{{name: hand, muscle: "turning:Turning", sensors: [world.*], actuators: [world.*]}}]
      phase_config: {{mode: test, episodes: 1}}
run_config: {{condition: vanilla}}
"""


def rows(options: Options) -> list[Row]:
    """Measure a run of ours, with and without a store, and a scenario of mosaik, in turns."""
    if find_spec("mosaik") is None:
        return [Row(TITLE, None, GATE, note="mosaik is missing: pip install 'ganglion-mosaik[mosaik]'")]
    with tempfile.TemporaryDirectory(prefix="ganglion-bench-") as name:
        folder = Path(name)
        (folder / "simulator.py").write_text(SIMULATOR)
        (folder / "controller.py").write_text(CONTROLLER)
        (folder / "scenario.py").write_text(SCENARIO)
        (folder / "turning.py").write_text(TURNING)
        models = ", ".join(f"{{model: Model, params: {{init_val: {start}}}}}" for start in (-2.0, 0.0, 2.0))
        sensors, actuators = (", ".join(f"Model_{i}.{it}: {BOX}" for i in range(3)) for it in ("val", "delta"))
        text = RUN.format(models=models, sensors=sensors, actuators=actuators, steps=STEPS)
        (folder / "run.yml").write_text(text)
        ours = [str(Path(sys.executable).with_name("ganglion")), "run", "-q", "run.yml"]
        meters: dict[str, Callable[[], float]] = {
            "ours": partial(_rate, ours, folder),
            "no store": partial(_rate, [*ours, "--store", "none"], folder),
            "cmd": partial(_rate, [sys.executable, "scenario.py", "cmd"], folder),
            "python": partial(_rate, [sys.executable, "scenario.py", "python"], folder),
        }
        rates = interleave(meters, min(options.rounds, ROUNDS_MAX))
        return [
            compare(TITLE, rates["ours"], rates["cmd"], GATE),
            compare(f"{TITLE}, store off", rates["no store"], rates["cmd"], None),
            compare(f"{TITLE} with its controller inside", rates["ours"], rates["python"], None),
        ]


def _rate(argv: list[str], folder: Path) -> float:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{argv} ended with {done.returncode}: {done.stderr[-2000:]}")
    return float((folder / "rate").read_text())
