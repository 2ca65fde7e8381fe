"""Plugins that write down the seeds that they are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ganglion.sdk import (
    ActuatorInformation,
    Brain,
    Controller,
    Discrete,
    Environment,
    Muscle,
    Objective,
    ResetRequest,
    RewardInformation,
    SensorInformation,
)


def note(part: Any, kind: str, **more: Any) -> None:
    """Write down the seed of a part and the first number of its generator; each part has a file of its own."""
    row = {"kind": kind, "worker": part.worker, "mode": part.mode, "seed": part.seed, **more}
    with Path(f"streams-{kind}-{part.mode}-{part.worker}.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


class World(Environment):
    """End each episode after two steps."""

    def __init__(self) -> None:
        super().__init__()
        note(self, "environment", draw=float(self.rng.random()))

    def start_environment(self) -> Any:
        self.count = 0
        self.space = Discrete(1_000_000)
        return [SensorInformation(0, self.space, "0")], [ActuatorInformation(0, Discrete(10), "0")]

    def reset(self, request: ResetRequest) -> Any:
        note(self, "episode", episode=request.episode, given=request.seed)
        return self.start_environment()

    def update(self, actuators: list[ActuatorInformation]) -> Any:
        self.count += 1
        reward = RewardInformation(self.count, Discrete(10), "reward")
        return [SensorInformation(self.count, self.space, "0")], [reward], self.count == 2


class Seeing(Muscle):
    """Set nothing but zeros."""

    def setup(self) -> None:
        note(self, "muscle", draw=float(self.rng.random()))

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        for actuator in actuators_available:
            actuator(0)
        return actuators_available


class Looking(Objective):
    """Return the reward."""

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        super().__init__(params)
        note(self, "objective", draw=float(self.rng.random()))

    def internal_reward(self, memory: Any, **kwargs: Any) -> float:
        return float(memory.tail(1).rewards.sum(axis=None))


class Mind(Brain):
    """Learn nothing."""

    def setup(self) -> None:
        note(self, "brain", draw=float(self.rng.random()))

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> None:
        pass


class Here(Controller):
    """Let all act at once."""

    def __init__(self) -> None:
        super().__init__()
        note(self, "controller", draw=float(self.rng.random()))

    async def advance(self) -> None:
        await self.update(await self.act(self.agents), self.agents)
