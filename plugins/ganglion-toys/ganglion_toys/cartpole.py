"""Cart-pole: a pole on a cart that is to be kept upright by pushing left or right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
    StepBatch,
)

__all__ = ["CartPole"]

GRAVITY = 9.8  # m/s^2
CART_MASS = 1.0  # kg
POLE_MASS = 0.1  # kg
TOTAL_MASS = CART_MASS + POLE_MASS
POLE_HALF_LENGTH = 0.5  # m
POLE_MOMENT = POLE_MASS * POLE_HALF_LENGTH  # kg m
FORCE = 10.0  # N, either way
STEP_S = 0.02  # explicit Euler
POSITION_LIMIT = 2.4  # m
ANGLE_LIMIT = 12 * 2 * math.pi / 360  # rad
INITIAL_SPREAD = 0.05  # each of the four at the begin of an episode, in its own unit
LONGEST = 500  # steps

# Positions are declared to twice the limits, so that the reading of the failing step is contained, too.
_HIGH = np.array([2 * POSITION_LIMIT, np.inf, 2 * ANGLE_LIMIT, np.inf], dtype=np.float32)
OBSERVATION = Box(-_HIGH, _HIGH, (4,), np.float32)
ACTION = Discrete(2)
REWARD = Box(0.0, 1.0, ())


Array = NDArray[Any]


class CartPole(Environment):
    """Balance a pole that is hinged on a cart.

    Sensor `observation`, float32 (4,): position of the cart in m, its velocity in m/s, angle of the pole in rad (0 is
    upright), its angular velocity in rad/s. Actuator `action`: 0 pushes with 10 N to the left, 1 to the right; no-op
    0. Reward `reward`: 1 in every step. Terminated when the position leaves +-2.4 m or the angle +-12 degrees;
    truncated after 500 steps. Simulated time: ticks are steps of 0.02 s. An episode begins with four numbers drawn
    uniformly from +-0.05 by a generator of the episode's seed. Names, numbers and random draws are those of Gymnasium's
    CartPole-v1: an episode of equal seed and actions has equal readings.

    With bodies all of them are advanced at once, in double precision, each with its own seed.

    Params:
        longest: Steps after which an episode is truncated, >= 1; default 500.

    Source: Barto, Sutton and Anderson (1983), Neuronlike adaptive elements that can solve difficult learning control
    problems, appendix; without friction.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        super().__init__()
        if longest < 1:
            raise ValueError(f"longest is at least 1 step, found {longest}")
        self.longest = longest
        self.states = np.zeros((0, 4))  # of many bodies, with the steps of their episodes
        self.made = np.zeros(0, np.int64)
        self.steps = 0
        self.state = (0.0, 0.0, 0.0, 0.0)

    @property
    def batched(self) -> bool:  # type: ignore[override]
        """Whether there are bodies, which are advanced together."""
        return bool(self.bodies)

    @classmethod
    def longest_episode(cls, longest: int = LONGEST, **params: Any) -> int | None:
        """Return the number of steps after which an episode is truncated."""
        return longest

    def start_environment(self) -> EnvironmentBaseline:
        """Begin the first episode, by the environment's own seed."""
        return self._begin(self.seed)

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin a later episode, by the seed of the request."""
        return self._begin(request.seed)

    def _begin(self, seed: int) -> EnvironmentBaseline:
        rng = np.random.default_rng(seed)
        self.steps = 0
        position, velocity, angle, spin = rng.uniform(-INITIAL_SPREAD, INITIAL_SPREAD, size=4).tolist()
        self.state = (position, velocity, angle, spin)
        return EnvironmentBaseline(
            sensors_available=self._readings(),
            actuators_available=[ActuatorInformation(0, ACTION, "action")],
            simtime=SimTime(simtime_ticks=0),
            rewards_available=[RewardInformation(0.0, REWARD, "reward")],
        )

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Push for one step of 0.02 s; without a setpoint to the left."""
        push = actuators[0].value if actuators else 0
        self.state = advance(self.state, FORCE if push == 1 else -FORCE)
        self.steps += 1
        fallen = abs(self.state[0]) > POSITION_LIMIT or abs(self.state[2]) > ANGLE_LIMIT
        return EnvironmentState(
            sensor_information=self._readings(),
            rewards=[RewardInformation(1.0, REWARD, "reward")],
            terminated=fallen,
            truncated=not fallen and self.steps >= self.longest,
            simtime=SimTime(simtime_ticks=self.steps),
        )

    def begin_batch(self, rows: Array, seeds: Sequence[int]) -> Mapping[str, Array]:
        """Begin an episode of each of these bodies, by its seed."""
        if not len(self.states):
            self.states, self.made = np.zeros((len(self.bodies), 4)), np.zeros(len(self.bodies), np.int64)
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            self.states[row] = np.random.default_rng(seed).uniform(-INITIAL_SPREAD, INITIAL_SPREAD, size=4)
        self.made[rows] = 0
        return {"observation": self.states[rows].astype(np.float32)}

    def update_batch(self, setpoints: Mapping[str, Array]) -> StepBatch:
        """Push the carts of these bodies for one step of 0.02 s."""
        rows = self.rows
        _, velocity, angle, spin = self.states[rows].T
        force = np.where(setpoints["action"] == 1, FORCE, -FORCE)
        # Not numpy's, which round otherwise on some processors: a body is to move like a cart alone, bit for bit.
        cosine, sine = (np.array(list(map(of, angle.tolist()))) for of in (math.cos, math.sin))
        drive = (force + POLE_MOMENT * spin * spin * sine) / TOTAL_MASS
        inertia = POLE_HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cosine * cosine / TOTAL_MASS)
        spin_rate = (GRAVITY * sine - cosine * drive) / inertia
        acceleration = drive - POLE_MOMENT * spin_rate * cosine / TOTAL_MASS
        rates = np.stack([velocity, acceleration, spin, spin_rate], axis=1)
        self.states[rows] += STEP_S * rates
        self.made[rows] += 1
        state = self.states[rows]
        fallen = (np.abs(state[:, 0]) > POSITION_LIMIT) | (np.abs(state[:, 2]) > ANGLE_LIMIT)
        return StepBatch(
            readings={"observation": state.astype(np.float32)},
            rewards={"reward": np.ones(len(rows))},
            terminated=fallen,
            truncated=~fallen & (self.made[rows] >= self.longest),
        )

    def save_state(self) -> dict[str, Any]:
        """Return the states of all bodies."""
        return {"states": self.states, "made": self.made, "steps": self.steps, "state": list(self.state)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on where `save_state` was called."""
        self.states, self.made = np.array(state["states"]), np.array(state["made"])
        self.steps, self.state = int(state["steps"]), tuple(state["state"])

    def _readings(self) -> list[SensorInformation]:
        return [SensorInformation(np.array(self.state, dtype=np.float32), OBSERVATION, "observation")]


State = tuple[float, float, float, float]


def advance(state: State, force: float) -> State:
    """Return the state one Euler step of 0.02 s later.

    Args:
        state: Position in m, velocity in m/s, angle in rad, angular velocity in rad/s.
        force: On the cart, in N; positive to the right.

    Source: Florian (2007), Correct equations for the dynamics of the cart-pole system, eq. 23 and 24 without friction.
    """
    position, velocity, angle, spin = state
    cosine, sine = math.cos(angle), math.sin(angle)
    drive = (force + POLE_MOMENT * spin * spin * sine) / TOTAL_MASS
    inertia = POLE_HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cosine * cosine / TOTAL_MASS)
    spin_rate = (GRAVITY * sine - cosine * drive) / inertia
    acceleration = drive - POLE_MOMENT * spin_rate * cosine / TOTAL_MASS
    return (
        position + STEP_S * velocity,
        velocity + STEP_S * acceleration,
        angle + STEP_S * spin,
        spin + STEP_S * spin_rate,
    )
