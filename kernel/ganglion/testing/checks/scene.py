"""The scene of checks: who plays beside the class that is checked, and episodes of drawn readings and rewards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ganglion.peer.values import freeze
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation
from ganglion.sdk.muscle import Muscle
from ganglion.sdk.objective import Objective
from ganglion.sdk.seed import generator_from_words, words
from ganglion.sdk.spaces.kinds import Box
from ganglion.testing.checks.clause import encoded
from ganglion.testing.stage import StagedAgent
from ganglion.wire.messages import Thought

__all__ = ["ACTUATORS", "Chance", "Sum", "digests", "play_episodes", "update_of"]

ACTUATORS = (ActuatorInformation(0.0, Box(-1.0, 1.0, ()), "world.push"),)


class Sum(Objective):
    """Sum the rewards that are there."""

    def internal_reward(self, memory: Any, **kwargs: Any) -> float:
        """Return the sum of the newest row's rewards."""
        return float(np.nansum(memory.tail(1).rewards.flat[0]))


class Chance(Muscle):
    """Set every actuator by chance."""

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> list[ActuatorInformation]:
        """Draw a value of each actuator's space."""
        for it in actuators_available:
            it.value = it.space.sample(self.rng)
        return actuators_available


def play_episodes(
    agent: StagedAgent,
    sensors: Sequence[SensorInformation],
    rewards: Sequence[RewardInformation],
    seed: int,
    episodes: int,
    steps: int,
    unrewarded: int | None = None,
    between: Callable[[], None] | None = None,
    after: Callable[[], bytes] | None = None,
) -> list[bytes]:
    """Play episodes of drawn readings and rewards; every second one is truncated, the others terminate.

    Returns the answers, `steps` + 1 for each episode. In step `unrewarded` no reward is there; `between` is called in
    the middle of each episode, `after` behind each answer, to which it adds.
    """
    draw = generator_from_words(words(seed, ["check"]))
    more: Callable[[], bytes] = bytes if after is None else after
    trace = []
    for episode in range(episodes):
        trace.append(encoded(agent.begin([it.space.sample(draw) for it in sensors])) + more())
        for step in range(1, steps + 1):
            if between is not None and step == steps // 2:
                between()
            given = [None if step == unrewarded else it.space.sample(draw) for it in rewards]
            readings = [it.space.sample(draw) for it in sensors]
            last = step == steps
            flags = {"terminated": last and episode % 2 == 0, "truncated": last and episode % 2 == 1}
            trace.append(encoded(agent.step(given, readings, **flags)) + more())
    return trace


def update_of(agent: StagedAgent) -> bytes:
    """Return the brain's newest update as it travels."""
    assert agent.brain is not None
    blobs: list[bytes] = []
    tree = freeze(agent.brain.last_update, blobs, "update")
    return b"".join([encoded(Thought(tree)), *blobs])


def digests(agent: StagedAgent) -> dict[str, str]:
    """Let the brain store its model; return the SHA-256 of each file by its tag."""
    return {str(row["tag"]): str(row["sha256"]) for row in agent.store().files}
