"""Controllers of one's own: from a module beside the document, with workers that learn together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulation import Outcome, simulate

from ganglion.sdk.seed import integer_from_words, words

OWN = '''\
import json
from pathlib import Path

from ganglion.sdk import ActuatorInformation, Brain, Controller, Discrete, Environment, EpisodeEnded, Muscle
from ganglion.sdk import RewardInformation, SensorInformation

COUNT = Discrete(100)


class Road(Environment):
    """Count to `length`, which each worker may have for itself; whoever drives is rewarded by the count."""

    def __init__(self, length=6):
        super().__init__()
        self.length = length

    def start_environment(self):
        self.count = 0
        return [SensorInformation(0, COUNT, "s")], [ActuatorInformation(0, COUNT, uid) for uid in "abc"]

    def update(self, actuators):
        self.count += 1
        rewards = [RewardInformation(self.count, COUNT, "r")]
        return [SensorInformation(self.count, COUNT, "s")], rewards, self.count == self.length


class Obedient(Muscle):
    """Set what the brain sent last."""

    value = 0

    def update(self, update):
        self.value = update

    def propose_actions(self, sensors, actuators_available):
        for actuator in actuators_available:
            actuator(self.value)
        return actuators_available


class Sequential(Brain):
    """Send a number that depends on all rows so far and on their order."""

    value = 7

    def thinking(self, muscle_id, data_from_muscle):
        if len(self.memory):
            worker = int(muscle_id.rpartition("/")[2])
            reward = int(self.memory.tail(1).rewards.values[0][0])
            self.value = (31 * self.value + 7 * worker + reward) % 97
        return self.value


class Staggered(Controller):
    """Let each agent act in its own steps, other ones in each worker and episode, and announce nothing."""

    async def advance(self):
        now = self.step + self.worker + self.episode
        acting = [agent for index, agent in enumerate(self.agents) if now % (index + 2) == 0]
        setpoints = await self.act(acting) if acting else {}
        await self.update(setpoints, acting)


class Witness(Controller):
    """Write down all that a controller has."""

    def __init__(self, note):
        super().__init__()
        self.rows = [self.look()]
        self.rows[0]["note"] = note

    def look(self):
        return {
            "agents": list(self.agents), "environments": list(self.environments), "readings": dict(self.readings),
            "rewards": dict(self.rewards), "step": self.step, "episode": self.episode, "worker": self.worker,
            "mode": self.mode, "seed": self.seed, "params": dict(self.params), "draw": float(self.rng.random()),
        }

    async def simulate(self):
        self.rows.append(self.look())
        try:
            while True:
                setpoints = await self.act(self.agents)
                result = await self.update(setpoints, self.agents)
                self.rows.append({**self.look(), "result": [result.step, dict(result.readings), dict(result.rewards)]})
        except EpisodeEnded as ended:
            self.rows.append({"ended": ended.reason})
            Path("witness.json").write_text(json.dumps(self.rows))
            raise


class Broken(Controller):
    """Fail in worker 1 after two steps."""

    async def advance(self):
        if self.worker == 1 and self.step == 2:
            raise LookupError("the map is lost")
        await self.update(await self.act(self.agents), self.agents)


class Twice(Controller):
    """Ask an agent twice."""

    async def simulate(self):
        await self.update(await self.act(self.agents), self.agents)
        await self.act(self.agents[:1])
        await self.act(self.agents)
'''
DOCUMENT = """\
uid: own
seed: 5
version: "0.1"
schedule:
  - drive:
      environments:
        - environment: {uid: road, name: "own:Road", per_worker: [{length: 6}, {length: 9}, {length: 4}]}
      agents:
        - {name: ada, brain: "own:Sequential", muscle: "own:Obedient", sensors: [road.s], actuators: [road.a]}
        - {name: bob, brain: "own:Sequential", muscle: "own:Obedient", sensors: [road.s], actuators: [road.b]}
        - {name: cyd, brain: "own:Sequential", muscle: "own:Obedient", sensors: [road.s], actuators: [road.c]}
      simulation: CONTROLLER
      phase_config: {worker: WORKERS, episodes: 3, sync: SYNC}
