"""Rollouts, replay memories and recordings, and when they are trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)
import torch
from gymnasium import spaces

from ganglion.sdk import ActuatorInformation, Box, Discrete, Memory, Mode, SensorInformation, Session
from ganglion_learners import Recording
from ganglion_sb3.algorithm import make_algorithm
from ganglion_sb3.brain import SB3Brain
from ganglion_sb3.codec import Actions, Observations
from ganglion_sb3.collector import Decision
from ganglion_sb3.recording import Recorded
from ganglion_sb3.replay import Replay
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


def _replay(muscles=("a/0",), **params):
    actions = Actions([("e.a", Box(-2.0, 2.0, (1,)))])
    given = {"learning_starts": 2, "batch_size": 2, "buffer_size": 4, "policy_kwargs": {"net_arch": [4]}, **params}
    model = make_algorithm("SAC", "MlpPolicy", given, spaces.Box(-9.0, 9.0, (1,)), actions.space, len(muscles), None)
    return Replay(model, actions, list(muscles), Stream(1))


def _off_policy(seen, data=None, muscle="a/0", terminated=False, truncated=False):
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
        replay.add(_off_policy(seen, 0.0, muscle=f"a/{seen % muscles}", terminated=seen in (1, 4)))

    assert expected == trainings


def test_recorded_decisions_fill_the_buffer_and_are_trained_on() -> None:
    """The newest are kept as if they had been made, with a step for each; then learning has started, also elsewhere."""
    recorded = [[_off_policy(0), _off_policy(1), _off_policy(2, truncated=True)], [_off_policy(3), _off_policy(4)]]
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
    assert three.add(_off_policy(5))


def test_there_may_be_other_steps_than_recorded_decisions() -> None:
    """As many as are wanted; none only fills the buffer."""
    for steps in (0, 7):
        replay = _replay()
        replay.pretrain([[_off_policy(0), _off_policy(1)]], steps, 9)
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

    replay.pretrain([[_off_policy(0)]], 1, 9)
    assert same()
    replay.pretrain([[_off_policy(0)]], 1, 9)
    assert not same() or 8 == model._n_calls
    replay.pretrain([[_off_policy(0)]], 2, 9)
    assert not same()


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


SEEN, SET = Box(-9.0, 9.0, (2,)), Discrete(3, start=5)
LENGTH = 4


def _session(**more: Any) -> Session:
    """Return an episode whose first reading counts the decisions; nobody knows what followed the last one."""
    seen = np.column_stack([np.arange(LENGTH), np.zeros(LENGTH)]).astype(np.float64)
    given = {
        "sensors": [SensorInformation(None, SEEN, "e.s")],
        "actuators": [ActuatorInformation(5, SET, "e.a")],
        "observations": seen,
        "actions": np.array([[5], [6], [7], [5]]),
        "rewards": np.zeros((LENGTH, 0)),
        "objectives": np.arange(LENGTH, dtype=np.float64),
        "terminated": np.zeros(LENGTH, dtype=bool),
        "truncated": np.zeros(LENGTH, dtype=bool),
        "ticks": np.arange(LENGTH),
        **more,
    }
    return Session("past-1", 2, 1, "a", "e", 0, 3, Mode.TRAIN, reward_ids=[], **given)


def _recording(*sessions: Session) -> Recorded:
    sensors, actuators = [SensorInformation(None, SEEN, "e.s")], [ActuatorInformation(5, SET, "e.a")]
    checked = Recording(sessions, "sb3", sensors, actuators, Actions([("e.a", SET)]).check)
    return Recorded(checked, Observations([("e.s", SEEN)], False))


def test_an_episode_is_cut_where_nobody_knows_how_it_went_on() -> None:
    """The last decision is left out, and the one before it is truncated, with what it led to; one that ended is not."""
    [episode] = _recording(_session())
    assert 3 == len(episode)
    assert [(True, False), (False, False), (False, True)] == [(it.first, it.truncated) for it in episode]
    assert [3.0] == episode[-1].following[:, 0].tolist()

    [ended] = _recording(_session(terminated=np.arange(LENGTH) == LENGTH - 1))
    assert [False, False, False, True] == [it.done for it in ended]


HOLES = np.array([0.0, np.nan, 0.0, 0.0])
OTHER = [SensorInformation(None, SEEN, "e.t")]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"actions": np.full((LENGTH, 1), 8)}, r"action 8 \(column 0\), expected a whole number in \[5, 7\]"),
        ({"actions": np.full((LENGTH, 1), 5.5)}, r"the action 5\.5 \(column 0\)"),
        ({"objectives": HOLES}, "decision 1 has none as an objective"),
        ({"observations": np.full((LENGTH, 2), np.nan)}, r"decision 0 has none as a reading \(column 0\)"),
        ({"sensors": OTHER}, r"expected the sensors e\.s, found e\.t"),
        ({"actuators": []}, r"expected the actuators e\.a, found $"),
    ],
)
def test_what_does_not_fit_is_refused(changed: Any, told: str) -> None:
    """The message names the session and what is wrong with it."""
    place = "sb3 cannot learn from run past-1, phase 2, agent a, worker 1, episode 3: "
    with pytest.raises(ValueError, match=f"{place}.*{told}"):
        list(_recording(_session(**changed)))


def _draw(stream):
    with stream.running():
        return torch.rand(3).tolist(), np.random.rand(3).tolist()  # noqa: NPY002 - that generator it is


def test_is_an_objects_own() -> None:
    """What others draw changes nothing of it, nor it of theirs; it begins as Stable-Baselines3 seeds."""
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    outside = torch.get_rng_state()
    one, two = Stream(2**40 + 7), Stream(2**40 + 7)
    found = [_draw(one), _draw(one)]
    assert torch.equal(outside, torch.get_rng_state())
    torch.rand(5)
    assert found == [_draw(two), _draw(two)]
    torch.manual_seed(2**40 + 7)
    np.random.seed((2**40 + 7) % 2**32)  # noqa: NPY002
    assert found[0] == (torch.rand(3).tolist(), np.random.rand(3).tolist())  # noqa: NPY002
