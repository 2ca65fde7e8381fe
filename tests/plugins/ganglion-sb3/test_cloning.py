from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)
from gymnasium import spaces

from ganglion.sdk import Box, Space
from ganglion_sb3.algorithm import make_algorithm
from ganglion_sb3.codec import Actions
from ganglion_sb3.collector import Decision
from ganglion_sb3.rollout import Rollout
from ganglion_sb3.stream import Stream

SEEN = spaces.Box(-1.0, 1.0, (2,))


def _rollout(space: Space, name: str = "PPO", seed: int = 1, **params: Any) -> Rollout:
    actions = Actions([("e.a", space)])
    given = {"gamma": 0.8, "learning_rate": 0.01, "policy_kwargs": {"net_arch": [16]}, **params}
    stream = Stream(seed)
    with stream.running():
        model = make_algorithm(name, "MlpPolicy", given, SEEN, actions.space, 1, None)
    return Rollout(model, actions, ["a/0"], stream)


def _episode(act: Any, length: int = 40, terminated: bool = True) -> list[Decision]:
    seen = np.random.default_rng(length).uniform(-1, 1, (length + 1, 1, 2)).astype(np.float32)
    last = length - 1
    return [
        Decision(
            "a/0", seen[i], np.array([[act(seen[i, 0])]]), None, 1.0, seen[i + 1], i == 0,
            i == last and terminated, i == last and not terminated,
        )
        for i in range(length)
    ]  # fmt: skip


def test_numbers_are_cloned_and_their_spread_stays() -> None:
    """The centre comes to the recorded setpoints; how far it spreads is as it was."""
    rollout = _rollout(Box(-2.0, 2.0, ()))
    before = rollout.model.policy.log_std.tolist()
    rollout.pretrain([_episode(lambda seen: 1.5 * seen[0])] * 2, None, 60)
    found, _ = rollout.model.policy.predict(np.array([[0.5, 0.0], [-0.5, 0.0]]), deterministic=True)

    np.testing.assert_allclose(found[:, 0], [0.75, -0.75], atol=0.2)
    assert before == rollout.model.policy.log_std.tolist()
