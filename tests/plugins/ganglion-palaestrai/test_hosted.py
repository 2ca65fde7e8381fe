"""palaestrAI's own classes in runs of ours; skipped where it is not installed (`scripts/setup --with palaestrai`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from system.command import GANGLION, ganglion
from system.results import table, unnamed

pytest.importorskip("palaestrai", reason="palaestrAI is not installed: scripts/setup --with palaestrai")
pytestmark = pytest.mark.long

SPAN_S = 600.0  # torch alone takes ten seconds to import on a slow machine, in each process

DUMMY = """\
uid: dummies
seed: 42
version: "3.5"
palaestrai: real
schedule:
  - phase_0:
      environments:
        - environment: {name: "palaestrai.environment:DummyEnvironment", uid: world, params: {discrete: true}}
      agents:
        - name: one
          brain: {name: "palaestrai.agent.dummy_brain:DummyBrain", params: {}}
          muscle: {name: "palaestrai.agent.dummy_muscle:DummyMuscle", params: {}}
          objective: {name: "palaestrai.agent.dummy_objective:DummyObjective", params: {params: 1}}
          sensors: [world.0, world.1]
          actuators: [world.0, world.1]
        - name: two
          brain: {name: "palaestrai.agent:DummyBrain", params: {}}
          muscle: {name: "palaestrai.agent:DummyMuscle", params: {}}
          objective: {name: "palaestrai.agent:DummyObjective", params: {params: 1}}
          sensors: [world.2]
          actuators: [world.3]
      simulation: {name: vanilla, conditions: [{name: environment}]}
      phase_config: {mode: train, worker: 1, episodes: 2}
run_config: {condition: {name: vanilla}}
"""


def run(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a document, and hold it to success."""
    (folder / "run.yml").write_text(text)
    found = ganglion(folder, "run", "run.yml", *arguments, span_s=SPAN_S)
    assert found.returncode == 0, found.stdout + found.stderr
    return found


def test_their_dummies_come_out_as_ours(tmp_path: Path) -> None:
    """Environment, brains, muscles and objectives of palaestrAI make the episodes that its own dummies make."""
    run(tmp_path, DUMMY)

    rows = table(tmp_path, "actions")

    sums = {(agent, e): sum(r["objective"] for r in rows if (r["agent"], r["episode"]) == (agent, e))
            for agent in ("one", "two") for e in (0, 1)}  # fmt: skip
    assert sums == dict.fromkeys(sums, 45.0)
    assert [row["steps"] for row in table(tmp_path, "episodes")] == [10, 10]


FILTERS = """\
uid: filters
seed: 42
version: "3.5"
palaestrai: real
schedule:
  - phase_0:
      environments:
        - environment:
            {name: "palaestrai.environment:DummyEnvironment", uid: world, params: {discrete: false, max_iter: 8}}
      agents:
        - name: one
          brain: {name: "palaestrai.agent:DummyBrain", params: {}}
          muscle: {name: "palaestrai.agent:DummyMuscle", params: {}}
          objective: {name: "palaestrai.agent:DummyObjective", params: {params: 1}}
          filters: [{name: "palaestrai.agent:FIRSTFilter"}, {name: "palaestrai.agent:SECONDFilter"}]
          sensors: [world.0, world.1]
          actuators: [world.0, world.1]
      simulation: {name: "palaestrai.simulation:TakingTurns", conditions: [{name: environment}]}
      phase_config: {mode: train, worker: 1, episodes: 1}
run_config: {condition: {name: vanilla}}
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Norm", "MergeSteps"),
        ("DeltaObs", "DeltaStep"),
        ("AbsoluteDeviation", "DeltaAction"),
        ("QuadraticPenalty", "Norm"),
    ],
)
def test_their_filters_do_what_ours_do(tmp_path: Path, first: str, second: str) -> None:
    """A chain of palaestrAI's filters leaves the same rows as the chain of ours that bear their names."""
    text = FILTERS.replace("FIRST", first).replace("SECOND", second)
    run(tmp_path, text)
    theirs = table(tmp_path, "actions")
    for name in ("environment:DummyEnvironment", "agent:DummyBrain", "agent:DummyMuscle", "agent:DummyObjective"):
        text = text.replace(f"palaestrai.{name}", f"ganglion-palaestrai:palaestrai.{name}")
    run(tmp_path, text.replace("palaestrai: real\n", ""))

    ours = table(tmp_path, "actions")

    assert len(theirs) == 8
    assert unnamed(ours) == unnamed(theirs)


