"""Classes written in the style of palaestrAI, run on the bus after a change of their imports alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulation import simulate

PORTED = '''\
"""Classes in the style of palaestrAI; only their imports are ours."""

import io

import numpy as np

from ganglion_palaestrai.agent import Brain, BrainDumper, Muscle, Objective
from ganglion_palaestrai.agent import ActuatorInformation, RewardInformation, SensorInformation
from ganglion_palaestrai.environment import Environment, EnvironmentBaseline, EnvironmentState, Reward
from ganglion_palaestrai.experiment import TerminationCondition
from ganglion_palaestrai.types import Box, Discrete, SimTime, SimulationFlowControl


class Tank(Environment):
    """A tank whose level is what is let in, up to a horizon."""

    def __init__(self, uid, broker_uri, seed, horizon=6, **kwargs):
        super().__init__(uid, broker_uri, seed)
        self.horizon = horizon
        self.rng = np.random.RandomState(seed % 2**32)

    def start_environment(self):
        self.tick, self.level = 0, 0.0
        valve = ActuatorInformation(setpoint=0, action_space=Discrete(3), actuator_id="valve")
        return EnvironmentBaseline(
            sensors_available=self.sense(), actuators_available=[valve], simtime=SimTime(simtime_ticks=0)
        )

    def sense(self):
        return [
            SensorInformation(
                sensor_value=self.level, observation_space=Box(0.0, 100.0, shape=()), sensor_id="level"
            )
        ]

    def update(self, actuators):
        self.tick += 1
        self.level += sum(a.setpoint for a in actuators if a.actuator_id == "valve")
        done = self.tick >= self.horizon
        state = EnvironmentState(
            sensor_information=self.sense(), rewards=[], done=done, world_state={"tick": self.tick}
        )
        state.rewards = [self.reward(state)]
        return state


class Level(Reward):
    """The level, scaled."""

    def __call__(self, *states):
        level = states[-1].sensor_information[0]
        return RewardInformation(
            reward_value=self._parameters["scale"] * level.sensor_value,
            observation_space=Box(0.0, 1000.0, shape=()),
            reward_id="level",
        )


class Counter(Muscle):
    """Open the valve as far as the brain says."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.opening = 0
        self.prepared = False

    def propose_actions(self, sensors, actuators_available):
        assert sensors[0].observation_space.contains(sensors[0].sensor_value)
        for actuator in actuators_available:
            actuator(self.opening % actuator.action_space.n)
        return actuators_available, {"level": sensors[0].sensor_value}

    def update(self, update):
        self.opening = update["opening"]

    def prepare_model(self):
        bio = self.load("opening")
        assert bio is not None, "there is no dump"
        self.opening = int.from_bytes(bio.read(), "little")


class Learner(Brain):
    """Open further with each decision; keep the number as bytes."""

    def __init__(self, first=1):
        super().__init__()
        self.opening = first

    def setup(self):
        self._memory.size_limit = 100
        assert self.actuators[0].action_space.n == 3

    def thinking(self, muscle_id, data_from_muscle):
        if data_from_muscle is not None:
            self.opening += 1
            assert len(self.memory.tail(3).objective) >= 1
        return {"opening": self.opening}

    def store(self):
        for tag in (None, "opening"):
            BrainDumper.store_brain_dump(io.BytesIO(bytes([self.opening])), self._dumpers, tag)

    def load(self):
        self.opening = BrainDumper.load_brain_dump(self._dumpers).read()[0]


class Summed(Objective):
    """The sum of the rewards, from the second decision on."""

    def __init__(self, params):
        super().__init__(params)
        self.factor = params["factor"]

    def internal_reward(self, memory, **kwargs):
        rewards = memory.tail(1).rewards
        if len(memory) < 2:  # of a phase
            return np.array([])
        return rewards.sum(axis=1)[0] * self.factor


class Full(TerminationCondition):
    """End an episode whose objectives reach a sum; end the phase when every worker had `episodes`."""

    def __init__(self, total=1e9, episodes=2):
        super().__init__()
        self.total, self.episodes = total, episodes

    def brain_flow_control(self, brain, message):
        if sum(brain.memory.tail(1000).objective) >= self.total:
            return SimulationFlowControl.RESET, {"name": brain.name}
        return SimulationFlowControl.CONTINUE, None

    def check_termination(self, message, component=None):
        return message.is_terminal

    def phase_flow_control(self, run_governor, message):
        counts = dict(run_governor.current_episode_counts)
        counts[message.sender] += 1
        if min(counts.values()) >= self.episodes:
            return SimulationFlowControl.STOP_PHASE, None
        return SimulationFlowControl.CONTINUE, None
'''

DOCUMENT = """\
uid: ported
seed: 3
version: "3.5"
schedule:
  - train:
      environments:
        - environment: {uid: tank, name: "ported:Tank", params: {horizon: 6}}
          reward: {name: "ported:Level", params: {scale: 2.0}}
      agents:
        - name: one
          brain: {name: "ported:Learner", params: {first: 1}}
          muscle: {name: "ported:Counter", params: {}}
          objective: {name: "ported:Summed", params: {factor: 0.5}}
          sensors: [tank.level]
          actuators: [tank.valve]
      simulation: {name: "palaestrai.simulation:Vanilla", conditions: [{name: "ported:Full", params: {total: 22}}]}
      phase_config: {mode: train, worker: 1}
  - test:
      phase_config: {mode: test}
run_config: {condition: {name: "ported:Full", params: {episodes: 2}}}
"""


@pytest.mark.filterwarnings("ignore:.* is called:DeprecationWarning")
def test_ported_classes_train_and_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment, reward, brain, muscle, objective and condition run; the test acts by the dump of the training."""
    (tmp_path / "ported.py").write_text(PORTED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("GANGLION_ALLOW", "ported")
    outcome = simulate(DOCUMENT, 3, tmp_path)
    assert ("finished", []) == (outcome.status, outcome.defects), outcome.reason
    found = outcome.tables

    # The brain opens by one more with each decision; the valve is set modulo 3.
    train = [1, 2, 0, 1, 2, 0] * 2
    test = [13 % 3] * 12  # 1 and twelve decisions: what the dump holds
    assert train + test == [row["setpoints"]["tank.valve"] for row in found["actions"]]
    # The reward is twice the level after the step, the objective half of that; a phase's first decision has none.
    levels = [1, 3, 3, 4, 6, 6] * 2 + [1, 2, 3, 4, 5, 6] * 2
    assert [2.0 * level for level in levels] == [row["rewards"]["tank.level"] for row in found["actions"]]
    expected = [None if i in (0, 12) else float(level) for i, level in enumerate(levels)]
    assert expected == [row["objective"] for row in found["actions"]]
    assert [(6, "terminated")] * 4 == [(row["steps"], row["reason"]) for row in found["episodes"]]
    assert ["Full"] * 2 == [row["reason"] for row in found["phases"]]
