from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Memory, Mode, ResetRequest, SensorInformation, Template

AGENT = "scout"


@dataclass
class Training:
    """What came of some episodes: their returns in order, and how many updates were sent."""

    returns: list[float] = field(default_factory=list)
    updates: int = 0


def declared(environment: Any) -> tuple[list[SensorInformation], list[ActuatorInformation]]:
    """Return what an environment declares, with full ids and without values."""
    baseline = environment.start_environment()
    sensors = [SensorInformation(None, it.space, f"field.{it.uid}") for it in baseline.sensors_available]
    actuators = [
        ActuatorInformation(None, it.space, f"field.{it.uid}") for it in baseline.actuators_available
    ]
    return sensors, actuators


class Loop:
    """Run an agent in one process, step by step as the bus does: muscle, environment, memory, brain."""

    def __init__(self, make: Callable[..., Any], world: Any, brain: Any, muscle_type: Any, seed: int) -> None:
        self.world, self.brain = world, brain
        self.sensors, self.actuators = declared(world)
        brain.sensors, brain.actuators, brain.name = self.sensors, self.actuators, AGENT
        brain.memory = Memory()
        brain.memory.declare(self.sensors, self.actuators)
        brain.setup()
        self._make, self._muscle_type, self._seed = make, muscle_type, seed
        self.muscle = self.join(Mode.TRAIN)
        self._rng = np.random.default_rng([seed, 1])

    def join(self, mode: Mode) -> Any:
        """Return a new muscle with the brain's newest values."""
        muscle = self._make(self._muscle_type, seed=self._seed + 1000, mode=mode)
        muscle.sensors, muscle.actuators = self.sensors, self.actuators
        muscle.setup()
        muscle.update(self.brain.initial_update(f"{AGENT}/0"))
        return muscle

    def run(self, episodes: int, longest: int, learn: bool = True, muscle: Any = None) -> Training:
        """Run episodes of at most `longest` steps; without learning the brain is not asked."""
        found = Training()
        muscle = muscle or self.muscle
        for episode in range(episodes):
            found.returns.append(self._episode(muscle, episode, longest, learn, found))
        return found

    def _episode(self, muscle: Any, episode: int, longest: int, learn: bool, found: Training) -> float:
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
def loop(make: Callable[..., Any]) -> Callable[..., Loop]:
    """Return a function that makes the loop of an environment, a brain and a muscle."""

    def _loop(world: Any, brain: Any, muscle_type: Any, seed: int = 1) -> Loop:
        return Loop(make, world, brain, muscle_type, seed)

    return _loop