AUTHORS = """\
import numpy as np
import sqlalchemy
from palaestrai.agent import DummyBrain, EvaluationResult, RewardInformation, SensorInformation
from palaestrai.environment import EnvironmentState, EnvironmentStateTransformer, Reward
from palaestrai.experiment import TerminationCondition
from palaestrai.simulation import SimulationController
from palaestrai.simulation.simulation_controller import FlowControlChange
from palaestrai.store import Session
from palaestrai.store.query import make_muscles_cumulative_objective_query
from palaestrai.types import Box, SimulationFlowControl

SPACE = Box(low=[-1000.0], high=[1000.0], dtype=np.float64)

class Paid(Reward):
    def __init__(self, factor):
        super().__init__(factor=factor)
        self.factor = factor

    def __call__(self, state):
        total = sum(float(np.sum(it.value)) for it in state.sensor_information)
        return [RewardInformation(np.array([self.factor * total]), SPACE, "paid")]

class Compared(Reward):
    def __call__(self, sensors, actuators):
        total = sum(float(np.sum(it.value)) for it in sensors) - sum(float(np.sum(it.value)) for it in actuators)
        return [RewardInformation(np.array([total]), SPACE, "compared")]

class Shifted(EnvironmentStateTransformer):
    def __init__(self, by):
        self.by = by

    def __call__(self, state):
        shown = [SensorInformation(int(np.asarray(it.value).item()) + self.by, it.space, it.uid)
                 for it in state.sensor_information]
        return EnvironmentState(shown, state.rewards, state.done, world_state={"by": self.by}, simtime=state.simtime)

class Enough(TerminationCondition):
    def __init__(self, limit, episodes):
        super().__init__()
        self.limit, self.episodes, self.seen = limit, episodes, 0

    def brain_flow_control(self, brain, message):
        enough = float(np.nansum(brain.memory.tail(10).objective)) >= self.limit
        return SimulationFlowControl.RESET if enough else SimulationFlowControl.CONTINUE, {}

    def phase_flow_control(self, run_governor, message):
        self.seen += 1
        return SimulationFlowControl.STOP_PHASE if self.seen >= self.episodes else SimulationFlowControl.RESET, {}

class Backwards(SimulationController):
    async def simulate(self):
        while self.is_running:
            for agent in reversed(list(self._agents.values())):
                try:
                    answers = await self.act([agent])
                    await self.step([agent], answers[0].actuators)
                except FlowControlChange:
                    return

class Judging(DummyBrain):
    def evaluate_rollouts(
        self, experiment_run_uid, experiment_run_instance_uid, experiment_run_phase, agent_name, episode
    ):
        sums = make_muscles_cumulative_objective_query(
            experiment_run_uids=[experiment_run_uid], experiment_run_instance_uids=[experiment_run_instance_uid],
            experiment_run_phase_numbers=[experiment_run_phase], modes=["evaluate"],
            muscle_action_episodes=[episode], agent_names=[agent_name],
        ).subquery()
        with Session() as session:
            score = session.execute(sqlalchemy.select(sqlalchemy.func.sum(sums.c.muscle_cumulative_objective)))
            return EvaluationResult(metrics={"score": float(score.scalar_one())}, checkpoint_id=f"best-{episode}")
"""
FLOW = """\
uid: flow
seed: 42
version: "3.5"
schedule:
  - phase_0:
      environments:
        - environment: &dummy
            name: "ganglion-palaestrai:palaestrai.environment:DummyEnvironment"
            uid: world
            params: {discrete: true, max_iter: 10}
          reward: {name: "authors:Paid", params: {factor: 2.0}}
          state_transformer: {name: "authors:Shifted", params: {by: 3}}
        - environment: {<<: *dummy, uid: other}
          reward: {name: "authors:Compared", params: {}}
      agents:
        - name: one
          brain: {name: "palaestrai.agent:DummyBrain", params: {}}
          muscle: {name: "palaestrai.agent:DummyMuscle", params: {}}
          objective: {name: "palaestrai.agent:DummyObjective", params: {params: 1}}
          sensors: [world.0]
          actuators: [world.0]
        - name: two
          brain: {name: "palaestrai.agent:DummyBrain", params: {}}
          muscle: {name: "palaestrai.agent:DummyMuscle", params: {}}
          objective: {name: "palaestrai.agent:DummyObjective", params: {params: 1}}
          sensors: [other.2]
          actuators: [other.2]
      simulation:
        name: "authors:Backwards"
        conditions: [&enough {name: "authors:Enough", params: {limit: 6, episodes: 3}}]
      phase_config: {mode: train, worker: 1, episodes: 9}
run_config: {condition: *enough}
"""


