from __future__ import annotations

import pytest

from ganglion.sdk import Discrete
from ganglion_learners.dqn.brain import DqnBrain

PARAMS = {"warm_up": 8, "train_every": 4, "gradient_steps": 3, "target_every": 5, "minibatch": 8, "hidden": [16]}


def test_trains_when_it_is_due(halves) -> None:
    """After the warm-up every fourth decision has three steps, and the target follows every fifth of these."""
    brain = halves.brain(DqnBrain, **PARAMS)
    steps, equal, sent = [], [], []
    for batch in halves.rows(16):
        sent.append(brain.learn(batch) is not None)
        steps.append(brain._adam.steps)
        equal.append(bool((brain.networks.parameters.flat == brain.networks.target.flat).all()))

    assert [0] * 7 + [3] * 4 + [6] * 4 + [9] == steps
    assert [True] * 7 + [False] * 9 == equal
    assert [8, 12, 16] == [i + 1 for i, it in enumerate(sent) if it]


@pytest.mark.parametrize(("every", "expected"), [(1, [8, 12, 16]), (5, [10, 15]), (8, [8, 16])])
def test_sends_what_has_changed_when_it_is_due(halves, every, expected) -> None:
    """A policy goes out after a decision whose number is a multiple, if it has been trained since."""
    brain = halves.brain(DqnBrain, **{**PARAMS, "update_every": every})
    sent = [brain.learn(batch) is not None for batch in halves.rows(16)]

    assert expected == [i + 1 for i, it in enumerate(sent) if it]


def test_two_actuators_are_refused(halves) -> None:
    """The brain looks at the actuators as the muscle does."""
    halves.act_on(Discrete(2), Discrete(2))
    with pytest.raises(ValueError, match="dqn acts on exactly one"):
        halves.brain(DqnBrain)
