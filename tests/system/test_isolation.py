"""What an agent can see: nothing of another agent, of the run's seed, of its document, of its database.

Every reading, reward and setpoint is a canary: a float64 whose bits name the agent that it belongs to. Each participant
records what it receives and sends, below the libraries; then all of it is searched.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="variables of processes are read in /proc")

GANGLION = str(Path(sys.executable).with_name("ganglion"))
AUDIT = Path(__file__).parents[1] / "audit"
SEED = 0x1D0C_0FFE_EBAD_CAFE & (2**53 - 1)
SECRET = "canary-of-the-document"
PASSWORD = "canary-of-the-database"

DOCUMENT = f"""\
uid: isolation  # {SECRET}
seed: {SEED}
version: "0.1"
schedule:
  - learn:
      environments:
        - environment: {{uid: both, name: world.World, params: {{agents: [ada, bob]}}}}
        - environment: {{uid: hers, name: world.World, params: {{agents: [ada]}}}}
        - environment: {{uid: his, name: world.World, params: {{agents: [bob]}}}}
      agents:
        - name: ada
          muscle: {{name: mind.Muscle, params: {{agent: ada}}}}
          brain: {{name: mind.Brain}}
          objective: {{name: mind.Objective}}
          sensors: [both.ada, both.ada-array, hers.ada, hers.ada-array]
          actuators: [both.ada, hers.ada]
          rewards: [both.ada, hers.ada]
        - name: bob
          muscle: {{name: mind.Muscle, params: {{agent: bob}}}}
          brain: {{name: mind.Brain}}
          objective: {{name: mind.Objective}}
          sensors: [both.bob, both.bob-array, his.bob, his.bob-array]
          actuators: [both.bob, his.bob]
          rewards: [both.bob, his.bob]
      simulation: {{name: vanilla, conditions: [{{name: max_steps, params: {{steps: STEPS}}}}, {{name: max_episodes}}]}}
      phase_config: {{mode: train, worker: 2, episodes: 4}}
  - act:
      phase_config: {{mode: test, worker: 2, episodes: 2}}
run_config:
  condition: {{name: vanilla}}
"""

CANARY = '''
import struct

AGENTS = {"ada": 0xA1, "bob": 0xB2}
KINDS = {"reading": 1, "array": 2, "reward": 3, "setpoint": 4, "static": 5}


def canary(agent, kind, number):
    """Return a float64 between 1 and 2 whose bits say whose it is: marker, agent, kind, number."""
    bits = 0x3FFACA << 40 | AGENTS[agent] << 32 | KINDS[kind] << 24 | number & 0xFFFFFF
    return struct.unpack(">d", bits.to_bytes(8, "big"))[0]
'''

WORLD = """
import numpy as np
from canary import canary
from ganglion.sdk import ActuatorInformation, Box, Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk import RewardInformation, SensorInformation

SPACE, PAIR = Box(0.0, 2.0, ()), Box(0.0, 2.0, (2,))


class World(Environment):
    def __init__(self, agents):
        super().__init__()
        self.agents, self.number = agents, 0

    def readings(self):
        self.number += 1
        found = []
        for agent in self.agents:
            found.append(SensorInformation(canary(agent, "reading", self.number), SPACE, agent))
            pair = np.array([canary(agent, "array", self.number)] * 2)
            found.append(SensorInformation(pair, PAIR, f"{agent}-array"))
        return found

    def rewards(self):
        return [RewardInformation(canary(agent, "reward", self.number), SPACE, agent) for agent in self.agents]

    def start_environment(self):
        actuators = [ActuatorInformation(0.0, SPACE, agent) for agent in self.agents]
        static = {agent: canary(agent, "static", 1) for agent in self.agents} if len(self.agents) == 1 else None
        return EnvironmentBaseline(self.readings(), actuators, static_world_model=static)

    def update(self, actuators):
        return EnvironmentState(self.readings(), self.rewards())
