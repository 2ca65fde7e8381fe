from __future__ import annotations

from ganglion.sdk import Box
from ganglion_learners.sac.brain import SacBrain

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
