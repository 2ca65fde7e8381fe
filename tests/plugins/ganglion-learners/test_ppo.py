"""PPO: networks by hand, rollouts, how it acts, how it clones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import Batch, Box, Discrete, LateCredit, Mode, Session
from ganglion_learners.ppo.brain import PpoBrain
from ganglion_learners.ppo.muscle import PpoMuscle

torch = pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
from ganglion_learners.ppo import cloning  # noqa: E402
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


PARAMS = {"rollout": 40, "minibatch": 16, "hidden": [16]}


def test_sends_after_each_rollout_only(halves) -> None:
    """All workers' decisions count together; an update goes out when the policy has changed."""
    brain = halves.brain(PpoBrain, **PARAMS)
    sent = [brain.learn(batch) is not None for batch in halves.rows(50, muscles=2)]

    assert [20, 40] == [i + 1 for i, it in enumerate(sent) if it]
    assert 100 == brain.decisions


def test_workers_and_bodies_have_advantages_of_their_own(halves) -> None:
    """Rows of two workers in turn give each the advantages that it would have had alone."""
    halves.act_on(Discrete(2))
    one, two = (halves.brain(PpoBrain, rollout=n, minibatch=64, hidden=[8]) for n in (20, 40))
    both = list(halves.rows(20, muscles=2))
    for batch in both[:-1]:
        two.learn(batch)
        one.learn(_only(batch, 1))
    for brain, batch in ((two, both[-1]), (one, _only(both[-1], 1))):
        brain._keep(batch, slice(0, len(batch)))
    alone, together = one._targets()[0], two._targets()[0]

    np.testing.assert_array_equal(alone, together[1::2])


@pytest.mark.parametrize("space", [Discrete(3), Box(-1.0, 1.0, (2,))])
def test_bodies_of_a_muscle_are_learned_from_apart(halves, space) -> None:
    """Rows of two bodies, with the data of both in one array, are as those of two workers one by one."""
    halves.act_on(space)
    workers, bodies = (halves.brain(PpoBrain, **PARAMS) for _ in range(2))
    muscle = halves.muscle(PpoMuscle, workers.policy())
    for i, rows in enumerate(halves.rows(25, muscles=2)):
        rows.actions, rows.data = muscle.propose_batch(halves.batch(bodies=2, seed=i))
        rows.objectives[i % 2] = 5.0
        assert isinstance(rows.data, np.ndarray)
        together = {name: getattr(rows, name) for name in rows.__slots__}
        together |= {"muscle": ["a/0", "a/0"], "body": [("a", "lake", 0), ("a", "lake", 1)]}
        one = workers.learn(type(rows)(**{**together, "muscle": rows.muscle, "data": list(rows.data)}))
        two = bodies.learn(type(rows)(**together))
        assert (one is None) == (two is None)
        if i == 21:  # somewhere in a rollout
            state = bodies.export_checkpoint_state()
            bodies = halves.brain(PpoBrain, **PARAMS)
            bodies.restore_checkpoint_state(state)
            bodies.rng.bit_generator.state = workers.rng.bit_generator.state

    for name, array in workers.arrays().items():
        np.testing.assert_array_equal(array, bodies.arrays()[name])
    for name, rows in workers._rows.items():
        np.testing.assert_array_equal(rows[: workers._filled], bodies._rows[name][: bodies._filled])


def test_late_credit_is_of_the_last_decision(halves) -> None:
    """It is added to the objective of the body's end as long as that is in the rollout; what comes later is counted."""
    halves.act_on(Discrete(2))
    brain = halves.brain(PpoBrain, **PARAMS)
    rows = next(halves.rows(1, muscles=2))
    rows.truncated[:] = True
    body = tuple(rows.body[0])
    brain.learn(rows)
    before = brain._rows["objectives"][:2].copy()
    credits_ = [LateCredit(rows.muscle[0], body, 0, 0, "lake.herd", 3.0, 1.5)]
    brain.late(credits_)

    assert [1.5, 0.0] == (brain._rows["objectives"][:2] - before).tolist()
    brain._filled = 0
    brain.late(credits_)
    assert {"late_missed": 1.0} == brain.pop_statistics()


def _only(batch, i):
    """Return the row of one muscle."""
    whole = {name: getattr(batch, name) for name in batch.__slots__}
    fields = {
        name: value if isinstance(value, int | dict | None) else value[i : i + 1] for name, value in whole.items()
    }
    return type(batch)(**fields)


