from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)
from gymnasium import spaces

from ganglion.sdk import Box, Discrete
from ganglion_sb3.algorithm import make_algorithm
from ganglion_sb3.codec import Actions
from ganglion_sb3.collector import Decision
from ganglion_sb3.replay import Replay
from ganglion_sb3.stream import Stream


def _replay(muscles=("a/0",), **params):
    actions = Actions([("e.a", Box(-2.0, 2.0, (1,)))])
    given = {"learning_starts": 2, "batch_size": 2, "buffer_size": 4, "policy_kwargs": {"net_arch": [4]}, **params}
    model = make_algorithm("SAC", "MlpPolicy", given, spaces.Box(-9.0, 9.0, (1,)), actions.space, len(muscles), None)
    return Replay(model, actions, list(muscles), Stream(1))


def _decision(seen, data=None, muscle="a/0", terminated=False, truncated=False):
    at = np.array([[seen]], np.float32)
    told = None if data is None else np.array([data])
    return Decision(muscle, at, np.array([[1.0]]), told, float(seen), at + 1, seen == 0, terminated, truncated)


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


def test_recorded_decisions_fill_the_buffer_and_are_trained_on() -> None:
    """The newest are kept as if they had been made, with a step for each; then learning has started, also elsewhere."""
    recorded = [[_decision(0), _decision(1), _decision(2, truncated=True)], [_decision(3), _decision(4)]]
    one, two = _replay(learning_starts=50), _replay(learning_starts=50)
    one.pretrain(recorded, None, 9)
    for decision in [it for episode in recorded for it in episode]:
        two.add(decision)

    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        np.testing.assert_array_equal(getattr(one.model.replay_buffer, name), getattr(two.model.replay_buffer, name))
    assert (5, 0) == (one.model._n_updates, two.model._n_updates)
    assert (0, False, True) == (
        one.model.num_timesteps, one.exploration["random"], two.exploration["random"]
    )  # fmt: skip
    three = _replay(learning_starts=50)
    three.restore(one.arrays())
    assert not three.exploration["random"]
    assert three.add(_decision(5))


def test_there_may_be_other_steps_than_recorded_decisions() -> None:
    """As many as are wanted; none only fills the buffer."""
    for steps in (0, 7):
        replay = _replay()
        replay.pretrain([[_decision(0), _decision(1)]], steps, 9)
        assert steps == replay.model._n_updates


def test_the_target_of_dqn_follows_what_was_recorded() -> None:
    """It does as often as with one step after every `train_freq` decisions."""
    actions = Actions([("e.a", Discrete(2))])
    given = {"target_update_interval": 8, "train_freq": 4, "buffer_size": 9, "policy_kwargs": {"net_arch": [4]}}
    model = make_algorithm("DQN", "MlpPolicy", given, spaces.Box(-9.0, 9.0, (1,)), actions.space, 1, 10)
    replay = Replay(model, actions, ["a/0"], Stream(1))
    before = {name: it.clone() for name, it in model.q_net_target.state_dict().items()}

    def same() -> bool:
        return all(bool((it == before[name]).all()) for name, it in model.q_net_target.state_dict().items())

    replay.pretrain([[_decision(0)]], 1, 9)
    assert same()
    replay.pretrain([[_decision(0)]], 1, 9)
    assert not same() or 8 == model._n_calls
    replay.pretrain([[_decision(0)]], 2, 9)
    assert not same()
