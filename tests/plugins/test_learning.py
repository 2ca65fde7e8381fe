"""Learners on environments of other distributions really learn, and on what somebody else has done, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import (
    ActuatorInformation,
    Batch,
    Box,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Memory,
    Mode,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    Session,
    Transitions,
)
from ganglion.sdk.information import Template
from ganglion_learners.dqn.brain import DqnBrain
from ganglion_learners.dqn.muscle import DqnMuscle
from ganglion_learners.ppo.brain import PpoBrain
from ganglion_learners.ppo.muscle import PpoMuscle
from ganglion_learners.sac.brain import SacBrain
from ganglion_learners.sac.muscle import SacMuscle
from ganglion_learners.sarsa.brain import SarsaBrain
from ganglion_learners.sarsa.muscle import SarsaMuscle
from ganglion_sb3.brain import SB3Brain
from ganglion_sb3.muscle import SB3Muscle
from ganglion_toys.cartpole import CartPole
from ganglion_toys.pendulum import Pendulum

Policy = Callable[[np.ndarray], Sequence[float]]


def _balances(seen: np.ndarray) -> Sequence[float]:
    """Push to where the pole falls, and a little to where the cart is and goes."""
    position, speed, angle, turning = seen.tolist()
    return [float(angle + 0.5 * turning + 0.05 * position + 0.1 * speed > 0)]


def _swings(seen: np.ndarray) -> Sequence[float]:
    """Pump until the energy is that of standing upright, and hold it there."""
    cosine, sine, speed = seen.tolist()
    if cosine > 0.9:
        return [float(np.clip(-10.0 * sine - 2.0 * speed, -2.0, 2.0))]
    lacks = 15.0 - (0.5 * speed * speed + 15.0 * cosine)
    return [float(np.clip(lacks * np.sign(speed or 1.0), -2.0, 2.0))]


class Field:
    """An environment with agents that are made for it, and episodes in it."""

    def __init__(self, make: Callable[..., Any], world: type[Any], longest: int) -> None:
        self._make, self._world, self._longest = make, make(world, seed=1), longest
        baseline = self._world.start_environment()
        self.sensors = [SensorInformation(None, it.space, f"e.{it.uid}") for it in baseline.sensors_available]
        self.actuators = [ActuatorInformation(it.value, it.space, f"e.{it.uid}") for it in baseline.actuators_available]

    def brain(self, cls: type[Any], seed: int = 1, **params: Any) -> Any:
        brain = self._make(cls, seed=seed, **params)
        brain.sensors, brain.actuators, brain.name = self.sensors, self.actuators, "scout"
        brain.memory, brain.muscles = Memory(), ["scout/0"]
        brain.memory.declare(self.sensors, self.actuators)
        brain.setup()
        return brain

    def muscle(self, cls: type[Any], brain: Any, mode: Mode = Mode.TEST, seed: int = 42) -> Any:
        """Return a muscle with what a brain sends to one that joins."""
        muscle = self._make(cls, mode=mode, seed=seed)
        muscle.sensors, muscle.actuators = self.sensors, self.actuators
        muscle.setup()
        muscle.update(brain.initial_update("scout/0"))
        return muscle

    def learn(self, muscle: Any, brain: Any, episodes: int, seed: int) -> list[float]:
        """Return the returns of episodes in which a brain hears of each decision, and its muscle of updates."""
        sensors, actuators, draw = Template(self.sensors), Template(self.actuators), np.random.default_rng([seed, 1])
        returns: list[float] = []
        for episode in range(episodes):
            state: Any = self._world.reset(ResetRequest(episode, int(draw.integers(2**63))))
            readings, rewards, over = [it.value for it in state.sensors_available], [], False
            while not over:
                proposed, data = muscle.propose_actions(sensors.fill(readings), actuators.empty())
                state = self._world.update(proposed)
                row = {"sensor_readings": readings, "actuator_setpoints": [it.value for it in proposed]}
                readings = [it.value for it in state.sensor_information]
                rewards.append(float(state.rewards[0].value))
                truncated = not state.terminated and len(rewards) == self._longest
                over = state.terminated or truncated
                row |= {"next_readings": readings, "objective": rewards[-1], "decision_index": len(rewards) - 1}
                flags = {"terminated": state.terminated, "truncated": truncated, "dones": over}
                if brain is not None:
                    brain.memory.append("scout/0", **row, **flags, episode=episode, additional_data=data)
                    update = brain.thinking("scout/0", data)
                    if update is not None:
                        muscle.update(update)
            returns.append(sum(rewards))
        return returns

    def greedy(self, cls: type[Any], brain: Any) -> Policy:
        """Return the policy of a muscle in test mode."""
        muscle = self.muscle(cls, brain)
        zero = np.zeros(1, dtype=np.int64)

        def act(seen: np.ndarray) -> Sequence[float]:
            rows, _ = muscle.propose_batch(Batch(seen[None], {}, [("scout", 0)], zero, zero, Mode.TEST))
            return rows[0].tolist()

        return act

    def record(self, policy: Policy, episodes: int, chance: float = 0.0, first: int = 0) -> list[Session]:
        draw = np.random.default_rng(first)
        return [self._episode(policy, first + number, chance, draw) for number in range(episodes)]

    def returns(self, policy: Policy, episodes: int = 5) -> float:
        return float(np.mean([it.objectives.sum() for it in self.record(policy, episodes, first=1000)]))

    def _episode(self, policy: Policy, number: int, chance: float, draw: Any) -> Session:
        state: Any = self._world.reset(ResetRequest(number, number * 7919 << 20))
        space = self.actuators[0].space
        seen, actions, rewards = [self._vector(state.sensors_available)], [], []
        terminated = truncated = False
        while not terminated and not truncated:
            action = policy(seen[-1])
            if draw.random() < chance:
                action = space.to_vector(space.sample(draw))
            value = space.from_vector(np.asarray(action))
            state = self._world.update([ActuatorInformation(value, space, self.actuators[0].uid[2:])])
            seen.append(self._vector(state.sensor_information))
            actions.append(action)
            rewards.append(float(state.rewards[0].value))
            terminated = bool(state.terminated)
            truncated = not terminated and (bool(state.truncated) or len(actions) == self._longest)
        count = len(actions)
        flags = np.zeros((2, count), dtype=bool)
        flags[:, -1] = terminated, truncated
        return Session(
            run="past-1", phase=0, worker=0, agent="scout", environment="e", body=0, episode=number,
            mode=Mode.TEST, sensors=self.sensors, actuators=self.actuators, observations=np.array(seen),
            actions=np.array(actions), rewards=np.array(rewards)[:, None], reward_ids=["e.reward"],
            objectives=np.array(rewards), terminated=flags[0], truncated=flags[1], ticks=np.arange(count),
        )  # fmt: skip

    def _vector(self, readings: Any) -> np.ndarray:
        return np.concatenate([it.space.to_vector(it.value) for it in readings])


class Slot(Environment):
    """A carriage that is to stand in the middle: seen is where it stands, set how far it goes."""

    def start_environment(self) -> EnvironmentBaseline:
        return self.reset(ResetRequest(0, self.seed))

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        self.place = float(np.random.default_rng(request.seed).uniform(-1.0, 1.0))
        goes = ActuatorInformation(0.0, Box(-1.0, 1.0, ()), "goes")
        return EnvironmentBaseline([self._seen()], [goes])

    def _seen(self) -> SensorInformation:
        return SensorInformation(self.place, Box(-1.0, 1.0, ()), "place")

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        self.place = float(np.clip(self.place + 0.2 * float(actuators[0].value), -1.0, 1.0))
        reward = RewardInformation(-abs(self.place), Box(-1.0, 0.0, ()), "reward")
        return EnvironmentState([self._seen()], [reward], terminated=False)


def _centres(seen: np.ndarray) -> Sequence[float]:
    """Go to the middle."""
    return [float(np.clip(-5.0 * seen[0], -1.0, 1.0))]


@pytest.fixture
def pole(make: Callable[..., Any]) -> Field:
    """Return a pole to balance: one that stays up returns 200."""
    return Field(make, CartPole, 200)


@pytest.fixture
def slot(make: Callable[..., Any]) -> Field:
    """Return a slot to stand in the middle of."""
    return Field(make, Slot, 20)


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3, 5))])
def test_sarsa_learns_to_balance(pole: Field, seed: int) -> None:
    """In the demo's 40 episodes the last tenth returns more than twice the first, the last 20 more than 150."""
    brain = pole.brain(SarsaBrain, seed=seed)
    returns = pole.learn(pole.muscle(SarsaMuscle, brain, Mode.TRAIN, seed + 1000), brain, 40, seed)
    tested = pole.learn(pole.muscle(SarsaMuscle, brain), None, 5, seed + 1)

    assert np.mean(returns[-4:]) > 2 * np.mean(returns[:4])
    assert np.mean(returns[-20:]) > 150
    assert np.mean(tested) > 150
    assert sum(returns) <= 8_000