def test_an_action_that_our_muscle_did_not_make_is_learned_from(halves) -> None:
    """Without its probability the brain takes its own policy's: the same as when the muscle had told it."""
    halves.act_on(Discrete(3))
    told, untold = (halves.brain(PpoBrain, **PARAMS) for _ in range(2))
    muscle = halves.muscle(PpoMuscle, told.policy())
    for i, rows in enumerate(halves.rows(40)):
        rows.actions, rows.data = muscle.propose_batch(halves.batch(seed=i))
        rows.observations[:] = halves.batch(seed=i).observations
        one = told.learn(rows)
        rows.data = [None]
        two = untold.learn(rows)
    for name in ("policy.0.weight", "policy.1.weight"):
        np.testing.assert_allclose(one[name], two[name], atol=1e-4)


def test_a_rollout_may_leave_one_decision_over(halves) -> None:
    """A last minibatch of a single decision joins the one before: nothing is divided by a spread of one."""
    brain = halves.brain(PpoBrain, rollout=33, minibatch=16)
    for batch in halves.rows(33):
        brain.learn(batch)

    assert 2 * 10 == brain._adam.steps


def test_stops_when_it_is_annealed(halves) -> None:
    """After `anneal_decisions` nothing changes any more."""
    brain = halves.brain(PpoBrain, **PARAMS, anneal_decisions=40)
    updates = [brain.learn(batch) for batch in halves.rows(120)]
    first, second, third = (it for it in updates if it is not None)

    assert np.array_equal(second["policy.0.weight"], first["policy.0.weight"])
    assert np.array_equal(third["policy.0.weight"], first["policy.0.weight"])


def _update(bias, **more):
    """Return a policy that says the same whatever it sees."""
    bias = np.array(bias, dtype=np.float32)
    return {
        "algorithm": "ppo",
        "activation": "tanh",
        "policy.0.weight": np.zeros((3, len(bias)), dtype=np.float32),
        "policy.0.bias": bias,
        **more,
    }


def test_draws_choices_by_their_probability(halves) -> None:
    """Choices come as often as the policy says, each with the logarithm of its probability."""
    halves.act_on(Discrete(3, start=5))
    shares = [0.5, 0.3, 0.2]
    muscle = halves.muscle(PpoMuscle, _update(np.log(shares) + 4.0))
    columns, data = muscle.propose_batch(halves.batch(bodies=4000))
    found = [(columns[:, 0] == 5 + i).mean() for i in range(3)]

    assert pytest.approx(shares, abs=0.03) == found
    np.testing.assert_allclose(data, np.log(np.array(shares))[columns[:, 0] - 5], rtol=1e-6)


def test_draws_continuous_columns_about_the_centre(halves) -> None:
    """Mean and spread are those of the policy in units of half the range, with the density beside the raw columns."""
    halves.act_on(Box(-10.0, 30.0, ()))
    muscle = halves.muscle(PpoMuscle, _update([0.5], log_std=np.array([-2.0], dtype=np.float32)))
    columns, data = muscle.propose_batch(halves.batch(bodies=4000))
    raw = np.array(data)[:, 1]

    assert pytest.approx([20.0, 20.0 * math.exp(-2.0)], rel=0.05) == [columns.mean(), columns.std()]
    np.testing.assert_allclose(columns[:, 0], 10.0 + 20.0 * raw, rtol=1e-5)
    density = -0.5 * ((raw - 0.5) / math.exp(-2.0)) ** 2 + 2.0 - 0.5 * math.log(2.0 * math.pi)
    np.testing.assert_allclose(np.array(data)[:, 0], density, rtol=1e-4, atol=1e-5)


def test_clips_to_the_space_and_tells_what_it_had_drawn(halves) -> None:
    """A column beyond its bound is set to the bound, and goes to the brain as it was drawn."""
    halves.act_on(Box(-1.0, 1.0, ()))
    muscle = halves.muscle(PpoMuscle, _update([3.0], log_std=np.array([-3.0], dtype=np.float32)))
    columns, data = muscle.propose_batch(halves.batch())

    assert 1.0 == columns[0, 0]
    assert data[0][1] > 2.0


def test_takes_the_most_likely_in_test(halves) -> None:
    """Without chance: the choice of highest probability, the centre of a column."""
    halves.act_on(Discrete(3, start=5))
    assert [[7]] == halves.muscle(PpoMuscle, _update([0.0, 1.0, 1.5]), Mode.TEST).propose_batch(halves.batch())[
        0
    ].tolist()
    halves.act_on(Box(-10.0, 30.0, ()))
    update = _update([0.5], log_std=np.zeros(1, dtype=np.float32))

    assert [[20.0]] == halves.muscle(PpoMuscle, update, Mode.TEST).propose_batch(halves.batch())[0].tolist()


