from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip(
    "stable_baselines3",
    reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3",
)
from gymnasium import spaces

from ganglion.sdk import Box
from ganglion_sb3.algorithm import make_algorithm
from ganglion_sb3.codec import Actions
from ganglion_sb3.collector import Decision
from ganglion_sb3.replay import Replay
from ganglion_sb3.stream import Stream


def _replay(muscles=("a/0",), **params):
    actions = Actions([("e.a", Box(-2.0, 2.0, (1,)))])
    given = {
        "learning_starts": 2,
        "batch_size": 2,
        "buffer_size": 4,
        "policy_kwargs": {"net_arch": [4]},
        **params,
    }
    model = make_algorithm(
        "SAC", "MlpPolicy", given, spaces.Box(-9.0, 9.0, (1,)), actions.space, len(muscles), None
    )
    return Replay(model, actions, list(muscles), Stream(1))


def _decision(seen, data=None, muscle="a/0", terminated=False, truncated=False):
    at = np.array([[seen]], np.float32)
    told = None if data is None else np.array([data])
    return Decision(
        muscle, at, np.array([[1.0]]), told, float(seen), at + 1, seen == 0, terminated, truncated
    )


@pytest.fixture
def trainings(monkeypatch):
    """Return the numbers of gradient steps that were asked for."""
    found = []

    def _train(self, gradient_steps, batch_size):
        found.append(gradient_steps)

    monkeypatch.setattr("stable_baselines3.SAC.train", _train)
    return found


def test_rows_lie_as_stable_baselines3_lays_them(trainings) -> None:
    """Actions are scaled, an end is kept apart from being cut off, and the oldest rows are overwritten."""
    replay = _replay()
    for seen in range(5):
        replay.add(_decision(seen, 0.25 if seen else None, terminated=seen == 2, truncated=seen == 3))
    buffer = replay.model.replay_buffer

    assert [4.0, 1.0, 2.0, 3.0] == buffer.observations.ravel().tolist()
    assert [5.0, 2.0, 3.0, 4.0] == buffer.next_observations.ravel().tolist()
    assert [0.25] * 4 == buffer.actions.ravel().tolist()
    assert ([0, 0, 1, 1], [0, 0, 0, 1]) == (buffer.dones.ravel().tolist(), buffer.timeouts.ravel().tolist())
    first = _replay()
    first.add(_decision(0))
    assert 0.5 == first.model.replay_buffer.actions[0, 0, 0]  # setpoint 1 of [-2, 2]


def test_chance_ends_when_learning_starts(trainings) -> None:
    """The first decisions are made by chance, of all muscles together; muscles hear when that ends."""
    replay = _replay(train_freq=10)
    assert replay.exploration["random"]
    assert [False, True, False] == [replay.add(_decision(seen, 0.0)) for seen in range(3)]
    assert not replay.exploration["random"]
    assert [] == trainings


@pytest.mark.parametrize(
    ("params", "muscles", "expected"),
    [
        ({"train_freq": 2}, 1, [1, 1]),
        ({"train_freq": 1}, 2, [1, 1]),
        ({"train_freq": 2, "gradient_steps": -1}, 1, [2, 2]),
        ({"train_freq": [1, "episode"], "gradient_steps": -1}, 1, [3]),
        ({"train_freq": 1, "gradient_steps": 0}, 1, []),
    ],
)
def test_when_it_trains(trainings, params, muscles, expected) -> None:
    """Every so many decisions per muscle, or episodes, with so many steps as are asked for, after learning starts."""
    replay = _replay(tuple(f"a/{i}" for i in range(muscles)), **params)
    for seen in range(6):
        replay.add(_decision(seen, 0.0, muscle=f"a/{seen % muscles}", terminated=seen in (1, 4)))

    assert expected == trainings


def test_the_buffer_goes_on(trainings) -> None:
    """Another collector that takes the rows over has the same buffer, and trains when the first would."""
    one, two = _replay(train_freq=3, buffer_size=9), _replay(train_freq=3, buffer_size=9)
    for seen in range(4):
        one.add(_decision(seen, 0.5))
    two.restore({name: array.copy() for name, array in one.arrays().items()})
    two.model.num_timesteps = one.model.num_timesteps
    found = [[replay.add(_decision(seen, 0.5)) for seen in (4, 5)] for replay in (one, two)]

    assert [[False, True]] * 2 == found
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, two.arrays()[name])
