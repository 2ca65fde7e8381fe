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


@pytest.mark.parametrize("ended", [True, False])
def test_values_come_to_the_returns(halves: Any, ended: bool) -> None:
    """With an objective of 1 in each step: of what terminates what is left, else what it would go on to be."""
    length = 10
    flags = np.arange(length) == length - 1
    nothing = np.zeros(length, dtype=bool)
    more = {"terminated": flags, "truncated": nothing} if ended else {}
    seen = np.zeros((length + 1, 3))
    seen[:, 0] = np.linspace(-1, 1, length + 1)
    session = halves.session(length, observations=seen, objectives=np.ones(length), **more)
    brain = halves.brain(PpoBrain, **{**PARAMS, "discount": 0.8, "pretrain_epochs": 600})
    brain.pretrain([session])
    values = brain.networks.values(seen[:-1].astype(np.float32))
    left = np.arange(length, 0, -1)
    expected = (1 - 0.8**left) / 0.2 if ended else np.full(length, 5.0)

    np.testing.assert_allclose(values, expected, atol=0.8)


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