def test_a_spread_of_other_columns_is_refused(halves) -> None:
    """With Box actuators the spread of each column is part of the update."""
    halves.act_on(Box(-10.0, 30.0, ()))
    for spread in (None, np.zeros(2, dtype=np.float32)):
        with pytest.raises(ValueError, match=r"log_std: expected \(1,\)"):
            halves.muscle(PpoMuscle, _update([0.5], log_std=spread))


@pytest.mark.parametrize("spaces", [(Discrete(3),), (Discrete(3), Discrete(2)), (Box(-1.0, 1.0, (2,)),)])
def test_the_brain_agrees_about_probabilities(halves, spaces) -> None:
    """What a muscle says how likely its action was, the brain computes too, up to rounding of float32."""
    import torch

    halves.act_on(*spaces)
    brain = halves.brain(PpoBrain)
    with torch.no_grad():
        brain.networks.parameters.flat.add_(
            torch.from_numpy(brain.rng.normal(scale=0.2, size=len(brain.networks.parameters.flat)).astype(np.float32))
        )
    batch = halves.batch(bodies=200)
    columns, data = halves.muscle(PpoMuscle, brain.policy()).propose_batch(batch)
    box = isinstance(spaces[0], Box)
    told = np.array(data)[:, 0] if box else np.array(data)
    actions = torch.from_numpy(np.array(data)[:, 1:] if box else columns)
    rows = torch.from_numpy(batch.observations.astype(np.float32))
    logs, _ = brain.networks.log_probability(rows, actions)

    np.testing.assert_allclose(told, logs.detach().numpy(), rtol=1e-4, atol=1e-5)


PARAMS_CLONING = {"hidden": [16], "minibatch": 16, "learning_rate": 0.01, "pretrain_epochs": 60}


def _sessions(halves: Any, act: Any, count: int = 4, length: int = 25, **more: Any) -> list[Session]:
    """Return episodes whose actions are those of a function of the readings."""
    drawn = [halves.session(length, seed=seed) for seed in range(count)]
    return [
        halves.session(length, seed=seed, observations=it.observations, actions=act(it.observations[:-1]), **more)
        for seed, it in enumerate(drawn)
    ]


def _batch(rows: Any) -> Batch:
    numbers = np.zeros(len(rows), dtype=np.int64)
    return Batch(rows, {}, list(range(len(rows))), numbers, numbers, Mode.TEST)


def test_numbers_are_cloned_and_something_is_left_to_chance(halves: Any) -> None:
    """The centre comes to the recorded setpoints, in their unit; the spread falls, to a fifth of half the range."""
    halves.act_on(Box(10.0, 20.0, ()))
    brain = halves.brain(PpoBrain, **PARAMS_CLONING)
    brain.pretrain(_sessions(halves, lambda seen: 15.0 + 3.0 * seen[:, :1]))
    rows = np.array([[0.5, 0.1, 1.0], [-0.5, 0.1, 2.0]])
    found = halves.muscle(PpoMuscle, brain.policy(), mode=Mode.TEST).propose_batch(_batch(rows))[0]

    np.testing.assert_allclose(found[:, 0], [16.5, 13.5], atol=0.5)
    assert pytest.approx(np.log(cloning.SPREAD_LEAST)) == brain.policy()["log_std"][0]


def test_all_decisions_count_however_many_are_mixed(halves: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording that is longer than what is held learns in parts, each decision once in a pass."""
    monkeypatch.setattr(cloning, "MIXED", 30)
    sizes: list[int] = []
    kept = cloning.Cloning._pass

    def counted(self: Any, batch: Any) -> Any:
        sizes.append(len(batch["returns"]))
        return kept(self, batch)

    monkeypatch.setattr(cloning.Cloning, "_pass", counted)
    brain = halves.brain(PpoBrain, **{**PARAMS_CLONING, "pretrain_epochs": 2})
    brain.pretrain([halves.session(25, seed=seed) for seed in range(4)])

    assert [30, 30, 30, 10] * 2 == sizes


def test_a_loss_that_is_none_is_told(halves: Any) -> None:
    """Objectives beyond all measure end it with the parameters that may be the cause."""
    brain = halves.brain(PpoBrain, **PARAMS_CLONING)
    with pytest.raises(FloatingPointError, match=r"the loss of cloning is .* learning_rate"):
        brain.pretrain([halves.session(5, objectives=np.full(5, 1e30))])
