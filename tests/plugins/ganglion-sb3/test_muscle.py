from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)

from ganglion.sdk import Box, Discrete, Mode, MultiBinary, MultiDiscrete
from ganglion_sb3.muscle import SB3Muscle

SEEN = [("e.s", Box(-1.0, 1.0, (3,)))]
DQN = {"algorithm": "DQN", "algorithm_params": {"learning_starts": 5}, "total_timesteps": 100}


def _drawn(agent, muscle, count=30):
    vector = agent.vector(np.array([0.1, -0.5, 0.9]))
    return [agent.act(muscle, vector) for _ in range(count)]


def test_draws_in_training_and_takes_the_best_in_test(agent_of) -> None:
    """In training actions come from the policy's distribution, by the muscle's own stream; in test always one."""
    agent = agent_of(SEEN, [("e.a", Discrete(3, start=4))])
    one, two = ([row[0, 0] for row, _ in _drawn(agent, agent.muscle())] for _ in range(2))
    tests = [{row[0, 0] for row, _ in _drawn(agent, agent.muscle(mode=mode))} for mode in (Mode.TEST, Mode.EVALUATE)]

    assert one == two
    assert {4, 5, 6} == set(one)
    assert tests[0] == tests[1]
    assert 1 == len(tests[0])
    assert {4, 5, 6} == {row[0, 0] for row, _ in _drawn(agent, agent.muscle(mode=Mode.TEST, deterministic=False))}


def test_dqn_explores_by_chance_and_rate(agent_of) -> None:
    """By chance alone before learning starts, then at the rate of the update; without rate it is greedy."""
    agent = agent_of(SEEN, [("e.a", Discrete(3))], **DQN)
    update = agent.brain.initial_update("scout/0")
    assert update["random"]
    muscle = agent.muscles[0]
    assert {0, 1, 2} == {row[0, 0] for row, _ in _drawn(agent, muscle)}
    muscle.update({**update, "random": False, "rate": 0.0})
    best = {row[0, 0] for row, _ in _drawn(agent, muscle)}
    assert 1 == len(best)
    muscle.update({**update, "random": False, "rate": 0.5})
    assert {0, 1, 2} == {row[0, 0] for row, _ in _drawn(agent, muscle, 60)}


@pytest.mark.parametrize("algorithm", ["PPO", "SAC"])
def test_setpoints_stay_within_their_bounds(agent_of, algorithm) -> None:
    """Whatever is drawn, setpoints lie in their spaces, and of several actuators each has its own columns."""
    spaces = [Box(-0.1, 0.3, (2,)), Box(5.0, 7.0, ())]
    agent = agent_of(SEEN, [("e.a", spaces[0]), ("e.b", spaces[1])], algorithm=algorithm)
    for row, _ in _drawn(agent, agent.muscles[0]):
        assert spaces[0].contains(row[0, :2])
        assert spaces[1].contains(row[0, 2])


@pytest.mark.parametrize("space", [MultiDiscrete([2, 3], start=[1, -1]), MultiBinary(4), Box(-1.0, 1.0, (2, 2))])
def test_other_kinds_of_actions(agent_of, space) -> None:
    """PPO chooses from the four kinds of spaces; a vector of theirs is a value."""
    agent = agent_of(SEEN, [("e.a", space)])
    for row, _ in _drawn(agent, agent.muscles[0]):
        assert space.contains(space.from_vector(row[0]))


SDE = {"use_sde": True, "sde_sample_freq": 4}
NOISY = {"learning_starts": 0, "action_noise": 0.3}
PUSH = Box(-1.0, 1.0, (2,))


