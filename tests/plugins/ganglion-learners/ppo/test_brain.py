from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import Box, Discrete, LateCredit
from ganglion_learners.ppo.brain import PpoBrain
from ganglion_learners.ppo.muscle import PpoMuscle

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
