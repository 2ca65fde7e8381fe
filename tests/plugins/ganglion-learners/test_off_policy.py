from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.sdk import Box
from ganglion_learners.dqn.brain import DqnBrain
from ganglion_learners.sac.brain import SacBrain

PARAMS = {"warm_up": 8, "train_every": 4, "update_every": 3, "minibatch": 8, "hidden": [16]}


@pytest.mark.parametrize("cls", [DqnBrain, SacBrain])
def test_what_is_trained_is_sent_later_also_after_a_checkpoint(halves: Any, cls: type[Any]) -> None:
    """Trained by the 8th and 12th decision, it sends after the 9th and 12th; a successor at the 8th does so, too."""
    if cls is SacBrain:
        halves.act_on(Box(-1.0, 1.0, ()))
    first, rows = halves.brain(cls, **PARAMS), list(halves.rows(12))
    early = [first.learn(batch) is not None for batch in rows[:8]]
    other = halves.brain(cls, **PARAMS)
    other.restore_checkpoint_state(first.export_checkpoint_state())
    other.rng.bit_generator.state = first.rng.bit_generator.state
    late = [[brain.learn(batch) is not None for batch in rows[8:]] for brain in (first, other)]

    assert [False] * 8 == early
    assert [[True, False, False, True]] * 2 == late
    assert all(np.array_equal(array, other.arrays()[name]) for name, array in first.arrays().items())


@pytest.mark.parametrize("cls", [DqnBrain, SacBrain])
def test_recorded_decisions_fill_the_replay(halves: Any, cls: type[Any]) -> None:
    """It holds the newest of them as if they had been made, and they count; an unknown end is left out."""
    if cls is SacBrain:
        halves.act_on(Box(-1.0, 1.0, ()))
    sessions = [
        halves.session(5, seed=1),
        halves.session(4, seed=2, final=False),
        halves.session(3, seed=3, final=False, terminated=np.arange(3) == 2, truncated=np.zeros(3, dtype=bool)),
    ]
    brain, other = (halves.brain(cls, **PARAMS, replay=8, pretrain_steps=0) for _ in range(2))
    brain.pretrain(sessions)
    for session in sessions:
        other.learn(session.transitions())

    assert 5 + 3 + 3 == brain.decisions == other.decisions
    np.testing.assert_array_equal(brain._replay.arrays()["replay.rows"], other._replay.arrays()["replay.rows"])
    assert brain._replay.arrays()["replay.next"] == other._replay.arrays()["replay.next"] == 11 % 8


@pytest.mark.parametrize("cls", [DqnBrain, SacBrain])
def test_there_is_a_step_for_each_recorded_decision_or_as_many_as_are_wanted(halves: Any, cls: type[Any]) -> None:
    """The policy has moved then, the first update has it, and learning goes on with the first own decision."""
    if cls is SacBrain:
        halves.act_on(Box(-1.0, 1.0, ()))
    for wanted, expected in ((None, 10), (3, 3)):
        brain = halves.brain(cls, **PARAMS, pretrain_steps=wanted)
        before = brain.policy()
        brain.pretrain([halves.session(5, seed=seed) for seed in range(2)])
        adam = brain._adam if cls is DqnBrain else brain._adams["policy"]

        assert expected == adam.steps
        after = brain.initial_update("a/0")
        assert any(not np.array_equal(before[name], after[name]) for name in before)
        assert not after.get("uniform", False)
        for row in halves.rows(2):
            brain.learn(row)
        assert expected + 1 == adam.steps  # of the twelfth decision