"""

MIND = '''
import numpy as np
import ganglion.sdk as sdk
from canary import canary


class Muscle(sdk.Muscle):
    def __init__(self, agent):
        super().__init__()
        self.agent, self.number = agent, 0

    def propose_actions(self, sensors, actuators):
        self.number += 1
        for actuator in actuators:
            actuator.value = canary(self.agent, "setpoint", self.number)
        return actuators, {"seen": [float(np.sum(s.value)) for s in sensors]}


class Brain(sdk.Brain):
    """Learn the mean of all that came, and give back the last of it."""

    def thinking(self, muscle_id, data):
        shard = self.memory.tail(5)
        self.last = np.array([row for row in shard.rewards.values], dtype=float)
        return {"data": data, "rewards": self.last}

    def arrays(self):
        return {"last": self.last}

    def load_arrays(self, arrays):
        self.last = arrays["last"]


class Objective(sdk.Objective):
    def internal_reward(self, memory, **kwargs):
        return float(memory.tail(1).rewards.sum(axis=None))
'''

RECORDER = '''
"""Record what every participant receives and sends, and what it could look up: variables, command line, parent."""
import os
import sys

sys.path.insert(0, os.environ["AUDIT_FOLDER"])
exec(open(os.environ["AUDIT_FOLDER"] + "/sitecustomize.py").read())

if "ganglion.supervisor.launch.warm" in sys.orig_argv:
    from ganglion.transport.blocking import BlockingLink

    folder = os.environ["RECORD_FOLDER"]
    send, receive = BlockingLink.send, BlockingLink.receive

    def keep(frames):
        with open(f"{folder}/{os.getpid()}.frames", "ab") as file:
            if not file.tell():
                for name in ("environ", "cmdline"):
                    file.write(open(f"/proc/self/{name}", "rb").read() + b"\\n")
                file.write(repr(sorted(os.environ.items())).encode() + b"\\n")
            file.writelines(bytes(frame) + b"\\n" for frame in frames)

    def recorded_send(self, frames):
        keep(frames)
        return send(self, frames)

    def recorded_receive(self, timeout_s=None):
        frames = receive(self, timeout_s)
        if frames is not None:
            keep(frames)
        return frames

    BlockingLink.send, BlockingLink.receive = recorded_send, recorded_receive
'''

AGENTS = {0xA1: "ada", 0xB2: "bob"}
KINDS = {1: "reading", 2: "array", 3: "reward", 4: "setpoint", 5: "static"}
BIG = re.compile(rb"(?=\x3f\xfa\xca([\xa1\xb2])([\x01-\x05]))", re.DOTALL)
LITTLE = re.compile(rb"(?=([\x01-\x05])([\xa1\xb2])\xca\xfa\x3f)", re.DOTALL)
DECIMAL = re.compile(rb"1\.6\d{9,17}")


def canaries(data: bytes) -> set[tuple[str, str]]:
    """Return (agent, kind) of all canaries in some bytes, in either byte order or written out."""
    found = {(match[1][0], match[2][0]) for match in BIG.finditer(data)}
    found |= {(match[2][0], match[1][0]) for match in LITTLE.finditer(data)}
    for match in DECIMAL.finditer(data):
        bits = struct.pack(">d", float(match[0]))
        if bits[:3] == b"\x3f\xfa\xca":
            found.add((bits[3], bits[4]))
    return {(AGENTS.get(agent, "?"), KINDS.get(kind, "?")) for agent, kind in found}


def carry_out(folder: Path, steps: int) -> dict[str, bytes]:
    """Carry out the run; return name of a participant -> all that it got, gave, and could look up."""
    for name, text in (("world", WORLD), ("mind", MIND), ("canary", CANARY)):
        (folder / f"{name}.py").write_text(text)
    (folder / "run.yml").write_text(DOCUMENT.replace("STEPS", str(steps)))
    for name in ("frames", "recorder"):
        (folder / name).mkdir()
    (folder / "recorder" / "sitecustomize.py").write_text(RECORDER)
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder / "recorder"), os.environ["PYTHONPATH"]]),
        "AUDIT_FOLDER": str(AUDIT),
        "RECORD_FOLDER": str(folder / "frames"),
        "PGPASSWORD": PASSWORD,
        "GANGLION_STORE": f"sqlite:///{folder}/{PASSWORD}.db",
    }
    done = subprocess.run(
        [GANGLION, "run", "run.yml", "--quiet"], cwd=folder, env=variables, capture_output=True, text=True, timeout=3600
    )
    assert 0 == done.returncode, done.stderr
    found = {}
    for path in (folder / "frames").iterdir():
        data = path.read_bytes()
        name = re.search(rb"isolation-1/([a-z]+(/[a-z]+)?(/\d)?)", data)
        assert name is not None
        found[name[1].decode()] = data
    return found


def files_of(folder: Path, agent: str) -> dict[str, bytes]:
    """Return the files of a run that belong to an agent: logs of its processes, its models."""
    results = folder / "results" / "isolation-1"
    return {
        str(path.relative_to(results)): path.read_bytes()
        for path in results.rglob("*")
        if path.is_file() and {agent} & {*path.relative_to(results).parts, *path.name.split(".")}
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the run."""
    return tmp_path_factory.mktemp("isolation")


