"""Swing: many pendulums that are to be swung up, as a pure function on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ganglion.sdk import FunctionalEnvironment

__all__ = ["Swing"]

STEP_S = 0.05
SPEED_LIMIT = 8.0  # rad/s
TORQUE_LIMIT = 2.0  # N m
ITEMS: dict[str, tuple[int, ...]] = {"cos": (), "sin": (), "speed": ()}


class Swing(FunctionalEnvironment):
    """Swing a pendulum of 1 kg and 1 m up and keep it there, for any number of bodies at once.

    Sensors `cos` and `sin` of the angle (upright is cos 1) and `speed` in rad/s; actuator `torque` in N m, +-2, no-op
    0; reward `reward`: -(2 (1 - cos) + 0.1 speed^2 + 0.001 torque^2). A body terminates where it reaches `goal`; else
    the document's `max_steps` ends its episode. One begins at an angle and a speed drawn uniformly, the speed from +-1.
    A step is one of 0.05 s, and equals that of `pendulum` bit for bit.

    Params:
        gravity: In m/s^2; default 10. A parameter `gravity` of its topics comes first.
        goal: The cosine from which on a pendulum has arrived; None, the default, has it balance on.

    Source: the pendulum of Gymnasium, turned by the half-angle form of the rotation (Cayley).
    """

    action_bounds = (-TORQUE_LIMIT, TORQUE_LIMIT)

    def __init__(self, gravity: float = 10.0, goal: float | None = None) -> None:
        super().__init__(ITEMS, ITEMS, {"torque": ()}, *[np.float64] * 3)
        self.gravity = gravity
        self.goal = np.inf if goal is None else goal

    def initial_states(self, batch: int, rng: np.random.Generator) -> Any:
        """Return angles and speeds drawn at random."""
        angle, speed = rng.uniform(-np.pi, np.pi, batch), rng.uniform(-1.0, 1.0, batch)
        return {"cos": np.cos(angle), "sin": np.sin(angle), "speed": speed}

    def get_first_observations(self, states: Any) -> Any:
        """Return the states."""
        return states

    def get_action_results(self, last_states: Any, actions: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return the states 0.05 s later, which are what is observed, too."""
        c, s, speed = last_states.values()
        gravity = self.topics["parameters"].get("gravity", self.gravity)
        w = speed + (1.5 * gravity * s + 3.0 * actions["torque"]) * STEP_S
        w = np.clip(w, -SPEED_LIMIT, SPEED_LIMIT)
        k = w * (STEP_S / 2.0)
        p, q = 1.0 - k * k, 1.0 + k * k
        states = {"cos": (p * c - 2.0 * k * s) / q, "sin": (p * s + 2.0 * k * c) / q, "speed": w}
        return states, states

    def get_reward(self, last_states: Any, actions: Any, new_states: Any, observations: Any) -> Any:
        """Return how far each pendulum is from resting upright, negative."""
        w, u = new_states["speed"], actions["torque"]
        return -(2.0 * (1.0 - new_states["cos"]) + 0.1 * w * w + 0.001 * u * u)

    def get_whether_alive(self, observations: Any) -> Any:
        """Return which pendulums have not arrived."""
        return observations["cos"] < self.goal
