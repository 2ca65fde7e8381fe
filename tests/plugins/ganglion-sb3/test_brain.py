from __future__ import annotations

from copy import deepcopy

import gymnasium
import numpy as np
import pytest

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)
import stable_baselines3
import torch

from ganglion.sdk import ActuatorInformation, Box, Discrete, Models, SensorInformation, Signal
from ganglion.testing import check_brain, check_muscle
from ganglion_sb3.brain import SB3Brain
from ganglion_sb3.muscle import SB3Muscle

PPO = {"algorithm": "PPO", "algorithm_params": {"n_steps": 16, "batch_size": 8, "n_epochs": 2}}
A2C = {"algorithm": "A2C", "algorithm_params": {"n_steps": 8}}
DQN = {
    "algorithm": "DQN",
    "algorithm_params": {
        "train_freq": 1, "learning_starts": 20, "batch_size": 16, "target_update_interval": 9, "buffer_size": 500,
        "exploration_fraction": 0.5,
    },
    "total_timesteps": 70,
}  # fmt: skip
SMALL = {"learning_starts": 10, "batch_size": 16, "policy_kwargs": {"net_arch": [16, 16]}, "buffer_size": 500}
SAC = {"algorithm": "SAC", "algorithm_params": SMALL}
TD3 = {"algorithm": "TD3", "algorithm_params": {**SMALL, "action_noise": 0.1}}
SEVERAL = {"policy": "MultiInputPolicy"}
CASES = [
    pytest.param("CartPole-v1", PPO, 64, id="PPO"),
    pytest.param("Pendulum-v1", PPO, 64, id="PPO-box"),
    pytest.param("CartPole-v1", A2C, 40, id="A2C", marks=pytest.mark.long),
    pytest.param("CartPole-v1", DQN, 70, id="DQN"),
    pytest.param("Pendulum-v1", SAC, 40, id="SAC", marks=pytest.mark.long),
    pytest.param("Pendulum-v1", TD3, 40, id="TD3"),
    pytest.param("Pendulum-v1", {**TD3, "algorithm": "DDPG"}, 30, id="DDPG", marks=pytest.mark.long),
]


def _as_theirs(agent):
    """Give brain and muscle the one stream of random numbers that Stable-Baselines3 has."""
    agent.muscles[0].stream = agent.brain.stream
    agent.muscles[0]._actions.space.seed(5)


def _theirs(id, params):  # noqa: A002
    """Return their own algorithm with equal parameters."""
    given = deepcopy(params["algorithm_params"])  # they add to it
    world = gymnasium.make(id)
    if "action_noise" in given:
        size = world.action_space.shape
        noise = stable_baselines3.common.noise.NormalActionNoise(np.zeros(size), np.full(size, given["action_noise"]))
        given["action_noise"] = noise
    return getattr(stable_baselines3, params["algorithm"])("MlpPolicy", world, seed=5, device="cpu", **given)


@pytest.mark.parametrize(("id", "params", "steps"), CASES)
def test_learns_bit_by_bit_as_stable_baselines3(walk, id, params, steps) -> None:  # noqa: A002
    """With equal random numbers all weights after training are those that their own `learn` comes to."""
    torch.set_num_threads(1)  # as ours: how a sum is split decides its last bits
    theirs = _theirs(id, params)
    theirs.learn(steps)
    agent, _ = walk(id, steps, prepare=_as_theirs, **params)
    model = agent.brain.model

    assert (theirs.num_timesteps, theirs._n_updates) == (model.num_timesteps, model._n_updates)
    assert theirs._n_updates > 0
    for name, value in theirs.policy.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), model.policy.state_dict()[name].numpy(), err_msg=name)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({**PPO, "algorithm": "A2C", "algorithm_params": {}}, "algorithm is 'PPO', expected 'A2C'"),
        (
            {**PPO, "algorithm_params": {**PPO["algorithm_params"], "policy_kwargs": {"net_arch": [8]}}},
            r"policy_kwargs is \{\}, expected \{'net_arch': \[8\]\}",
        ),
    ],
)
def test_the_model_of_another_architecture_is_refused(walk, agent_of, tmp_path, params, message) -> None:
    """What differs is named, and the weights stay."""
    agent, _ = walk("CartPole-v1", 1, **PPO)
    agent.brain.models = Models(tmp_path)
    agent.brain.store()
    sensors = [(it.uid, it.space) for it in agent.sensors]
    other = agent_of(sensors, [(it.uid, it.space) for it in agent.actuators], **params)
    before = {name: array.tobytes() for name, array in other.brain.arrays().items()}
    other.brain.models = Models(tmp_path)

    with pytest.raises(ValueError, match=message):
        other.brain.load()
    assert before == {name: array.tobytes() for name, array in other.brain.arrays().items()}


