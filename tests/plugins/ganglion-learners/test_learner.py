from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import Box, Discrete, MultiDiscrete, SensorInformation
from ganglion_learners.dqn.brain import DqnBrain
from ganglion_learners.ppo.brain import PpoBrain
from ganglion_learners.sac.brain import SacBrain

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
