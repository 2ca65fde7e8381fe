"""What all deep learners do alike, brains and muscles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.sdk import Box, Discrete, Mode, MultiDiscrete, SensorInformation
from ganglion_learners.dqn.brain import DqnBrain
from ganglion_learners.dqn.muscle import DqnMuscle
from ganglion_learners.ppo.brain import PpoBrain
from ganglion_learners.ppo.muscle import PpoMuscle
from ganglion_learners.recording import Recording
from ganglion_learners.sac.brain import SacBrain
from ganglion_learners.sac.muscle import SacMuscle

DQN = {
    "warm_up": 8,
    "train_every": 4,
    "gradient_steps": 2,
    "target_every": 3,
    "update_every": 1,
    "replay": 20,
    "minibatch": 8,
}
PPO = {"rollout": 12, "minibatch": 5, "epochs": 2}
SAC = {"warm_up": 8, "train_every": 2, "replay": 20, "minibatch": 8, "update_every": 3}
BOX = (Box(-1.0, 3.0, (2,)), Box(-2.0, 2.0, ()))
LEARNERS = [
    pytest.param(DqnBrain, DQN, (MultiDiscrete([3, 2]),), id="dqn"),
    pytest.param(PpoBrain, PPO, (Discrete(3, start=5), MultiDiscrete([2, 2])), id="ppo-discrete"),
    pytest.param(PpoBrain, PPO, BOX, id="ppo-box"),
    pytest.param(SacBrain, SAC, BOX, id="sac"),
]


def _bits(update):
    return None if update is None else {k: v.tobytes() if isinstance(v, np.ndarray) else v for k, v in update.items()}


@pytest.mark.parametrize(("cls", "params", "spaces"), LEARNERS)
def test_both_forms_learn_alike(halves, cls, params, spaces) -> None:
    """Rows of a round together, and as objects out of the memory, give the same updates and model bit for bit."""
    halves.act_on(*spaces)
    one, two = halves.brain(cls, **params), halves.brain(cls, **params)
    two.memory.size_limit = 100
    for batch in halves.rows(30, muscles=2):
        after = None
        for i, muscle in enumerate(batch.muscle):
            _remember(two, batch, i)
            after = two.thinking(muscle, None) or after
        assert _bits(one.learn(batch)) == _bits(after)

    assert _bits(one.arrays()) == _bits(two.arrays())


def _remember(brain, batch, i) -> None:
    def values(informations, row):
        found, start = [], 0
        for it in informations:
            found.append(it.space.from_vector(row[start : start + it.space.size]))
            start += it.space.size
        return found

    # The third sensor column is a whole number here: what the rows say about it is rounded for both forms alike.
    for name in ("observations", "next_observations"):
        getattr(batch, name)[i, 2] = abs(round(getattr(batch, name)[i, 2]))
    brain.memory.append(
        batch.muscle[i],
        sensor_readings=values(brain.sensors, batch.observations[i]),
        actuator_setpoints=values(brain.actuators, batch.actions[i]),
        objective=float(batch.objectives[i]),
        next_readings=values(brain.sensors, batch.next_observations[i]),
        terminated=bool(batch.terminated[i]),
        truncated=bool(batch.truncated[i]),
        dones=bool(batch.terminated[i] or batch.truncated[i]),
        decision_index=int(batch.step[i]),
        episode=int(batch.episode[i]),
    )


@pytest.mark.parametrize(("cls", "params", "spaces"), LEARNERS)
def test_the_model_of_another_is_refused(halves, cls, params, spaces) -> None:
    """A model of other sensors, widths or activation, of another learner, or damaged, is refused; nothing changes."""
    halves.act_on(*spaces)
    brain = halves.brain(cls, **params)
    before = _bits(brain.arrays())
    good = brain.arrays()
    name = next(name for name in good if name.endswith("0.weight"))
    damaged = {**good, name: np.full_like(good[name], np.nan)}
    other = "relu" if brain.config.activation == "tanh" else "tanh"
    cases = {
        f"{name}: expected": halves.brain(cls, **params, hidden=[32, 64]).arrays(),
        "strange: expected none, found": {**good, "strange": np.zeros(3)},
        r"decisions: expected int64 \(\), found none; it has activation, ": {
            key: value for key, value in good.items() if key != "decisions"
        },
        f"is damaged: {name}: expected finite numbers": damaged,
        f"another activation: expected '.*', found '{other}'": halves.brain(cls, **params, activation=other).arrays(),
    }
    halves.sensors.append(SensorInformation(None, Box(0.0, 1.0, ()), "e.more"))
    cases[f"{name}: expected"] = halves.brain(cls, **params).arrays()
    for told, arrays in cases.items():
        with pytest.raises(ValueError, match=told):
            brain.load_arrays(arrays)

    assert before == _bits(brain.arrays())


@pytest.mark.parametrize(("cls", "params", "spaces"), LEARNERS)
@pytest.mark.parametrize(("value", "told"), [(np.nan, "has none"), (np.inf, "has inf")])
def test_a_decision_without_objective_is_an_error(halves, cls, params, spaces, value, told) -> None:
    """There is nothing to learn from None or infinity; muscle, episode and decision are named."""
    halves.act_on(*spaces)
    brain = halves.brain(cls, **params)
    *_, batch = halves.rows(8, muscles=2)
    batch.objectives[1] = value
    with pytest.raises(ValueError, match=rf"finite objective .* decision 2 of a/1 in its episode 1 {told}"):
        brain.learn(batch)


@pytest.mark.parametrize(("cls", "params", "spaces"), LEARNERS)
def test_a_loss_that_is_no_number_ends_learning(halves, cls, params, spaces) -> None:
    """What overflows is an error that names the number of decisions and the parameters to look at."""
    halves.act_on(*spaces)
    told = r"loss.* is (nan|inf) after \d+ decisions, .* learning_rate 0\.0"
    with pytest.raises(FloatingPointError, match=told):
        _learn_of_huge_objectives(halves.brain(cls, **params), halves.rows(40))


def _learn_of_huge_objectives(brain, rows) -> None:
    for batch in rows:
        batch.objectives[:] = 1e38
        brain.learn(batch)


def test_a_checkpoint_of_bytes_is_refused(halves) -> None:
    """Named arrays are what it takes."""
    with pytest.raises(ValueError, match="checkpoint of dqn: expected named arrays"):
        halves.brain(DqnBrain).restore_checkpoint_state(b"")


@pytest.mark.parametrize(("cls", "params", "spaces"), LEARNERS)
def test_a_recording_that_does_not_fit_is_refused(halves, cls, params, spaces) -> None:
    """The message names the session and what is wrong with it."""
    halves.act_on(*spaces)
    good = halves.session(5, seed=8)
    holes = good.objectives.copy()
    holes[3] = np.nan
    unseen = good.observations.copy()
    unseen[2, 1] = np.inf
    cases = [
        ({"actions": good.actions + 99}, r"decision 0 has the action \S+ \(column 0\), expected a"),
        ({"objectives": holes}, "decision 3 has none as an objective"),
        ({"observations": unseen}, r"decision 2 has inf as a reading \(column 1\), expected a finite number"),
        ({"observations": unseen[:, :2]}, "expected 3 columns of sensors, found 2"),
        ({"sensors": halves.sensors[:1]}, "expected the sensors e.s0, e.s1, found e.s0"),
        ({"actuators": []}, "expected the actuators e.a0.*, found $"),
    ]
    for changed, told in cases:
        brain = halves.brain(cls, **params)
        bad = halves.session(5, seed=8, **changed)
        with pytest.raises(
            ValueError, match=f"{cls.algorithm} cannot learn from run past-1, phase 0, agent a.* episode 8: {told}"
        ):
            brain.pretrain([good, bad])


@pytest.mark.parametrize(("cls", "params", "spaces"), LEARNERS)
def test_a_recording_without_decisions_is_refused(halves, cls, params, spaces) -> None:
    """Nobody is to believe that something was learned of nothing: also one decision without what followed is none."""
    halves.act_on(*spaces)
    for sessions in ([], [halves.session(1, final=False)]):
        with pytest.raises(ValueError, match=f"recording without decisions.* found none in {len(sessions)} sess"):
            halves.brain(cls, **params).pretrain(sessions)


LEARNERS_ACTOR = [
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


@pytest.mark.parametrize(("brain", "muscle", "spaces"), LEARNERS_ACTOR)
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


@pytest.mark.parametrize(("brain", "muscle", "spaces"), LEARNERS_ACTOR)
def test_chance_is_the_muscles_own_and_only_in_training(halves, brain, muscle, spaces) -> None:
    """Equal seeds draw equally, others differently; in test and evaluation nothing is drawn."""
    halves.act_on(*spaces)
    update, batch = _update(halves.brain(brain)), halves.batch(bodies=30)
    decide = lambda **how: halves.muscle(muscle, update, **how).propose_batch(batch)[0].tobytes()  # noqa: E731

    assert decide(seed=1) == decide(seed=1) != decide(seed=2)
    assert decide(mode=Mode.TEST, seed=1) == decide(mode=Mode.EVALUATE, seed=2)


@pytest.mark.parametrize(("brain", "muscle", "spaces"), LEARNERS_ACTOR)
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


@pytest.mark.parametrize(("brain", "muscle", "spaces"), LEARNERS_ACTOR)
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


def _recording(halves: Any, sessions: Any) -> Recording:
    return Recording(sessions, "own", halves.sensors, halves.actuators, lambda actions: None)


def test_gives_episode_by_episode_what_can_be_learned_from(halves: Any) -> None:
    """Decisions are those of the sessions, in order; what nobody knows the outcome of is left out, whole or in part."""
    sessions = [
        halves.session(4, seed=1),
        halves.session(1, seed=2, final=False),
        halves.session(3, seed=3, final=False),
    ]
    found = list(_recording(halves, sessions))

    assert [4, 2] == [len(batch) for batch in found]
    np.testing.assert_array_equal(found[0].next_observations, sessions[0].observations[1:])
    np.testing.assert_array_equal(found[1].next_observations, sessions[2].observations[1:])
    assert not found[1].truncated.any()
