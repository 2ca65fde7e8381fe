from __future__ import annotations

import pytest

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)
import numpy as np
from gymnasium import spaces

from ganglion.sdk import Discrete
from ganglion_sb3.algorithm import make_algorithm
from ganglion_sb3.codec import Actions
from ganglion_sb3.collector import Decision
from ganglion_sb3.replay import Replay
from ganglion_sb3.stream import Stream


def test_schedules_follow_the_decisions_of_all() -> None:
    """Progress falls from 1 to 0 over the total, and not below; DQN's rate follows it; records are told once."""
    actions = Actions([("e.a", Discrete(2))])
    params = {"exploration_fraction": 1.0, "exploration_final_eps": 0.0, "buffer_size": 50}
    model = make_algorithm("DQN", "MlpPolicy", params, spaces.Box(-9.0, 9.0, (1,)), actions.space, 2, 10)
    replay = Replay(model, actions, ["a/0", "a/1"], Stream(1))
    at, rates = np.zeros((1, 1), np.float32), []
    for i in range(12):
        replay.add(Decision(f"a/{i % 2}", at, np.array([[1]]), None, 0.0, at, False, False, i == 5))
        rates.append(round(replay.exploration["rate"], 6))

    assert [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0, 0.0, 0.0] == rates
    assert 12 == model.num_timesteps
    assert {"rollout/exploration_rate": 0.0} == replay.trained()
    assert {} == replay.trained()


def test_a_decision_is_done_for_either_reason() -> None:
    """An episode ends by termination or truncation."""
    at = np.zeros((1, 1))
    found = [Decision("a", at, at, None, 0.0, at, True, *flags).done for flags in ((0, 0), (1, 0), (0, 1))]
    assert [False, True, True] == [bool(it) for it in found]
