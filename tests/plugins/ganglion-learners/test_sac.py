"""SAC: networks by hand, when it begins, how it acts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ganglion.sdk import Box, Mode
from ganglion_learners.sac.brain import SacBrain
from ganglion_learners.sac.muscle import SacMuscle

torch = pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
from ganglion_learners.sac.networks import SoftActorCritic  # noqa: E402 - it needs torch


def _networks(temperature: float = 0.5) -> SoftActorCritic:
    return SoftActorCritic(np.random.default_rng(1), 3, 2, [8], "relu", temperature)


def test_density_of_squashed_actions_is_torchs() -> None:
    """The log-density is that of a normal number sent through the hyperbolic tangent."""
    networks = _networks()
    rows, noise = torch.randn(50, 3), torch.randn(50, 2)
    actions, logs = networks.act(rows, noise)
    mean, log_std = networks.policy.forward("policy", rows, "relu").chunk(2, dim=1)
    normal = torch.distributions.Normal(mean, log_std.exp())
    squashed = torch.distributions.TransformedDistribution(normal, torch.distributions.TanhTransform(cache_size=1))
    raw = mean + log_std.exp() * noise

    torch.testing.assert_close(actions, raw.tanh())
    torch.testing.assert_close(logs, squashed.log_prob(raw.tanh()).sum(1), rtol=1e-3, atol=1e-3)


def test_density_keeps_its_digits_far_out() -> None:
    """Where the tangent is 1 in float32, the density is finite still."""
    networks = _networks()
    _, logs = networks.act(torch.zeros(1, 3), torch.full((1, 2), 40.0))

    assert torch.isfinite(logs).all()


def test_targets_by_hand() -> None:
    """The objective, and where a future exists the smaller of two slow critics with the bonus for entropy."""
    networks = _networks(temperature=0.5)
    following, noise = torch.randn(4, 3), torch.randn(4, 2)
    bootstrap = torch.tensor([1.0, 0.0, 1.0, 1.0])
    found = networks.targets(torch.ones(4), following, bootstrap, 0.9, noise)
    with torch.no_grad():
        actions, logs = networks.act(following, noise)
        both = networks.judge(networks.target, following, actions)
        expected = 1.0 + 0.9 * bootstrap * (torch.minimum(both[0], both[1]) - 0.5 * logs)

    torch.testing.assert_close(found, expected)
    assert 1.0 == found[1].item()


def test_losses_by_hand() -> None:
    """Half the squared errors of both critics; entropy against worth; a temperature that falls above its target."""
    networks = _networks(temperature=0.5)
    rows, actions, noise = torch.randn(4, 3), torch.rand(4, 2), torch.randn(4, 2)
    both = networks.judge(networks.critics, rows, actions)
    expected = 0.5 * ((both[0] - 2.0) ** 2).mean() + 0.5 * ((both[1] - 2.0) ** 2).mean()
    torch.testing.assert_close(networks.critic_loss(rows, actions, torch.full((4,), 2.0)), expected)

    loss, logs = networks.policy_loss(rows, noise)
    own, _ = networks.act(rows, noise)
    worth = networks.judge(networks.critics, rows, own).amin(0)
    torch.testing.assert_close(loss, (0.5 * logs - worth).mean())
    gradient = networks.temperature.gradient(networks.temperature_loss(torch.tensor([-3.0]), -2.0))

    assert not logs.requires_grad
    assert pytest.approx(5.0) == gradient.item()  # entropy 3 is 5 above -2: a step against this lowers it
    assert pytest.approx(math.log(0.5)) == networks.log_temperature.item()


def test_caution_by_hand() -> None:
    """It adds the mean squared distance to the recorded actions, in shares of what the critics hold of the own ones."""
    networks = _networks(temperature=0.5)
    rows, noise, recorded = torch.randn(4, 3), torch.randn(4, 2), torch.rand(4, 2)
    plain, _ = networks.policy_loss(rows, noise)
    loss, _ = networks.policy_loss(rows, noise, recorded, 0.4)
    own, _ = networks.act(rows, noise)
    size = networks.judge(networks.critics, rows, own).amin(0).abs().mean()

    torch.testing.assert_close(loss, plain + 0.4 * size * ((own - recorded) ** 2).mean())


def test_the_policys_gradient_leaves_the_critics() -> None:
    """What the policy learns does not move critics, and what critics learn does not move the slow ones."""
    networks = _networks()
    loss, _ = networks.policy_loss(torch.randn(4, 3), torch.randn(4, 2))

    assert len(networks.policy.flat) == len(networks.policy.gradient(loss))
    assert torch.equal(networks.critics.flat, networks.target.flat)
    assert not any(it.requires_grad for it in networks.target.tensors.values())


PARAMS = {"warm_up": 20, "minibatch": 32, "hidden": [16]}
BOX = Box(0.0, 10.0, ())


def test_begins_by_chance_and_tells_when_that_is_over(halves) -> None:
    """Until the warm-up nothing is sent; the first policy after it is to be followed."""
    halves.act_on(BOX)
    brain = halves.brain(SacBrain, **PARAMS, update_every=3)
    assert brain.initial_update("a/0")["uniform"]
    updates = [brain.learn(batch) for batch in halves.rows(30)]

    assert [21, 24, 27, 30] == [i + 1 for i, it in enumerate(updates) if it is not None]
    assert not updates[20]["uniform"]


def test_a_loaded_model_acts_at_once_and_learns_when_it_has_seen_enough(halves) -> None:
    """The replay is not part of the model: until it has filled again the policy stays, and is followed."""
    halves.act_on(BOX)
    one, two = halves.brain(SacBrain, **PARAMS), halves.brain(SacBrain, **PARAMS)
    for batch in halves.rows(25):
        one.learn(batch)
    two.load_arrays(one.arrays())
    updates = [two.learn(batch) for batch in halves.rows(20)]

    assert not two.initial_update("a/0")["uniform"]
    assert [None] * 19 == updates[:19]
    assert 1 == two._adams["policy"].steps - one._adams["policy"].steps


def test_the_temperature_goes_to_its_entropy(halves) -> None:
    """Far above the wanted entropy the temperature falls, far below it rises."""
    halves.act_on(BOX)
    found = []
    for wanted in (-20.0, 20.0):
        brain = halves.brain(SacBrain, **PARAMS, entropy_target=wanted, learning_rate=0.01)
        for batch in halves.rows(60):
            brain.learn(batch)
        found.append(brain.pop_statistics()["temperature"])

    assert found[0] < 0.9 < 1.1 < found[1]


def _update(centre: float, log_std: float, uniform: bool = False):
    """Return a policy of one column that says the same whatever it sees."""
    return {
        "algorithm": "sac",
        "activation": "relu",
        "uniform": uniform,
        "policy.0.weight": np.zeros((3, 2), dtype=np.float32),
        "policy.0.bias": np.array([centre, log_std], dtype=np.float32),
    }


def test_draws_about_the_centre_and_squashes(halves) -> None:
    """Before squashing the draws have the centre and the spread of the policy; the space contains all setpoints."""
    halves.act_on(Box(-10.0, 30.0, ()))
    columns, _ = halves.muscle(SacMuscle, _update(0.5, -1.0)).propose_batch(halves.batch(bodies=4000))
    raw = np.arctanh((columns - 10.0) / 20.0)

    assert pytest.approx([0.5, math.exp(-1.0)], rel=0.06) == [raw.mean(), raw.std()]
    assert -10.0 <= columns.min() <= columns.max() <= 30.0


def test_is_uniform_until_the_brain_has_warmed_up(halves) -> None:
    """Until then the policy is not asked: every setpoint of the range is as likely; in test it is asked at once."""
    halves.act_on(Box(-10.0, 30.0, ()))
    columns, _ = halves.muscle(SacMuscle, _update(5.0, -5.0, True)).propose_batch(halves.batch(bodies=4000))
    counts, _ = np.histogram(columns, bins=4, range=(-10.0, 30.0))

    assert counts.min() > 850
    assert 29.9 < halves.muscle(SacMuscle, _update(5.0, -5.0, True), Mode.TEST).propose_batch(halves.batch())[0][0, 0]


def test_an_update_that_does_not_say_so_is_refused(halves) -> None:
    """Whether to act by chance alone is part of the update."""
    halves.act_on(Box(-10.0, 30.0, ()))
    with pytest.raises(ValueError, match="uniform: expected a boolean"):
        halves.muscle(SacMuscle, {**_update(0.0, 0.0), "uniform": None})
