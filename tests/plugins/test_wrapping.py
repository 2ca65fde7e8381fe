"""An environment of one distribution in the interface of another."""

from __future__ import annotations

import gymnasium
import numpy as np

from ganglion_gymnasium import as_gymnasium
from ganglion_toys.cartpole import CartPole


def test_ours_equals_theirs() -> None:
    """Our cart-pole in their interface is their cart-pole: equal seeds and actions, equal answers."""
    ours, theirs = as_gymnasium(CartPole), gymnasium.make("CartPole-v1").unwrapped
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    for seed in (3, 11):
        np.testing.assert_array_equal(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
        for step in range(8):
            left, right = ours.step(step % 2), theirs.step(step % 2)
            np.testing.assert_array_equal(left[0], right[0])
            assert left[1:4] == right[1:4]
    theirs.close()