@pytest.fixture(scope="module")
def seen(folder: Path) -> dict[str, bytes]:
    """Carry out the run once."""
    return carry_out(folder, 10)


def test_nothing_foreign_is_seen(folder: Path, seen: dict[str, bytes]) -> None:
    """No canary of another agent reaches an agent's muscles and brain, their logs, models or variables."""
    everything = {(agent, kind) for agent in AGENTS.values() for kind in KINDS.values()}
    expected = {"controller/0", "controller/1", "governor", "store"}
    expected |= {f"muscle/{agent}/{worker}" for agent in AGENTS.values() for worker in (0, 1)}
    expected |= {f"environment/{uid}/{worker}" for uid in ("both", "hers", "his") for worker in (0, 1)}
    expected |= {f"brain/{agent}" for agent in AGENTS.values()}
    assert expected == set(seen)
    for name, data in seen.items():
        role, _, uid = name.partition("/")
        owner = {"ada": "ada", "bob": "bob", "hers": "ada", "his": "bob"}.get(uid.partition("/")[0])
        found = canaries(data)
        if role == "controller":
            assert everything == found
        elif owner is not None:
            own = {kind for kind in everything if kind[0] == owner}
            assert own == found, name
            for path, content in files_of(folder, owner).items():
                assert set() == {kind for kind in canaries(content) if kind[0] != owner}, path
    for agent in AGENTS.values():
        assert any("npz" in path for path in files_of(folder, agent))
        assert any("log" in path for path in files_of(folder, agent))


def test_nobody_outside_the_kernel_knows_the_run(folder: Path, seen: dict[str, bytes]) -> None:
    """Neither seed nor document nor database is in anything that environments, muscles and brains can read."""
    secrets = {
        "seed as text": str(SEED).encode(),
        "seed, big": SEED.to_bytes(8, "big"),
        "seed, little": SEED.to_bytes(8, "little"),
        "document": SECRET.encode(),
        "database": PASSWORD.encode(),
        "store": b"GANGLION_STORE",
        "results": b"GANGLION_RESULTS",
    }
    for name, data in seen.items():
        found = [what for what, secret in secrets.items() if secret in data]
        if name.startswith(("muscle", "environment", "brain")):
            assert [] == found, name
    assert b"PATH" in seen["brain/ada"]  # variables were recorded
    assert any(secret in seen["governor"] for secret in list(secrets.values())[:3])  # where it has to be, it is found
    manifest = (folder / "results" / "isolation-1" / "manifest.json").read_text()
    assert str(SEED) == str(json.loads(manifest)["seed"])
