"""More recorded than memory is allowed: a run learns from it all the same, and one that would keep it all cannot."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from system.command import Command
from system.processes import below

from ganglion.sdk import Box, Discrete, Mode, SensorInformation, Session
from ganglion_replay import export_sessions

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform != "linux", reason="limits are set on others")]

SIDE, STEPS, SESSIONS = 64, 128, 384
SPAN_S = 900.0
ALLOWED_BYTES = SESSIONS * STEPS * SIDE * SIDE * 3 // 4
PARTS = """
from pathlib import Path

import numpy as np

from ganglion.sdk import ActuatorInformation, Box, Brain, Discrete, Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk import RewardInformation, SensorInformation

IMAGE = Box(0, 255, (64, 64, 3), np.uint8)


class Screen(Environment):
    def show(self):
        return [SensorInformation(np.zeros((64, 64, 3), np.uint8), IMAGE, "image")]

    def start_environment(self):
        return EnvironmentBaseline(self.show(), [ActuatorInformation(0, Discrete(2), "move")])

    def update(self, actuators):
        return EnvironmentState(self.show(), [RewardInformation(0.0, Box(-1.0, 1.0, ()), "r")], truncated=True)


class Clone(Brain):
    def __init__(self, keep=False):
        self.keep = keep

    def pretrain(self, sessions):
        sums, counts, kept, right, seen = np.zeros(2), np.zeros(2), [], 0, 0
        for turn in range(2):  # learns what the brightness of an image says, then sees how often that is right
            for session in sessions:
                batch = session.transitions()
                bright, moves = batch.observations.mean(axis=1), batch.actions[:, 0]
                if turn == 0:
                    np.add.at(sums, moves, bright)
                    np.add.at(counts, moves, 1)
                    kept += [batch.observations.copy()] if self.keep else []
                else:
                    found = np.abs(bright[:, None] - sums / counts).argmin(axis=1)
                    right += int((found == moves).sum())
                    seen += len(moves)
        Path("learned").write_text(f"{right} {seen}")

    def thinking(self, muscle_id, data):
        return None
"""
DOCUMENT = """
uid: wide
seed: 1
version: "0.1"
schedule:
  - begin:
      environments: [{environment: {uid: screen, name: "parts:Screen"}}]
      agents:
        - name: ada
          brain: {name: "parts:Clone", params: {keep: KEEP}}
          muscle: random
          sensors: [screen.image]
          actuators: [screen.move]
      recovery: {on_loss: fail}
      phase_config: {mode: train, episodes: 3}
  - learn:
      agents: [{name: ada, replay: [{path: kept, agent: ada}]}]
run_config: {condition: vanilla}
"""


def recorded() -> Iterator[Session]:
    """Yield sessions whose images are bright where the right move is 1."""
    rng = np.random.default_rng(1)
    for number in range(SESSIONS):
        moves = rng.integers(2, size=STEPS)
        shown = rng.integers(0, 128, (STEPS + 1, SIDE * SIDE * 3), np.uint8)
        shown[:-1] += (100 * moves[:, None]).astype(np.uint8)
        ends = np.arange(STEPS) == STEPS - 1
        yield Session(
            run="wide",
            phase=0,
            worker=0,
            agent="ada",
            environment="screen",
            body=0,
            episode=number,
            mode=Mode.TRAIN,
            sensors=[SensorInformation(None, Box(0, 255, (SIDE, SIDE, 3), np.uint8), "screen.image")],
            actuators=[SensorInformation(None, Discrete(2), "screen.move")],
            observations=shown,
            actions=moves[:, None],
            rewards=np.zeros((STEPS, 1)),
            reward_ids=["screen.r"],
            reward_spaces=[Box(-1.0, 1.0, ())],
            objectives=np.zeros(STEPS),
            terminated=np.zeros(STEPS, bool),
            truncated=ends,
            ticks=np.arange(STEPS),
        )


def limit(pid: int) -> bool:
    """Let a process have no more memory of its own than it has, and what is allowed."""
    has = int(Path(f"/proc/{pid}/statm").read_text().split()[5]) * resource.getpagesize()
    resource.prlimit(pid, resource.RLIMIT_DATA, (has + ALLOWED_BYTES,) * 2)
    return True


def carried_out(folder: Path, form: str, keep: bool) -> tuple[int, str]:
    """Export what was recorded and carry out a run whose processes are limited before they read it."""
    export_sessions(recorded(), folder / "kept", form)
    (folder / "parts.py").write_text(PARTS)
    (folder / "wide.yml").write_text(DOCUMENT.replace("KEEP", str(keep).lower()))
    more = {"ARROW_DEFAULT_MEMORY_POOL": "system"}  # others hold room that they do not need
    command = Command(folder, "run", "wide.yml", "--name", "wide", more=more, span_s=SPAN_S)
    command.until("phase.started")
    limited = {one.role for one in below(command.process.pid) if limit(one.pid)}
    assert {"governor", "brain", "store"} <= limited
    status, said = command.end()
    return status, f"{said}{command.events[-3:]}"


@pytest.mark.parametrize("form", ["parquet", "arrow", "minari", "minari-parquet"])
def test_four_times_the_memory_is_learned_from(tmp_path: Path, form: str) -> None:
    """Governor and brain have a quarter of what was recorded: all of it is copied, and learned from twice."""
    status, said = carried_out(tmp_path, form, keep=False)

    assert 0 == status, said
    right, seen = map(int, (tmp_path / "learned").read_text().split())
    assert SESSIONS * STEPS == seen
    assert right == seen


def test_the_limit_is_one(tmp_path: Path) -> None:
    """A brain that keeps all of it has no memory for that, which is told by name."""
    status, said = carried_out(tmp_path, "arrow", keep=True)

    assert 1 == status
    assert "brain ada" in said
    assert "MemoryError" in said
