"""Dummies: an environment that counts, and a muscle, a brain and an objective whose every value is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Brain,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Memory,
    Muscle,
    Objective,
    RewardInformation,
    SensorInformation,
    SimTime,
    Space,
)

__all__ = ["DummyBrain", "DummyEnvironment", "DummyMuscle", "DummyObjective"]

COUNT = 10  # sensors, and actuators
SETPOINTS = 100  # values of a discrete actuator
REWARD = "Dummy Reward"
INITIAL_STATE = 42


class DummyEnvironment(Environment):
    """Count the updates of an episode; what the actuators are set to has no influence.

    After update i of an episode (0 after its start) every sensor `0` ... `9` and the reward `Dummy Reward` read
    i mod max_iter; simulated time is i ticks. The episode terminates in update max_iter.

    Params:
        discrete: True, the default: sensors are Discrete(max_iter + 1), actuators `0` ... `9` Discrete(100) with
            no-op 0. False: actuators are Box(0, 10), sensors Box(0, 2) and read 0 or 1 from the environment's stream.
        max_iter: Updates per episode, >= 1; default 10.
    """

    def __init__(self, discrete: bool = True, max_iter: int = 10) -> None:
        super().__init__()
        if max_iter < 1:
            raise ValueError(f"max_iter is at least 1, found {max_iter}")
        self.discrete = discrete
        self.max_iter = max_iter
        self.iteration = 0
        self._count_space = Discrete(max_iter + 1)
        self._sensor_space: Space = self._count_space if discrete else Box(0.0, 2.0, ())
        self._actuator_space: Space = Discrete(SETPOINTS) if discrete else Box(0.0, 10.0, ())

    @classmethod
    def longest_episode(cls, max_iter: int = 10, **params: Any) -> int | None:
        """Return `max_iter`: every episode has exactly this many steps."""
        return max_iter

    def start_environment(self) -> EnvironmentBaseline:
        """Begin an episode at count 0."""
        self.iteration = 0
        return EnvironmentBaseline(
            sensors_available=self._readings(),
            actuators_available=[
                ActuatorInformation(0 if self.discrete else 0.0, self._actuator_space, str(i)) for i in range(COUNT)
            ],
            simtime=SimTime(simtime_ticks=0),
            rewards_available=[RewardInformation(0, self._count_space, REWARD)],
        )

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Count one further; `actuators` are not looked at."""
        self.iteration += 1
        return EnvironmentState(
            sensor_information=self._readings(),
            rewards=[RewardInformation(self.iteration % self.max_iter, self._count_space, REWARD)],
            terminated=self.iteration >= self.max_iter,
            simtime=SimTime(simtime_ticks=self.iteration),
        )

    def _readings(self) -> list[SensorInformation]:
        values: list[int] | list[float] = [self.iteration % self.max_iter] * COUNT
        if not self.discrete:
            bits = int(self.rng.integers(1 << COUNT))  # one draw: an array of ten costs five times as much
            values = [float(bits >> i & 1) for i in range(COUNT)]
        return [SensorInformation(value, self._sensor_space, str(i)) for i, value in enumerate(values)]


class DummyMuscle(Muscle):
    """Sample every actuator, or count in it; tell the brain the index of the decision in its episode.

    Params:
        count_upwards: True sets an actuator of Discrete(n, start) to start + (d mod n) in decision d of the episode;
            others are sampled all the same. False, the default, samples all.
    """

    def __init__(self, count_upwards: bool = False) -> None:
        super().__init__()
        self.count_upwards = count_upwards
        self.decision = 0

    def reset(self) -> None:
        """Count from 0 again."""
        self.decision = 0

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> tuple[list[ActuatorInformation], int]:
        """Set all actuators; the second element is the index of this decision, from 0 in each episode."""
        for actuator in actuators_available:
            space = actuator.space
            if self.count_upwards and isinstance(space, Discrete):
                actuator.value = space.start + self.decision % space.n
            else:
                actuator.value = space.sample(self.rng)
        decision, self.decision = self.decision, self.decision + 1
        return actuators_available, decision


class DummyBrain(Brain):
    """Keep the number that came last from a muscle, plus one; it is the update and the stored array `state`.

    Before the first number it is 42.
    """

    def __init__(self) -> None:
        super().__init__()
        self.state = INITIAL_STATE

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> int:
        """Return the new state; None as data (a muscle that joins before the first decision) leaves it as it is."""
        if data_from_muscle is not None:
            self.state = int(data_from_muscle) + 1
        return self.state

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return `state`, an int64 of shape ()."""
        return {"state": np.array(self.state, dtype=np.int64)}

    def load_arrays(self, arrays: Any) -> None:
        """Go on from a stored `state`."""
        self.state = int(arrays["state"])


class DummyObjective(Objective):
    """Sum the rewards of the decision.

    Params:
        params: Not looked at; there because an objective may be given its parameters as one map. Default None.
    """

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        super().__init__(params)

    def internal_reward(self, memory: Memory, **kwargs: Any) -> float:
        """Return the sum of the last row's rewards; a reward that the row does not have counts nothing."""
        return float(memory.tail(1).rewards.sum(axis=None))
