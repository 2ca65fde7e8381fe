"""An agent of Stable-Baselines3 and environments of Gymnasium in one process, step by step as the bus does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Batch, Memory, Mode, SensorInformation, Transitions
from ganglion_gymnasium import from_gymnasium, value_to_gymnasium
from ganglion_sb3.brain import SB3Brain
from ganglion_sb3.muscle import SB3Muscle


class Agent:
    """Make a brain and muscles for the spaces of an environment."""

    def __init__(
        self, make: Callable[..., Any], sensors: Any, actuators: Any, seed: int, workers: int, **params: Any
    ) -> None:
        self.sensors = [SensorInformation(None, space, uid) for uid, space in sensors]
        self.actuators = [ActuatorInformation(None, space, uid) for uid, space in actuators]
        self.uids = [f"scout/{worker}" for worker in range(workers)]
        self._make, self._seed = make, seed
        self.brain = make(SB3Brain, seed=seed, **params)
        self.brain.sensors, self.brain.actuators, self.brain.name = self.sensors, self.actuators, "scout"
        self.brain.memory, self.brain.muscles = Memory(), self.uids
        self.brain.setup()
        self.muscles = [self.muscle(worker) for worker in range(workers)]

    def muscle(self, worker: int = 0, mode: Mode = Mode.TRAIN, **params: Any) -> Any:
        muscle = self._make(SB3Muscle, seed=self._seed + 1000 + worker, mode=mode, **params)
        muscle.sensors, muscle.actuators = self.sensors, self.actuators
        muscle.setup()
        muscle.update(self.brain.initial_update(self.uids[worker]))
        return muscle

    def vector(self, reading: Any) -> Any:
        readings = [reading] if len(self.sensors) == 1 else reading
        parts = [it.space.to_vector(value) for it, value in zip(self.sensors, readings, strict=True)]
        return np.concatenate(parts)[None]

    def act(self, muscle: Any, vector: Any) -> tuple[Any, Any]:
        zeros = np.zeros(1, dtype=np.int64)
        matrix, data = muscle.propose_batch(Batch(vector, {}, [("scout", 0)], zeros, zeros, muscle.mode))
        assert (1, sum(it.space.size for it in self.actuators)) == matrix.shape
        return matrix, data[0]


def rows(uids: Sequence[str], decisions: Sequence[dict[str, Any]]) -> Transitions:
    """Return decisions of several muscles as one batch."""
    terminated, truncated = (np.array([it[name] for it in decisions]) for name in ("terminated", "truncated"))
    return Transitions(
        observations=np.concatenate([it["seen"] for it in decisions]),
        actions=np.concatenate([it["setpoints"] for it in decisions]),
        objectives=np.array([it["objective"] for it in decisions], dtype=np.float64),
        rewards=np.zeros((len(decisions), 0)),
        next_observations=np.concatenate([it["following"] for it in decisions]),
        terminated=terminated,
        truncated=truncated,
        muscle=list(uids),
        body=[("scout", 0)] * len(decisions),
        episode=np.zeros(len(decisions), dtype=np.int64),
        step=np.array([it["step"] for it in decisions]),
        data=[it["data"] for it in decisions],
    )


class Walk:
    """One worker's way through episodes of an environment."""

    def __init__(self, agent: Agent, worker: int, world: Any, seed: int) -> None:
        self.agent, self.worker, self.world = agent, worker, world
        self.returns: list[float] = []
        self.total, self.steps = 0.0, 0
        self.seen, _ = world.reset(seed=seed)

    def step(self, tell: bool = True) -> dict[str, Any]:
        agent = self.agent
        seen = agent.vector(self.seen)
        setpoints, data = agent.act(agent.muscles[self.worker], seen)
        space = agent.actuators[0].space
        action = value_to_gymnasium(space, space.from_vector(setpoints[0]))
        following, reward, terminated, truncated, _ = self.world.step(action)
        truncated = truncated and not terminated
        found = {
            "seen": seen, "setpoints": setpoints, "objective": float(reward), "following": agent.vector(following),
            "terminated": terminated, "truncated": truncated, "step": self.steps, "data": data if tell else None,
        }  # fmt: skip
        self.total, self.steps, self.seen = self.total + float(reward), self.steps + 1, following
        if terminated or truncated:
            self.returns.append(self.total)
            self.total, self.steps = 0.0, 0
            self.seen, _ = self.world.reset()
        return found


@pytest.fixture
def agent_of(make: Callable[..., Any]) -> Callable[..., Agent]:
    """Return a function that makes an agent for spaces."""

    def _agent(sensors: Any, actuators: Any, seed: int = 5, workers: int = 1, **params: Any) -> Agent:
        return Agent(make, sensors, actuators, seed, workers, **params)

    return _agent


@pytest.fixture
def walk(agent_of: Callable[..., Agent]) -> Callable[..., tuple[Agent, list[Walk]]]:
    """Return a function that trains an agent for some rounds; it returns the agent and the ways of its workers."""

    def _walk(
        id: str,  # noqa: A002 - the name that everybody knows from Gymnasium
        rounds: int,
        seed: int = 5,
        workers: int = 1,
        prepare: Any = None,
        tell: bool = True,
        **params: Any,
    ) -> tuple[Agent, list[Walk]]:
        worlds = [gymnasium.make(id) for _ in range(workers)]
        sensors = [("field.observation", from_gymnasium(worlds[0].observation_space))]
        actuators = [("field.action", from_gymnasium(worlds[0].action_space))]
        agent = agent_of(sensors, actuators, seed, workers, **params)
        if prepare is not None:
            prepare(agent)
        walks = [Walk(agent, worker, world, seed + worker) for worker, world in enumerate(worlds)]
        for _ in range(rounds):
            train(agent, walks, tell)
        for world in worlds:
            world.close()
        return agent, walks

    return _walk


def train(agent: Agent, walks: Sequence[Walk], tell: bool = True) -> Transitions:
    """Let each worker decide once, and the brain learn from the round; return it."""
    batch = rows(agent.uids, [it.step(tell) for it in walks])
    update = agent.brain.learn(batch)
    if update is not None:
        for muscle in agent.muscles:
            muscle.update(update)
    return batch


@pytest.fixture
def round_of() -> Callable[..., Transitions]:
    """Return the function that makes one round."""
    return train


@pytest.fixture
def rows_of() -> Callable[..., Transitions]:
    """Return the function that makes one batch of decisions."""
    return rows
