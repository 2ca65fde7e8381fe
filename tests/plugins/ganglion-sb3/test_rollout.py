from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)
import torch
from gymnasium import spaces

from ganglion.sdk import ActuatorInformation, Box, Discrete, Memory, SensorInformation
from ganglion_sb3.algorithm import make_algorithm
from ganglion_sb3.brain import SB3Brain
from ganglion_sb3.codec import Actions
from ganglion_sb3.collector import Decision
from ganglion_sb3.rollout import Rollout
from ganglion_sb3.stream import Stream

PARAMS = {"n_steps": 3, "batch_size": 2, "n_epochs": 1, "gamma": 0.5, "gae_lambda": 0.8}


def _rollout(muscles):
    actions = Actions([("e.a", Discrete(2))])
    model = make_algorithm("PPO", "MlpPolicy", PARAMS, spaces.Box(-9.0, 9.0, (1,)), actions.space, len(muscles), None)
    return Rollout(model, actions, muscles, Stream(1))


def _decision(muscle, seen, objective, first=False, terminated=False, truncated=False, value=0.0):
    at = np.array([[seen]], np.float32)
    return Decision(
        muscle, at, np.array([[1]]), np.array([1.0, value, -0.5]), objective, at + 1, first, terminated, truncated
    )


def _value(model, seen):
    with torch.no_grad():
        return float(model.policy.predict_values(torch.tensor([[float(seen)]])))


@pytest.fixture
def advantages(monkeypatch):
    """Return what the buffer held when it was trained on."""
    found = []

    def _train(self):
        buffer = self.rollout_buffer
        found.append((buffer.advantages.ravel().tolist(), buffer.observations.ravel().tolist()))

    monkeypatch.setattr("stable_baselines3.PPO.train", _train)
    return found


def test_a_truncated_episode_and_a_border_bootstrap(advantages) -> None:
    """What is cut off counts what follows; rows of two muscles stand one after the other, and do not meet."""
    rollout = _rollout(["a/0", "a/1"])
    model = rollout.model
    told = [
        _decision("a/0", 0, 1.0, first=True), _decision("a/1", 5, 2.0, first=True),
        _decision("a/0", 1, 1.0, truncated=True), _decision("a/1", 6, 2.0, terminated=True),
        _decision("a/0", 3, 1.0, first=True),
    ]  # fmt: skip
    assert not any(rollout.add(it) for it in told)
    assert rollout.add(_decision("a/1", 8, 2.0, first=True))

    cut, border, last = (0.5 * _value(model, seen) for seen in (2, 4, 9))
    expected = [1 + 0.4 * (1 + cut), 1 + cut, 1 + border, 2 + 0.4 * 2, 2.0, 2 + last]
    np.testing.assert_allclose(advantages[0][0], expected, rtol=1e-5)
    assert [0.0, 1.0, 3.0, 5.0, 6.0, 8.0] == advantages[0][1]
    assert 6 == model.num_timesteps


def test_bodies_are_who_acts(make, rows_of) -> None:
    """Each body of each worker has rows of its own, as if it were a worker."""
    sensors, actuators = [SensorInformation(None, Box(-9, 9), "e.s")], [ActuatorInformation(0, Discrete(2), "e.a")]
    found = []
    for uids, bodies in ((["a/0", "a/1", "a/2", "a/3"], []), (["a/0", "a/1"], [("a", "lake", 0), ("a", "moor", 0)])):
        brain = make(SB3Brain, seed=1, algorithm_params=PARAMS)
        brain.sensors, brain.actuators, brain.muscles, brain.bodies = sensors, actuators, uids, bodies
        brain.memory = Memory()
        brain.setup()
        who = [(uid, body) for uid in uids for body in bodies or [("a", 0)]]
        rng = np.random.default_rng(0)
        for step in range(7):
            batch = rows_of(
                [uid for uid, _ in who],
                [
                    {
                        "seen": rng.uniform(-1, 1, (1, 1)),
                        "setpoints": np.array([[1]]),
                        "objective": float(rng.normal()),
                        "following": rng.uniform(-1, 1, (1, 1)),
                        "terminated": step == 2 and i == 1,
                        "truncated": step == 3 and i == 2,
                        "step": step,
                        "data": None,
                    }
                    for i in range(4)
                ],
            )
            batch.body = [body for _, body in who]
            assert (brain.learn(batch) is not None) == (step in (2, 5))
            if step == 4:
                state = brain.export_checkpoint_state()
                brain.setup()
                brain.restore_checkpoint_state(state)
        found.append(brain.arrays())

    assert ["a/0[lake/0]", "a/0[moor/0]", "a/1[lake/0]", "a/1[moor/0]"] == brain._collector.muscles
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[1][name])


def test_who_has_finished_leaves_its_place(advantages) -> None:
    """When one muscle makes no more rows, the other's fill the buffer."""
    rollout = _rollout(["a/0", "a/1"])
    rollout.add(_decision("a/1", 5, 2.0, first=True, terminated=True))
    for seen in range(4):
        assert not rollout.add(_decision("a/0", seen, 1.0, first=seen == 0))
    assert rollout.add(_decision("a/0", 4, 1.0))
    assert [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] == advantages[0][1]
