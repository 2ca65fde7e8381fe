from __future__ import annotations

import pytest

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)
import torch
from gymnasium import spaces

from ganglion_sb3.algorithm import algorithm_named, make_algorithm, make_policy

SEEN, CHOSEN, PUSHED = spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), spaces.Box(-2.0, 2.0, (2,))


def _made(name="PPO", policy="MlpPolicy", chosen=CHOSEN, muscles=1, total=None, **params):
    return make_algorithm(name, policy, params, SEEN, chosen, muscles, total)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "PPQ"}, r"algorithm: expected one of A2C, .*, found 'PPQ'; did you mean `PPO`\?"),
        ({"policy": "MlpLstmPolicy"}, "policy: expected one of MlpPolicy"),
        ({"n_step": 3}, r"PPO does not take 'n_step'; expected batch_size, clip_range.*; did you mean `n_steps`\?"),
        ({"seed": 3}, "does not take 'seed', which the bus sets; expected"),
        ({"policy_kwargs": {"net_arc": [3]}}, r"of PPO does not take 'net_arc'; expected .*; did you mean `net_arch`"),
        ({"policy_kwargs": {"activation_fn": "Rulu"}}, "activation_fn: expected a class of torch.nn, found 'Rulu'"),
        ({"policy_kwargs": {"features_extractor_class": "os.system"}}, "does not take 'features_extractor_class'"),
        ({"learning_rate": {"cosine": 1}}, r"expected a number or \{linear: number\}"),
        ({"learning_rate": {"linear": 1e-3}}, "learning_rate follows a schedule: say over how many"),
        ({"name": "DQN"}, "the exploration of DQN follows a schedule"),
        ({"name": "SAC"}, "SAC chooses actions of the kinds Box, found Discrete"),
        ({"name": "DQN", "chosen": PUSHED, "total": 9}, "DQN chooses actions of the kinds Discrete"),
        ({"name": "SAC", "chosen": PUSHED, "n_steps": 3, "muscles": 2}, "returns over several steps need one worker"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given, message) -> None:
    """Unknown parameters are refused by the algorithm's own signature, with the nearest right one."""
    with pytest.raises(ValueError, match=message):
        _made(**given)


def test_parameters_arrive() -> None:
    """What is given is what the algorithm has; workers share its rollout; a schedule falls to 0."""
    made = _made(
        n_steps=10, muscles=3, total=100, gamma=0.5, clip_range={"linear": 0.4},
        policy_kwargs={"net_arch": [7], "activation_fn": "ELU"},
    )  # fmt: skip

    assert (30, 0.5, 1) == (made.rollout_buffer.buffer_size, made.gamma, made.rollout_buffer.n_envs)
    assert [0.4, 0.2, 0.0] == [made.clip_range(left) for left in (1.0, 0.5, 0.0)]
    assert isinstance(made.policy.mlp_extractor.policy_net[1], torch.nn.ELU)
    assert (7, 3) == made.policy.mlp_extractor.policy_net[0].weight.shape


@pytest.mark.parametrize(("name", "chosen"), [("PPO", CHOSEN), ("DQN", CHOSEN), ("SAC", PUSHED), ("TD3", PUSHED)])
def test_a_policy_alone_is_that_of_the_algorithm(name, chosen) -> None:
    """A muscle's policy has the same parameters, name by name, as the brain's."""
    arguments = {"net_arch": [5, 6]}
    made = _made(name, chosen=chosen, total=10, policy_kwargs=arguments)
    alone = make_policy(name, "MlpPolicy", arguments, False, SEEN, chosen)
    theirs, ours = ({k: v.shape for k, v in it.state_dict().items()} for it in (made.policy, alone))

    assert theirs == ours
    assert not alone.training


def test_a_dict_needs_its_policy() -> None:
    """A Dict of observations is for the policy that takes several inputs."""
    with pytest.raises(ValueError, match="a Dict needs MultiInputPolicy"):
        make_algorithm("PPO", "MlpPolicy", {}, spaces.Dict({"a": SEEN}), CHOSEN, 1, None)
    assert "PPO" == algorithm_named("PPO").__name__
