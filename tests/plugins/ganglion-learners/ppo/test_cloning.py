from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")

from ganglion.sdk import Batch, Box, Mode, Session
from ganglion_learners.ppo import cloning
from ganglion_learners.ppo.brain import PpoBrain
from ganglion_learners.ppo.muscle import PpoMuscle

PARAMS = {"hidden": [16], "minibatch": 16, "learning_rate": 0.01, "pretrain_epochs": 60}


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
    brain = halves.brain(PpoBrain, **PARAMS)
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
    brain = halves.brain(PpoBrain, **{**PARAMS, "pretrain_epochs": 2})
    brain.pretrain([halves.session(25, seed=seed) for seed in range(4)])

    assert [30, 30, 30, 10] * 2 == sizes


def test_a_loss_that_is_none_is_told(halves: Any) -> None:
    """Objectives beyond all measure end it with the parameters that may be the cause."""
    brain = halves.brain(PpoBrain, **PARAMS)
    with pytest.raises(FloatingPointError, match=r"the loss of cloning is .* learning_rate"):
        brain.pretrain([halves.session(5, objectives=np.full(5, 1e30))])
