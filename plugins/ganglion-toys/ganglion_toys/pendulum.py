"""Reference pendulum: a swing-up whose every bit is the same in any language."""

from __future__ import annotations

from typing import Any

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
)

__all__ = ["Pendulum"]

COSINE = SINE = Box(-1.01, 1.01, ())  # rounding may leave the unit circle by a little
SPEED = Box(-8.0, 8.0, ())
TORQUE = Box(-2.0, 2.0, ())
BALANCE = Box(-11.0, 1.0, ())
LONGEST = 200  # steps of 0.05 s
SEED_SHIFT = 10  # seeds have 63 bits here, and 53 for peers in other languages: their upper ones, which doubles hold

# Park and Miller (1988), Random number generators: good ones are hard to find. All products stay below 2^53, so a
# language that has doubles only computes the same numbers.
MULTIPLIER = 16807
MODULUS = 2147483647


class Pendulum(Environment):
    """Swing a pendulum up and keep it there; only + - * / are used, which all languages round in the same way.

    Sensors `cos` and `sin` of the angle (upright is cos 1) and `speed` in rad/s; actuator `torque`, clipped to +-2,
    no-op 0; reward `balance`: -(2 (1 - cos) + 0.1 speed^2 + 0.001 torque^2). Truncated after 200 steps, never
    terminated. Simulated time: ticks are steps of 0.05 s.

    The angle is turned by the half-angle form of the rotation (Cayley), which keeps cos and sin on the circle without
    any library's sine. Expressions are evaluated as written, from left to right, in double precision.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cosine, self.sine, self.speed, self.steps = 1.0, 0.0, 0.0, 0

    @classmethod
    def longest_episode(cls, **params: Any) -> int | None:
        """Return 200."""
        return LONGEST

    def start_environment(self) -> EnvironmentBaseline:
        """Begin the first episode, by the environment's seed."""
        return self._begin(self.seed >> SEED_SHIFT)

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin a later episode, by the seed of the request."""
        return self._begin(request.seed >> SEED_SHIFT)

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Apply the torque for one step; without a setpoint none."""
        balance = self._advance(float(actuators[0].value) if actuators else 0.0)
        self.steps += 1
        return EnvironmentState(
            sensor_information=self._readings(),
            rewards=[RewardInformation(balance, BALANCE, "balance")],
            terminated=False,
            truncated=self.steps >= LONGEST,
            simtime=SimTime(simtime_ticks=self.steps),
        )

    def _begin(self, seed: int) -> EnvironmentBaseline:
        """Begin an episode by a seed below 2^53."""
        draw = _Draws(seed)
        draw()  # the first one hardly depends on the seed
        t = draw()
        q = 1.0 + t * t
        self.cosine = (t * t - 1.0) / q
        self.sine = 2.0 * t / q
        self.speed = draw()
        self.steps = 0
        return EnvironmentBaseline(
            sensors_available=self._readings(),
            actuators_available=[ActuatorInformation(0.0, TORQUE, "torque")],
            simtime=SimTime(simtime_ticks=0),
            rewards_available=[RewardInformation(0.0, BALANCE, "balance")],
        )

    def _advance(self, torque: float) -> float:
        """Turn the pendulum by one step and return the reward."""
        u = min(max(torque, -2.0), 2.0)
        w = self.speed + (15.0 * self.sine + 3.0 * u) * 0.05
        w = min(max(w, -8.0), 8.0)
        k = w * 0.025
        q = 1.0 + k * k
        p = 1.0 - k * k
        c, s = self.cosine, self.sine
        self.cosine = (p * c - 2.0 * k * s) / q
        self.sine = (p * s + 2.0 * k * c) / q
        self.speed = w
        return -(2.0 * (1.0 - self.cosine) + 0.1 * w * w + 0.001 * u * u)

    def _readings(self) -> list[SensorInformation]:
        return [
            SensorInformation(self.cosine, COSINE, "cos"),
            SensorInformation(self.sine, SINE, "sin"),
            SensorInformation(self.speed, SPEED, "speed"),
        ]


class _Draws:
    """Draw numbers from [-1, 1) as the description of the pendulum prescribes."""

    def __init__(self, seed: int) -> None:
        self.x = 1 + seed % (MODULUS - 1)

    def __call__(self) -> float:
        self.x = MULTIPLIER * self.x % MODULUS
        return 2.0 * self.x / MODULUS - 1.0