def test_authors_rewards_transformers_conditions_and_controllers_are_played(tmp_path: Path) -> None:
    """The reward of a state and that of readings and setpoints pay, the transformer shows, who is last acts first."""
    (tmp_path / "authors.py").write_text(AUTHORS)
    run(tmp_path, FLOW)

    steps = table(tmp_path, "steps")
    world = [row for row in steps if (row["environment"], row["episode"]) == ("world", 0)]
    other = [row for row in steps if (row["environment"], row["episode"]) == ("other", 0)]

    assert len({row["episode"] for row in steps}) == 3  # the condition ends the phase, not the number of episodes
    assert [row["sensors"]["world.0"] for row in world] == [4, 5]  # 1 and 2, shown with 3 more
    assert [row["rewards"]["world.paid"] for row in world] == [[20.0], [40.0]]
    assert [row["world_state"] for row in world] == [{"by": 3}] * 2
    acted = other[0]["setpoints"]["other.2"]
    assert other[0]["rewards"]["other.compared"][0] == 10.0 - acted  # agent two has the first step, agent one the next
    assert [set(row["setpoints"]) for row in world] == [set(), {"world.0"}]


def test_a_brain_finds_its_evaluation_where_palaestrais_store_would_be(tmp_path: Path) -> None:
    """Queries of palaestrAI's store return the objectives of the evaluation, of all its episodes and of no other."""
    (tmp_path / "authors.py").write_text(AUTHORS)
    text = DUMMY.replace("palaestrai.agent.dummy_brain:DummyBrain", "authors:Judging")
    run(tmp_path, text.replace("episodes: 2", "episodes: 4, evaluate_every: 2, evaluate_episodes: 2"))

    found = [row for row in table(tmp_path, "evaluations") if row["agent"] == "one"]

    assert [row["metrics"]["score"] for row in found] == [90.0, 90.0]
    assert [row["brain"] for row in found] == ["best-0", "best-1"]


LEARNING = """\
uid: learning
seed: 7
version: "3.5"
schedule:
  - training:
      environments:
        - environment:
            name: "palaestrai_environments.gym:GymEnvironment"
            uid: world
            params: {env_name: ENV, conversion: null, reward_space: null, max_episode_steps: 40}
      agents:
        - name: hand
          brain: {name: "harl.BRAIN", params: PARAMS}
          muscle: {name: "harl.MUSCLE", params: {}}
          objective: {name: "palaestrai.agent:DummyObjective", params: {params: 1}}
          sensors: [world.0]
          actuators: [world.0]
      simulation:
        name: "palaestrai.simulation:Vanilla"
        conditions: [{name: "palaestrai.experiment:EnvironmentTerminationCondition", params: {}}]
      phase_config: {mode: train, worker: 2, episodes: 3}
  - testing:
      phase_config: {mode: test, worker: 1, episodes: 1}
run_config: {condition: {name: "palaestrai.experiment:MaxEpisodesTerminationCondition", params: {}}}
"""
# CartPole with a force as action, for the three learners that act in boxes alone; Gymnasium imports it by its id.
BOXED = """\
import gymnasium
import numpy as np


class Boxed(gymnasium.ActionWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def action(self, force):
        return int(force[0] > 0)


gymnasium.register("BoxedCartPole-v1", lambda **params: Boxed(gymnasium.make("CartPole-v1", **params)))
"""
BOXED_ID = "boxed_cartpole:BoxedCartPole-v1"
OFF_POLICY = "{fc_dims: [16, 16], update_after: 32, batch_size: 16, update_every: 16}"
LEARNERS = {
    "ppo": ("ppo.brain:PPOBrain", "ppo.muscle:PPOMuscle", BOXED_ID,
            "{rollout_size: 32, epochs: 2, batch_size: 16, fc_dims: [16, 16]}"),
    "sac": ("sac.brain:SACBrain", "sac.muscle:SACMuscle", "CartPole-v1", OFF_POLICY),
    "ddpg": ("ddpg.brain:DDPGBrain", "off_policy.muscle:OffPolicyMuscle", BOXED_ID, OFF_POLICY),
    "td3": ("td3.brain:TD3Brain", "off_policy.muscle:OffPolicyMuscle", BOXED_ID, OFF_POLICY),
}  # fmt: skip