BODIES, TICKS = 64, 700


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_ppo_learns_from_many_bodies_to_balance(make, seed) -> None:
    """64 carts of one muscle, each with episodes of its own, are balanced for most of 500 steps in the end."""
    pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
    world = make(CartPole, seed=seed)
    world.bodies = bodies = [("a", "field", b) for b in range(BODIES)]
    pole = Field(make, CartPole, 500)
    brain = make(PpoBrain, seed=seed, rollout=2048, minibatch=256, learning_rate=0.001)
    muscle = make(PpoMuscle, seed=seed, mode=Mode.TRAIN)
    for part in (brain, muscle):
        part.sensors, part.actuators, part.bodies = pole.sensors, pole.actuators, bodies
    brain.name, brain.memory = "scout", Memory()
    brain.setup()
    muscle.setup()
    muscle.update(brain.initial_update("scout/0"))
    rng, every = np.random.default_rng(seed), np.arange(BODIES)
    world.rows = every
    seen = world.begin_batch(every, rng.integers(2**63, size=BODIES).tolist())["observation"]
    steps, lengths = np.zeros(BODIES, np.int64), []
    for _ in range(TICKS):
        batch = Batch(seen, {}, bodies, steps.copy(), steps, Mode.TRAIN)
        setpoints, data = muscle.propose_batch(batch)
        state = world.update_batch({"action": setpoints[:, 0]})
        following = state.readings["observation"]
        over = state.terminated | state.truncated
        update = brain.learn(
            Transitions(
                observations=seen,
                actions=setpoints,
                objectives=state.rewards["reward"],
                rewards=state.rewards["reward"][:, None],
                next_observations=following,
                terminated=state.terminated,
                truncated=state.truncated,
                muscle=["scout/0"] * BODIES,
                body=bodies,
                episode=steps,
                step=steps.copy(),
                data=data,
            )
        )
        if update is not None:
            muscle.update(update)
        steps += 1
        lengths += steps[over].tolist()
        steps[over] = 0
        seen = following.copy()
        if over.any():
            seen[over] = world.begin_batch(every[over], rng.integers(2**63, size=int(over.sum())).tolist())[
                "observation"
            ]

    assert np.mean(lengths[:100]) < 50
    assert np.mean(np.concatenate([lengths[-30:], steps])) > 200