def test_rows_of_another_muscle_are_learned_from(walk) -> None:
    """Where nobody told what the algorithm wants to know, the policy itself says it of the action."""
    told, _ = walk("CartPole-v1", 16, prepare=_as_theirs, **PPO)
    guessed, _ = walk("CartPole-v1", 16, prepare=_as_theirs, tell=False, **PPO)

    assert 1 == guessed.brain.model._n_updates // 2
    one, two = told.brain.arrays(), guessed.brain.arrays()
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("objective", "told"), [(np.nan, "none"), (1e300, "1e[+]300, which is infinite in float32")])
def test_a_decision_without_objective_is_an_error(walk, round_of, objective, told) -> None:
    """There is nothing to learn from None, nor from what is no number where the algorithm computes."""
    agent, walks = walk("CartPole-v1", 1, **PPO)
    walks[0].world = _Worthless(walks[0].world, objective)
    with pytest.raises(
        ValueError, match=rf"needs a finite objective .* decision 1 of scout/0 in its episode 0 has {told}"
    ):
        round_of(agent, walks)


class _Worthless(gymnasium.Wrapper):
    """Reward with one and the same number."""

    def __init__(self, env, reward) -> None:
        super().__init__(env)
        self.reward = reward

    def step(self, action):
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, self.reward, terminated, truncated, info


def test_a_class_without_torch_is_listed(make) -> None:
    """The object is made without its library; what it says of wrong parameters comes with `setup`."""
    with pytest.raises(ValueError, match="total_timesteps: expected at least 1, found 0"):
        make(SB3Brain, total_timesteps=0)
    with pytest.raises(NotImplementedError):
        make(SB3Brain).thinking("scout/0", None)


@pytest.mark.parametrize(
    ("params", "actuator"),
    [
        pytest.param(PPO, ActuatorInformation(1, Discrete(3, start=1), "e.a"), id="PPO"),
        pytest.param(DQN, ActuatorInformation(1, Discrete(3, start=1), "e.a"), id="DQN", marks=pytest.mark.long),
        pytest.param(SAC, ActuatorInformation(0.0, Box(-1.0, 1.0, ()), "e.a"), id="SAC", marks=pytest.mark.long),
        pytest.param(
            {**PPO, **SEVERAL},
            ActuatorInformation(1, Discrete(3, start=1), "e.a"),
            id="PPO-several",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {**DQN, **SEVERAL},
            ActuatorInformation(1, Discrete(3, start=1), "e.a"),
            id="DQN-several",
            marks=pytest.mark.long,
        ),
    ],
)
def test_keeps_its_contract(params, actuator) -> None:
    """Updates travel and fit the muscle, a model is stored and loaded, a checkpoint goes on."""
    sensors = [SensorInformation(None, Box(-1.0, 1.0, (2,)), "e.s"), SensorInformation(None, Discrete(3), "e.t")]
    given = {"sensors": sensors, "actuators": [actuator]}
    check_brain(SB3Brain, {**params, "pretrain_steps": 5, "pretrain_epochs": 1}, muscle=SB3Muscle, **given)
    check_muscle(SB3Muscle, brain=SB3Brain, brain_params=params, **given)


@pytest.mark.parametrize(("total", "expected"), [(None, []), (20, [32]), (33, [48])])
def test_the_phase_stops_with_the_training_that_is_due_at_its_total(walk, round_of, total, expected) -> None:
    """As `learn` does, a rollout is completed and trained on; then the phase is asked to stop."""
    agent, walks = walk("CartPole-v1", 0, **PPO, total_timesteps=total)
    found = []
    for made in range(1, 50):
        round_of(agent, walks)
        signal = agent.brain.pop_signal()
        if signal is not None:
            found.append((made, *signal))

    assert [(made, Signal.STOP_PHASE, f"total_timesteps {total}") for made in expected] == found[:1]


def test_what_cannot_be_learned_on_is_told(walk, round_of) -> None:
    """Parameters that have become NaN are not sent: the first one is named, with the learning rate."""
    agent, walks = walk("CartPole-v1", 12, **A2C)
    with torch.no_grad():
        agent.brain.model.policy.value_net.bias.fill_(torch.nan)
    for _ in range(3):
        round_of(agent, walks)
    told = r"A2C of sb3: \S+ has NaN or infinity after 16 decisions.*; learning_rate 0\.0007;"
    with pytest.raises(FloatingPointError, match=told):
        round_of(agent, walks)


def test_the_model_of_another_brain_is_refused(agent_of, tmp_path) -> None:
    """A model without the architecture that ours have is not looked into."""
    agent = agent_of([("e.s", Box(-1.0, 1.0, (3,)))], [("e.a", Discrete(3))], **PPO)
    agent.brain.models = Models(tmp_path)
    agent.brain.models.save({"weights": np.zeros(3)})
    agent.brain.models = Models(tmp_path / "next", tmp_path)
    with pytest.raises(ValueError, match="is not one of sb3: expected the architecture of PPO beside it, found none"):
        agent.brain.load()
