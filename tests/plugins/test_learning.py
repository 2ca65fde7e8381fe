"""A learner on an environment of another distribution, in one process: it really learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Batch, Memory, Mode, ResetRequest, SensorInformation, Transitions
from ganglion.sdk.information import Template
from ganglion_learners.sarsa.brain import SarsaBrain
from ganglion_learners.sarsa.muscle import SarsaMuscle
from ganglion_toys.cartpole import CartPole

AGENT = "scout"


@dataclass
class _Training:
    """What came of some episodes: their returns in order, and how many updates were sent."""

    returns: list[float] = field(default_factory=list)
    updates: int = 0


def _declared(environment: Any) -> tuple[list[SensorInformation], list[ActuatorInformation]]:
    """Return what an environment declares, with full ids and without values."""
    baseline = environment.start_environment()
    sensors = [SensorInformation(None, it.space, f"field.{it.uid}") for it in baseline.sensors_available]
    actuators = [ActuatorInformation(None, it.space, f"field.{it.uid}") for it in baseline.actuators_available]
    return sensors, actuators


class _Loop:
    """Run an agent in one process, step by step as the bus does: muscle, environment, memory, brain."""

    def __init__(self, make: Callable[..., Any], world: Any, brain: Any, muscle_type: Any, seed: int) -> None:
        self.world, self.brain = world, brain
        self.sensors, self.actuators = _declared(world)
        brain.sensors, brain.actuators, brain.name = self.sensors, self.actuators, AGENT
        brain.memory = Memory()
        brain.memory.declare(self.sensors, self.actuators)
        brain.setup()
        self._make, self._muscle_type, self._seed = make, muscle_type, seed
        self.muscle = self.join(Mode.TRAIN)
        self._rng = np.random.default_rng([seed, 1])

    def join(self, mode: Mode) -> Any:
        muscle = self._make(self._muscle_type, seed=self._seed + 1000, mode=mode)
        muscle.sensors, muscle.actuators = self.sensors, self.actuators
        muscle.setup()
        muscle.update(self.brain.initial_update(f"{AGENT}/0"))
        return muscle

    def run(self, episodes: int, longest: int, learn: bool = True, muscle: Any = None) -> _Training:
        found = _Training()
        muscle = muscle or self.muscle
        for episode in range(episodes):
            found.returns.append(self._episode(muscle, episode, longest, learn, found))
        return found

    def _episode(self, muscle: Any, episode: int, longest: int, learn: bool, found: _Training) -> float:
        request = ResetRequest(episode, int(self._rng.integers(2**63)))
        sensors, actuators = Template(self.sensors), Template(self.actuators)
        readings = [it.value for it in self.world.reset(request).sensors_available]
        total, step, over = 0.0, 0, False
        while not over:
            result = muscle.propose_actions(sensors.fill(readings), actuators.empty())
            proposed, data = result if isinstance(result, tuple) else (result, None)
            state = self.world.update(proposed)
            after = [it.value for it in state.sensor_information]
            reward = sum(it.value for it in state.rewards)
            step += 1
            truncated = not state.terminated and (state.truncated or step == longest)
            over = state.terminated or truncated
            total += reward
            if learn:
                self.brain.memory.append(
                    f"{AGENT}/0",
                    sensor_readings=readings,
                    actuator_setpoints=[it.value for it in proposed],
                    objective=reward,
                    next_readings=after,
                    terminated=state.terminated,
                    truncated=truncated,
                    dones=over,
                    decision_index=step - 1,
                    episode=episode,
                    additional_data=data,
                )
                update = self.brain.thinking(f"{AGENT}/0", data)
                if update is not None:
                    found.updates += 1
                    muscle.update(update)
            readings = after
        return total


@pytest.fixture
def loop(make: Callable[..., Any]) -> Callable[..., _Loop]:
    """Return a function that makes the loop of an environment, a brain and a muscle."""

    def _make_loop(world: Any, brain: Any, muscle_type: Any, seed: int = 1) -> _Loop:
        return _Loop(make, world, brain, muscle_type, seed)

    return _make_loop


EPISODES, LONGEST = 40, 200  # those of the demo


def _mean(returns) -> float:
    return float(np.mean(returns))


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3, 5))])
def test_learns_to_balance(make, loop, seed) -> None:
    """In the demo's 40 episodes the last tenth returns more than twice the first, the last 20 more than 150."""
    found = loop(make(CartPole, seed=seed), make(SarsaBrain, seed=seed), SarsaMuscle, seed)
    returns = found.run(EPISODES, LONGEST).returns
    tested = found.run(5, LONGEST, learn=False, muscle=found.join(Mode.TEST)).returns

    assert _mean(returns[-4:]) > 2 * _mean(returns[:4])
    assert _mean(returns[-20:]) > 150
    assert _mean(tested) > 150
    assert sum(returns) <= 8_000


BODIES, TICKS = 64, 700


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_ppo_learns_from_many_bodies_to_balance(make, seed) -> None:
    """64 carts of one muscle, each with episodes of its own, are balanced for most of 500 steps in the end."""
    pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
    from ganglion_learners.ppo.brain import PpoBrain
    from ganglion_learners.ppo.muscle import PpoMuscle

    world = make(CartPole, seed=seed)
    world.bodies = bodies = [("a", "field", b) for b in range(BODIES)]
    sensors, actuators = _declared(make(CartPole, seed=seed))
    brain = make(PpoBrain, seed=seed, rollout=2048, minibatch=256, learning_rate=0.001)
    muscle = make(PpoMuscle, seed=seed, mode=Mode.TRAIN)
    for part in (brain, muscle):
        part.sensors, part.actuators, part.bodies = sensors, actuators, bodies
    brain.name, brain.memory = AGENT, Memory()
    brain.setup()
    muscle.setup()
    muscle.update(brain.initial_update(f"{AGENT}/0"))
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
                muscle=[f"{AGENT}/0"] * BODIES,
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

    assert _mean(lengths[:100]) < 50
    assert _mean(np.concatenate([lengths[-30:], steps])) > 200