def learning(name: str, folder: Path) -> str:
    """Return the document of a learner, two workers train, then one tests; what it imports is beside it."""
    (folder / "boxed_cartpole.py").write_text(BOXED)
    brain, muscle, world, params = LEARNERS[name]
    text = LEARNING.replace("BRAIN", brain).replace("MUSCLE", muscle).replace("ENV", world).replace("PARAMS", params)
    return text if name == "ppo" else text.replace('Muscle", params: {}', 'Muscle", params: {start_steps: 20}')


@pytest.mark.parametrize("name", LEARNERS)
def test_their_learners_train_and_are_tested(tmp_path: Path, name: str) -> None:
    """Two workers feed a brain that updates; its dumps are there by their tags, and a later phase acts by them."""
    run(tmp_path, learning(name, tmp_path))

    episodes = table(tmp_path, "episodes")
    tested = [row for row in table(tmp_path, "actions") if row["phase"] == 1]
    stored = {path.stem.removeprefix("model-") for path in (tmp_path / "results").rglob("model-*.npz")}

    assert sorted((row["phase"], row["worker"], row["episode"]) for row in episodes) == [
        *((0, worker, episode) for worker in (0, 1) for episode in (0, 1, 2)), (1, 0, 0)
    ]  # fmt: skip
    assert len(tested) == next(row["steps"] for row in episodes if row["phase"] == 1)
    assert {f"{name}_actor", f"{name}_critic", "policy"} <= stored, stored


ROLES = ("environment/world/0", "muscle/hand/1", "brain/hand", "controller/0", "governor", "store", "broker")


def test_a_run_of_theirs_outlives_the_loss_of_each_role(tmp_path: Path) -> None:
    """One process after the other is killed while PPO trains; the rows are those of an undisturbed run."""
    run(tmp_path, learning("ppo", tmp_path))
    undisturbed = unnamed(table(tmp_path, "actions"))
    with (tmp_path / "out.txt").open("wb") as out:
        process = subprocess.Popen([GANGLION, "run", "run.yml"], cwd=tmp_path, stdout=out, stderr=out)
    lost: list[str] = []
    deadline_s = time.monotonic() + SPAN_S
    while process.poll() is None and time.monotonic() < deadline_s:
        text = (tmp_path / "out.txt").read_text()
        back = text.count("peer.restarted") + text.count("broker.restarted")
        if len(lost) < len(ROLES) and "phase.started" in text and back >= len(lost):
            rows = json.loads(ganglion(tmp_path, "ps", "--json").stdout or "[]")
            found = [row["pid"] for row in rows if str(row["name"]).endswith(ROLES[len(lost)]) and row["pid"]]
            if found:
                os.kill(found[0], signal.SIGKILL)
                lost.append(ROLES[len(lost)])
        time.sleep(0.3)
    assert process.wait(timeout=SPAN_S) == 0, (tmp_path / "out.txt").read_text()[-3000:]

    assert len(lost) >= 4, f"the run was over after the loss of {lost}"
    assert unnamed(table(tmp_path, "actions")) == undisturbed
