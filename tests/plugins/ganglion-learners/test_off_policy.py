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