def _before_and_after(field: Field, brain: Any, muscle: type[Any], sessions: Sequence[Session]) -> tuple[float, float]:
    """Return what the greedy policy returns untrained, and after `pretrain`."""
    pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
    before = field.returns(field.greedy(muscle, brain))
    brain.pretrain(sessions)
    return before, field.returns(field.greedy(muscle, brain))


def test_ppo_clones_who_balances(pole: Field) -> None:
    """Ten episodes of one who can are enough to balance nearly always; who has not seen them lets the pole fall."""
    brain = pole.brain(PpoBrain, pretrain_epochs=20)
    before, after = _before_and_after(pole, brain, PpoMuscle, pole.record(_balances, 10))

    assert before < 50
    assert after > 150
    assert 0 == brain.decisions


@pytest.mark.long
def test_who_is_not_cautious_learns_nothing_from_who_never_falls(pole: Field) -> None:
    """Of actions that nobody took it then believes what it likes; with the default it balances."""
    sessions = pole.record(_balances, 10)
    found = [
        _before_and_after(pole, pole.brain(DqnBrain, **params), DqnMuscle, sessions)[1]
        for params in ({}, {"pretrain_caution": 0.0})
    ]

    assert found[0] > 190
    assert found[1] < 50


@pytest.mark.long
def test_sac_learns_from_who_swings_up(make: Callable[..., Any]) -> None:
    """With default parameters, ten episodes in which a tenth of all actions are chance: it swings up nearly as well."""
    pendulum = Field(make, Pendulum, 200)
    brain = pendulum.brain(SacBrain)
    before, after = _before_and_after(pendulum, brain, SacMuscle, pendulum.record(_swings, 10, chance=0.1))

    assert before < -600
    assert after > -300


@pytest.mark.parametrize(
    ("place", "policy", "chance", "params"),
    [
        pytest.param("slot", _centres, 0.0, {"algorithm": "PPO", "pretrain_epochs": 20}, id="PPO"),
        pytest.param(
            "slot", _centres, 0.5, {"algorithm": "TD3", "pretrain_steps": 300}, id="TD3", marks=pytest.mark.long
        ),
        pytest.param(
            "pole", _balances, 0.0, {"algorithm": "A2C", "pretrain_epochs": 20}, id="A2C", marks=pytest.mark.long
        ),
    ],
)
def test_sb3_learns_from_who_can(request: Any, place: str, policy: Policy, chance: float, params: Any) -> None:
    """PPO and A2C clone; TD3 finds it in its replay, where half of all actions are chance."""
    pytest.importorskip(
        "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
    )
    field: Field = request.getfixturevalue(place)
    small = {"policy_kwargs": {"net_arch": [32, 32]}}
    brain = field.brain(SB3Brain, algorithm_params=small, **params)
    before, after = _before_and_after(field, brain, SB3Muscle, field.record(policy, 30, chance=chance))
    best = field.returns(policy)

    assert best - after < 0.2 * (best - before)
    assert 0 == brain.model.num_timesteps
