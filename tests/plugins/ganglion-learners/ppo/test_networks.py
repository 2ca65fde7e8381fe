from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")

from ganglion_learners.ppo.networks import ActorCritic, advantages  # noqa: E402 - it needs torch


def _advantages(rewards, values, following, bootstrap, over, discount=0.5, decay=0.5):
    columns = [np.array(it, dtype=np.float64) for it in (rewards, values, following, bootstrap)]
    return advantages(*columns, np.array(over, dtype=bool), discount, decay).tolist()


def test_advantages_by_hand() -> None:
    """Errors reach back by discount times lambda; the last decision counts what it led to."""
    found = _advantages([1, 1, 1], [0, 0, 0], [4, 4, 8], [1, 1, 1], [0, 0, 0])  # errors 3, 3, 5

    assert [3 + 0.25 * (3 + 0.25 * 5), 3 + 0.25 * 5, 5.0] == found


@pytest.mark.parametrize(("bootstrap", "error"), [(0.0, 1.0), (1.0, 3.0)])
def test_the_end_of_an_episode_by_hand(bootstrap, error) -> None:
    """A terminated decision has no future, a truncated one what it led to; over either end no error reaches back."""
    found = _advantages([1, 1, 1], [0, 0, 0], [4, 4, 8], [1, bootstrap, 1], [0, 1, 0])

    assert [3 + 0.25 * error, error, 5.0] == found


def test_without_decay_it_is_one_step_and_with_all_the_return() -> None:
    """Lambda 0 gives the error of each decision; lambda 1 the discounted sum of rewards less the value."""
    args = ([1, 2, 4], [7, 5, 3], [5, 3, 0], [1, 1, 0], [0, 0, 1])

    assert [1 + 2.5 - 7, 2 + 1.5 - 5, 4 - 3.0] == _advantages(*args, decay=0.0)
    assert [1 + 1 + 1 - 7.0, 2 + 2 - 5.0, 4 - 3.0] == _advantages(*args, decay=1.0)


@pytest.mark.parametrize("sizes", [(3,), (3, 2, 4)])
def test_probabilities_of_choices_sum_to_one(sizes) -> None:
    """Over all combinations of choices the probabilities sum to 1, and entropy is their mean surprise."""
    networks = ActorCritic(np.random.default_rng(1), 2, sizes, 0, [8], "tanh")
    with torch.no_grad():
        networks.parameters.flat.mul_(3.0)
    every = torch.from_numpy(np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1))
    rows = torch.tensor([[0.5, -1.0]]).expand(len(every), 2)
    logs, entropy = networks.log_probability(rows, every)

    assert pytest.approx(1.0, abs=1e-6) == logs.exp().sum().item()
    assert pytest.approx(-(logs.exp() * logs).sum().item(), abs=1e-5) == entropy[0].item()


def test_density_of_continuous_columns_is_torchs() -> None:
    """Log-density and entropy are those of independent normal distributions."""
    networks = ActorCritic(np.random.default_rng(1), 2, (), 3, [8], "tanh")
    with torch.no_grad():
        networks.parameters.tensors["log_std"].copy_(torch.tensor([-1.0, 0.0, 0.5]))
    rows, actions = torch.randn(5, 2), torch.randn(5, 3)
    mean = networks.parameters.forward("policy", rows, "tanh")
    normal = torch.distributions.Normal(mean, networks.parameters.tensors["log_std"].exp())
    logs, entropy = networks.log_probability(rows, actions)

    torch.testing.assert_close(logs, normal.log_prob(actions).sum(1))
    torch.testing.assert_close(entropy, normal.entropy().sum(1))


def test_the_loss_by_hand() -> None:
    """Ratios count up to the clip where that would flatter, advantages are normalised, errors of values are squared."""
    networks = ActorCritic(np.random.default_rng(1), 1, (2,), 0, [], "tanh")
    zero = {name: np.zeros_like(array) for name, array in networks.parameters.arrays().items()}
    networks.parameters.load(zero)  # each choice has probability 1/2, every value is 0
    half = math.log(0.5)
    batch = {
        "observations": torch.zeros(2, 1),
        "actions": torch.tensor([[0], [1]]),
        "logs": torch.tensor([half - math.log(2.0), half - math.log(2.0)]),  # both have become twice as likely
        "advantages": torch.tensor([1.0, -1.0]),
        "returns": torch.tensor([3.0, 1.0]),
    }
    loss, parts = networks.loss(batch, 0.2, 0.1, 0.5)
    gain = 1.0 / math.sqrt(2.0)  # normalised by the spread of two
    policy = -(1.2 * gain - 2.0 * gain) / 2

    assert pytest.approx(policy, rel=1e-5) == parts["policy_loss"].item()
    assert pytest.approx(5.0) == parts["value_loss"].item()
    assert pytest.approx(math.log(2.0)) == parts["entropy"].item()
    assert pytest.approx(policy + 2.5 - 0.1 * math.log(2.0), rel=1e-5) == loss.item()


def test_the_first_policy_is_nearly_uniform() -> None:
    """Before anything was learned no choice is preferred by much, whatever is seen."""
    networks = ActorCritic(np.random.default_rng(1), 4, (4,), 0, [64, 64], "tanh")
    logs, _ = networks.log_probability(torch.randn(100, 4), torch.zeros(100, 1, dtype=torch.int64))

    assert (logs.exp() - 0.25).abs().max() < 0.02