@pytest.mark.parametrize(
    ("actuator", "params"),
    [
        pytest.param(Discrete(3), {}, id="PPO"),
        pytest.param(PUSH, {"algorithm_params": SDE}, id="PPO-sde"),
        pytest.param(Discrete(3), DQN, id="DQN"),
        pytest.param(PUSH, {"algorithm": "SAC"}, id="SAC"),
        pytest.param(PUSH, {"algorithm": "SAC", "algorithm_params": {**SDE, "learning_starts": 0}}, id="SAC-sde"),
        pytest.param(PUSH, {"algorithm": "TD3", "algorithm_params": NOISY}, id="TD3"),
    ],
)
def test_goes_on_from_its_state(make, agent_of, actuator, params) -> None:
    """A new muscle that was only set up decides on as the one that it follows, and tells the brain the same bits."""
    agent = agent_of(SEEN, [("e.a", actuator)], **params)
    update = agent.brain.initial_update("scout/0")
    former, successor = agent.muscle(), make(SB3Muscle, seed=99)
    successor.sensors, successor.actuators = agent.sensors, agent.actuators
    successor.setup()
    _drawn(agent, former, 9)
    state = {name: array.copy() for name, array in former.save_state().items()}
    assert {np.ndarray} == {type(array) for array in state.values()}
    assert not any(array.dtype.hasobject for array in state.values())
    successor.load_state(state)

    for newer in (None, {**update, "rate": 0.5, "random": False}):
        if newer is not None:
            former.update(newer)
            successor.update(newer)
        for (one, told), (two, also) in zip(_drawn(agent, former), _drawn(agent, successor), strict=True):
            assert (one.tobytes(), told.tobytes()) == (two.tobytes(), also.tobytes())


def test_has_a_state_before_the_first_policy(make) -> None:
    """A muscle that nobody told anything has its streams only, and is none the wiser for loading them."""
    one, two = make(SB3Muscle), make(SB3Muscle, seed=9)
    one.setup()
    two.setup()
    two.load_state(one.save_state())

    assert one.save_state().keys() == two.save_state().keys()
    for name, array in one.save_state().items():
        np.testing.assert_array_equal(array, two.save_state()[name])


@pytest.mark.parametrize(
    ("update", "found"),
    [({"weights": 1, "basis": 2}, "found a map of weights, basis"), (None, "found a NoneType"), ([], "found a list")],
)
def test_the_update_of_another_brain_is_refused(agent_of, update, found) -> None:
    """What is none of sb3 is told so; the muscle acts as before."""
    muscle = agent_of(SEEN, [("e.a", Discrete(3))]).muscles[0]
    with pytest.raises(ValueError, match=f"expected one of sb3, {found}"):
        muscle.update(update)


def test_without_a_policy_it_says_what_is_missing(make, agent_of) -> None:
    """A muscle that nobody told anything does not act by chance."""
    agent = agent_of(SEEN, [("e.a", Discrete(3))])
    muscle = make(SB3Muscle, mode=Mode.TEST)
    muscle.setup()
    with pytest.raises(RuntimeError, match="sb3 has no policy"):
        agent.act(muscle, agent.vector(np.zeros(3)))
    with pytest.raises(NotImplementedError):
        muscle.propose_actions([], [])


def test_policy_and_state_for_other_sensors_are_refused(agent_of) -> None:
    """Those of other spaces are none of these."""
    one = agent_of(SEEN, [("e.a", Discrete(3))])
    two = agent_of([("e.s", Box(-1.0, 1.0, (4,)))], [("e.a", Discrete(3))])
    with pytest.raises(ValueError, match="the policy is for other sensors"):
        one.muscles[0].update(two.brain.initial_update("scout/0"))
    with pytest.raises(ValueError, match="the policy is for other sensors"):
        one.muscles[0].load_state(two.muscles[0].save_state())


def test_images_are_seen_by_their_policy(agent_of) -> None:
    """A policy of convolutions takes an image as it is declared, channels last."""
    image = Box(0, 255, (36, 40, 3), np.uint8)
    params = {"algorithm_params": {"n_steps": 2, "batch_size": 2}, "policy": "CnnPolicy"}
    agent = agent_of([("e.s", image)], [("e.a", Discrete(3))], **params)
    row, data = agent.act(agent.muscles[0], agent.vector(image.sample(np.random.default_rng(1))))

    assert (1, 1) == row.shape
    assert (3,) == data.shape
    assert (3, 36, 40) == agent.brain.model.observation_space.shape
