from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)
import torch
from gymnasium import spaces

from ganglion_sb3.algorithm import make_algorithm
from ganglion_sb3.weights import acting, arrays_of, restore, take_parameters

SEEN, CHOSEN, PUSHED = spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), spaces.Box(-2.0, 2.0, (2,))
NAMES = {"A2C": CHOSEN, "DDPG": PUSHED, "DQN": CHOSEN, "PPO": CHOSEN, "SAC": PUSHED, "TD3": PUSHED}


def _made(name, width=8, **params):
    given = {"policy_kwargs": {"net_arch": [width]}, **params}
    return make_algorithm(name, "MlpPolicy", given, SEEN, NAMES[name], 1, 100)


def _stepped(name):
    """Return an algorithm whose optimisers have moments."""
    made = _made(name)
    for optimiser in [
        getattr(part, "optimizer", None)
        for part in (made.policy, getattr(made, "actor", None), getattr(made, "critic", None))
    ]:
        if optimiser is not None:
            for group in optimiser.param_groups:
                for parameter in group["params"]:
                    parameter.grad = torch.ones_like(parameter)
            optimiser.step()
    return made


@pytest.mark.parametrize("name", NAMES)
def test_all_that_training_changes_there_and_back(name) -> None:
    """Parameters and moments have names and come back bit for bit; the next step of an optimiser is the same."""
    one, two = _stepped(name), _made(name)
    arrays = arrays_of(one)
    restore(two, {key: array.copy() for key, array in arrays.items()})

    assert any("/" in key for key in arrays)
    assert all(array.dtype.kind in "fiub" for array in arrays.values())
    again = arrays_of(two)
    assert list(arrays) == list(again)
    assert all(arrays[key].tobytes() == again[key].tobytes() for key in arrays)


@pytest.mark.parametrize("name", NAMES)
def test_another_network_is_refused(name) -> None:
    """A parameter of another shape is named, and nothing is changed."""
    made = _made(name)
    before = {key: array.tobytes() for key, array in arrays_of(made).items()}
    with pytest.raises(ValueError, match=r"the stored network is another one: .* expected"):
        restore(made, arrays_of(_made(name, width=9)))
    assert before == {key: array.tobytes() for key, array in arrays_of(made).items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_muscle_gets_what_acts(name) -> None:
    """Of off-policy algorithms neither targets nor critics travel; what travels is copied, and fits or is refused."""
    one, two = _made(name), _made(name)
    sent = acting(name, one.policy)
    take_parameters(name, two.policy, sent)
    first = next(iter(sent))

    assert not any("target" in key or key.startswith("critic") for key in sent)
    np.testing.assert_array_equal(sent[first], two.policy.state_dict()[first].numpy())
    two.policy.state_dict()[first].add_(1.0)
    np.testing.assert_array_equal(sent[first], one.policy.state_dict()[first].numpy())
    with pytest.raises(ValueError, match="another one"):
        take_parameters(name, two.policy, {key: array for key, array in sent.items() if key != first})
