from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import Box, Discrete, Mode, MultiDiscrete
from ganglion_learners.dqn.brain import DqnBrain
from ganglion_learners.dqn.muscle import DqnMuscle
from ganglion_learners.ppo.brain import PpoBrain
from ganglion_learners.ppo.muscle import PpoMuscle
from ganglion_learners.sac.brain import SacBrain
from ganglion_learners.sac.muscle import SacMuscle

LEARNERS = [
    pytest.param(DqnBrain, DqnMuscle, (MultiDiscrete([3, 2]),), id="dqn"),
    pytest.param(PpoBrain, PpoMuscle, (Discrete(3, start=5), MultiDiscrete([2, 2])), id="ppo-discrete"),
    pytest.param(PpoBrain, PpoMuscle, (Box(-1.0, 3.0, (2,)), Box(0.0, np.inf, ())), id="ppo-box"),
    pytest.param(SacBrain, SacMuscle, (Box(-1.0, 3.0, (2,)), Box(-2.0, 2.0, (), np.float32)), id="sac"),
]


def _update(brain):
    """Return a policy that explores but is past its warm-up."""
    found = brain.policy()
    return {
        **found,
        **({"exploration": 0.5} if "exploration" in found else {}),
        **({"uniform": False} if "uniform" in found else {}),
    }


@pytest.mark.parametrize(("brain", "muscle", "spaces"), LEARNERS)
@pytest.mark.parametrize("mode", [Mode.TRAIN, Mode.TEST])
def test_both_forms_decide_alike(halves, brain, muscle, spaces, mode) -> None:
    """Bodies together, and one after the other as objects, give the same setpoints and data bit for bit."""
    halves.act_on(*spaces)
    update = _update(halves.brain(brain))
    one, two = (halves.muscle(muscle, update, mode) for _ in range(2))
    batch = halves.batch(bodies=9)
    columns, data = one.propose_batch(batch)
    for body in range(9):
        for it, uid in zip(halves.sensors, batch.readings, strict=True):
            it.value = it.space.canonical(batch.readings[uid][body])
        actuators, told = two.propose_actions(halves.sensors, halves.actuators)
        start = 0
        for it in actuators:
            space = it.space
            assert space.contains(it.value)
            expected = space.from_vector(columns[body, start : start + space.size])
            assert space.to_vector(expected).tobytes() == space.to_vector(it.value).tobytes()
            start += space.size
        assert np.asarray(data[body], dtype=np.float64).tobytes() == np.asarray(told, dtype=np.float64).tobytes()


@pytest.mark.parametrize(("brain", "muscle", "spaces"), LEARNERS)
def test_chance_is_the_muscles_own_and_only_in_training(halves, brain, muscle, spaces) -> None:
    """Equal seeds draw equally, others differently; in test and evaluation nothing is drawn."""
    halves.act_on(*spaces)
    update, batch = _update(halves.brain(brain)), halves.batch(bodies=30)
    decide = lambda **how: halves.muscle(muscle, update, **how).propose_batch(batch)[0].tobytes()  # noqa: E731

    assert decide(seed=1) == decide(seed=1) != decide(seed=2)
    assert decide(mode=Mode.TEST, seed=1) == decide(mode=Mode.EVALUATE, seed=2)


@pytest.mark.parametrize(("brain", "muscle", "spaces"), LEARNERS)
def test_updates_that_do_not_fit_are_refused(halves, brain, muscle, spaces) -> None:
    """An update of other sensors, of another learner, or with NaN is named; the muscle acts as before."""
    halves.act_on(*spaces)
    update = halves.brain(brain).policy()
    actor = halves.muscle(muscle, update, Mode.TEST)
    before = actor.propose_batch(halves.batch())[0]
    first = next(name for name in update if name.endswith(".0.weight"))
    wrong = {
        r"0\.weight: expected float32 \(3, any\), found float32 \(4, 64\)": {first: np.zeros((4, 64), np.float32)},
        r"0\.weight: expected finite numbers": {first: np.full((3, 64), np.nan, np.float32)},
        "activation: expected tanh or relu": {"activation": "sine"},
        f"expected one of {brain.algorithm}, found one of 'other' \\(brain and muscle": {"algorithm": "other"},
    }
    for told, change in wrong.items():
        with pytest.raises(ValueError, match=told):
            actor.update({**update, **change})
    for strange, told in (
        ("policy", "found a str"),
        ({}, "found an empty map"),
        (dict.fromkeys("abcdefg", 0), r"found a map of a, b, c, d and 3 more \("),
        ({"algorithm": update["algorithm"]}, "does not fit"),
    ):
        with pytest.raises(ValueError, match=f"update.*{told}"):
            actor.update(strange)

    assert before.tobytes() == actor.propose_batch(halves.batch())[0].tobytes()


@pytest.mark.parametrize(("brain", "muscle", "spaces"), LEARNERS)
def test_says_what_is_missing_or_forbidden(halves, brain, muscle, spaces) -> None:
    """Without a policy nobody acts by chance; a mask needs its sensor; a reading that is NaN is told as such."""
    halves.act_on(*spaces)
    with pytest.raises(RuntimeError, match="has no policy: in test mode"):
        halves.muscle(muscle, mode=Mode.TEST).propose_batch(halves.batch())
    actor = halves.muscle(muscle, _update(halves.brain(brain)))
    with pytest.raises(ValueError, match=r"knows masks by their sensors, found one of actuator e\.a0 without"):
        actor.propose_batch(halves.batch(masks={"e.a0": np.ones((1, 3), bool)}))
    batch = halves.batch()
    batch.observations[0, 0] = np.nan
    with pytest.raises(FloatingPointError, match="the network gives NaN at decision 0 of this muscle"):
        actor.propose_batch(batch)