run_config: {condition: vanilla}
recovery: {deadlines_s: {think: 20}}
"""
LENGTHS = [6, 9, 4]
AGENTS = ["ada", "bob", "cyd"]


@pytest.fixture
def run(beside: Callable[[str, str], None], results: Path) -> Callable[..., Outcome]:
    """Return what carries the document out with a controller."""
    beside("own", OWN)

    def carry_out(controller: str, workers: int = 3, sync: str = "lockstep", seed: int = 1) -> Outcome:
        text = DOCUMENT.replace("CONTROLLER", controller).replace("WORKERS", str(workers)).replace("SYNC", sync)
        return simulate(text, seed, results)

    return carry_out


def staggered(worker: int, episode: int, agent: int) -> list[int]:
    """Return the counts of the road at which an agent decides."""
    return [step for step in range(LENGTHS[worker]) if (step + worker + episode) % (agent + 2) == 0]


@pytest.mark.parametrize("sync", ["lockstep", "pipelined"])
def test_workers_whose_agents_act_in_different_steps_learn_together(run: Callable[..., Outcome], sync: str) -> None:
    """Nobody waits for who does not act; decisions, rewards and what was learnt are the same in any schedule."""
    outcome, other = (run("{name: 'own:Staggered'}", sync=sync, seed=seed) for seed in (1, 2))
    actions = outcome.tables["actions"]

    assert "finished" == outcome.status, outcome.reason
    assert [
        (worker, agent, episode, count, count + 1)
        for worker in range(3)
        for index, agent in enumerate(AGENTS)
        for episode in range(3)
        for count in staggered(worker, episode, index)
    ] == [
        (row["worker"], row["agent"], row["episode"], row["sensors"]["road.s"], row["rewards"]["road.r"])
        for row in actions
    ]
    assert [*LENGTHS] * 3 == [
        row["steps"] for row in sorted(outcome.tables["episodes"], key=lambda r: (r["episode"], r["worker"]))
    ]
    assert actions == other.tables["actions"]
    assert len({value for row in actions for value in row["setpoints"].values()}) > 10  # what was learnt came through


def test_a_controller_has_all_that_is_promised(run: Callable[..., Outcome]) -> None:
    """In its constructor, at the beginning and after each step; its stream is that of its documented path."""
    assert "finished" == run("{name: 'own:Witness', params: {note: here}}", workers=1).status
    rows = json.loads(Path("witness.json").read_text())
    stream = words(5, ["phase", "drive", "train", "controller", "worker", 0])
    made, begun, *steps, ended = rows[:2] + rows[-6:]  # those of the last of three episodes
    names = {"agents": AGENTS, "environments": ["road"], "worker": 0, "mode": "train", "params": {"note": "here"}}

    for row in (made, begun, *steps):
        assert names | {"seed": integer_from_words(stream)} == {key: row[key] for key in [*names, "seed"]}
    assert ("here", 0, 0, {}, {}) == (
        made["note"], made["step"], made["episode"], made["readings"], made["rewards"]
    )  # fmt: skip
    nothing: dict[str, Any] = {}
    zero = {agent: [0] for agent in AGENTS}
    assert (0, 0, zero, nothing) == (begun["step"], begun["episode"], begun["readings"], begun["rewards"])
    assert [(2, n, {agent: [n] for agent in AGENTS}) for n in range(1, 6)] == [
        (row["episode"], row["step"], row["readings"]) for row in steps
    ]
    assert [{agent: [n] for agent in AGENTS} for n in range(1, 6)] == [row["rewards"] for row in steps]
    assert [[row["step"], row["readings"], row["rewards"]] for row in steps] == [row["result"] for row in steps]
    assert {"ended": "terminated"} == ended
    assert len({row["draw"] for row in rows if "draw" in row}) == len([row for row in rows if "draw" in row])


@pytest.mark.parametrize(
    ("controller", "workers", "texts"),
    [
        ("Broken", 2, ["controller (worker 1), class Broken, step 2, hook simulate", "LookupError: the map is lost"]),
        (
            "Twice",
            1,
            ["controller (worker 0), class Twice, step 1, hook simulate", "agent ada is asked twice in step 2"],
        ),
    ],
)
def test_a_controller_that_fails_is_named(
    run: Callable[..., Outcome], controller: str, workers: int, texts: list[str]
) -> None:
    """Exit status 1, with class, worker, step, and the line of its module; steps before it are stored."""
    outcome = run(f"{{name: 'own:{controller}'}}", workers=workers)
    said = str(outcome.ended.failure)

    assert (1, ["failed"]) == (outcome.exit_status, [row["status"] for row in outcome.tables["runs"]])
    for text in [*texts, "own.py", "line "]:
        assert text in said
    steps = [row["step"] for row in outcome.tables["steps"] if row["worker"] == workers - 1]
    assert ([1, 2] if controller == "Broken" else [1]) == steps
