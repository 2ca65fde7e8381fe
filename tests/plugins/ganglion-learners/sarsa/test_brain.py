from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Box, Discrete, Memory, Mode, SensorInformation
from ganglion_learners.sarsa.brain import SarsaBrain
from ganglion_learners.sarsa.muscle import SarsaMuscle
from ganglion_toys.cartpole import CartPole

EPISODES, LONGEST = 50, 200  # those of the demo


def _mean(returns) -> float:
    return float(np.mean(returns))


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_learns_to_balance(make, loop, seed) -> None:
    """In the demo's 50 episodes the last tenth returns more than twice the first, the last 20 more than 150.

    Then the greedy policy alone balances nearly to the limit, and learning on changes nothing of that.
    """
    found = loop(make(CartPole, seed=seed), make(SarsaBrain, seed=seed), SarsaMuscle, seed)
    returns = found.run(EPISODES, LONGEST).returns
    tested = found.run(5, LONGEST, learn=False, muscle=found.join(Mode.TEST)).returns

    assert _mean(returns[-5:]) > 2 * _mean(returns[:5])
    assert _mean(returns[-20:]) > 150
    assert _mean(tested) > 150
    assert sum(returns) <= 10_000


def test_is_deterministic(make, loop) -> None:
    """Equal seeds give equal returns and equal values, bit by bit; other seeds give others."""
    found = []
    for seed in (1, 1, 2):
        brain = make(SarsaBrain, seed=seed)
        found.append(
            (loop(make(CartPole, seed=seed), brain, SarsaMuscle, seed).run(10, LONGEST).returns, brain)
        )

    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1].weights, found[1][1].weights)
    assert found[0][0] != found[2][0]


def test_sends_few_updates(make, loop) -> None:
    """An update goes out every eighth decision and at the end of each episode, not with every step."""
    found = loop(make(CartPole), make(SarsaBrain), SarsaMuscle).run(10, LONGEST)
    steps = sum(found.returns)

    assert steps / 8 - 1 <= found.updates <= steps / 8 + 10


def test_goes_on_from_a_stored_model(make, loop) -> None:
    """A new brain with the stored arrays has the same values, acts as well, and refuses those of another agent."""
    first = loop(make(CartPole), make(SarsaBrain), SarsaMuscle)
    first.run(EPISODES, LONGEST)
    second = loop(make(CartPole), make(SarsaBrain), SarsaMuscle)
    second.brain.load_arrays(first.brain.arrays())

    np.testing.assert_array_equal(first.brain.weights, second.brain.weights)
    assert first.brain.exploration == second.brain.exploration
    assert _mean(second.run(3, LONGEST, learn=False, muscle=second.join(Mode.TEST)).returns) > 150
    third = loop(make(CartPole), make(SarsaBrain, order=2), SarsaMuscle)
    with pytest.raises(ValueError, match=r"the stored model has weights \(2, 256\) .* expected \(2, 81\)"):
        third.brain.load_arrays(first.brain.arrays())


def _brain(make, **params) -> SarsaBrain:
    """Return a brain with one sensor in [0, 1] and two actions 5 and 6."""
    brain = make(SarsaBrain, **params)
    brain.sensors = [SensorInformation(None, Box(0.0, 1.0, ()), "e.s")]
    brain.actuators = [ActuatorInformation(None, Discrete(2, start=5), "e.a")]
    brain.memory = Memory()
    brain.memory.declare(brain.sensors, brain.actuators)
    brain.setup()
    return brain


def _think(brain, muscle, reading, action, objective, after, terminated=False, truncated=False, told=True):
    brain.memory.append(
        muscle,
        sensor_readings=[reading],
        actuator_setpoints=[action],
        objective=objective,
        next_readings=[after],
        terminated=terminated,
        truncated=truncated,
        dones=terminated or truncated,
    )
    return brain.thinking(muscle, action - 5 if told else None)


PARAMS = {"order": 1, "step_size": 0.5, "discount": 0.5, "trace_decay": 0.5, "initial_value": 0.0}


def test_one_step_by_hand(make) -> None:
    """The first error moves the value of the taken action alone, by step size times features."""
    brain = _brain(make, **PARAMS)
    _think(brain, "a/0", 0.0, 6, 1.0, 1.0)  # features of 0: 1, 1; of 1: 1, -1

    np.testing.assert_allclose(brain.weights, [[0.0, 0.0], [0.5, 0.5]])


def test_a_row_without_data_is_learned_from_too(make) -> None:
    """The action is read from the row where the muscle did not tell its index."""
    one, two = _brain(make, **PARAMS), _brain(make, **PARAMS)
    _think(one, "a/0", 0.0, 6, 1.0, 1.0)
    _think(two, "a/0", 0.0, 6, 1.0, 1.0, told=False)

    np.testing.assert_array_equal(one.weights, two.weights)


def test_the_trace_by_hand(make) -> None:
    """The second error moves the decision before too, by discount times lambda; a terminated one has no future."""
    brain = _brain(make, **PARAMS)
    _think(brain, "a/0", 0.0, 6, 1.0, 1.0)
    _think(brain, "a/0", 1.0, 5, 4.0, 0.0, terminated=True)  # the error is 4 - 0: nothing follows

    np.testing.assert_allclose(brain.weights, [[2.0, -2.0], [0.5 + 0.5, 0.5 + 0.5]])


def test_a_truncated_decision_bootstraps(make) -> None:
    """What is cut off counts as if it went on, with the mean over exploration; then the trace begins anew."""
    brain = _brain(make, **PARAMS, exploration=0.5)
    brain.weights = np.array([[1.0, 0.0], [3.0, 0.0]])
    _think(
        brain, "a/0", 0.0, 5, 0.0, 1.0, truncated=True
    )  # follows 0.5 * (0.5 * 3 + 0.5 * 2) = 1.25; error 0.25

    np.testing.assert_allclose(brain.weights, [[1.125, 0.125], [3.0, 0.0]])
    assert {} == brain._paths
    assert brain.exploration == pytest.approx(0.45)


def test_workers_have_traces_of_their_own(make) -> None:
    """Rows of two muscles in turn learn the same as those of one after the other where values do not meet."""
    brain = _brain(make, **PARAMS)
    _think(brain, "a/0", 0.0, 5, 1.0, 0.0)
    before = brain.weights.copy()
    _think(brain, "a/1", 0.0, 6, 1.0, 0.0, terminated=True)

    np.testing.assert_array_equal(before[0], brain.weights[0])
    assert ["a/0"] == list(brain._paths)


def test_the_newest_row_may_be_anothers(make) -> None:
    """A muscle's own newest row is learned from, whoever's row came after it."""
    one, two = _brain(make, **PARAMS), _brain(make, **PARAMS)
    _think(one, "a/0", 0.0, 6, 1.0, 1.0)
    for muscle, reading, action in (("a/0", 0.0, 6), ("a/1", 0.5, 5)):
        two.memory.append(
            muscle,
            sensor_readings=[reading],
            actuator_setpoints=[action],
            objective=1.0,
            next_readings=[1.0],
            terminated=False,
            truncated=False,
            dones=False,
        )
    two.thinking("a/0", 1)

    np.testing.assert_array_equal(one.weights, two.weights)


def test_an_update_does_not_change_later(make) -> None:
    """What was sent stays as it was when learning goes on."""
    brain = _brain(make, **PARAMS, send_every=1)
    sent = _think(brain, "a/0", 0.0, 6, 1.0, 1.0)
    copy = sent["weights"].copy()
    _think(brain, "a/0", 1.0, 5, 4.0, 0.0)

    np.testing.assert_array_equal(copy, sent["weights"])


def test_begins_optimistic(make) -> None:
    """Every action is worth 1 / (1 - discount) at first, or what is given."""
    assert 4.0 == _brain(make, discount=0.75).weights[1, 0]
    assert -1.0 == _brain(make, initial_value=-1.0).weights[0, 0]


def test_a_decision_without_objective_is_an_error(make) -> None:
    """There is nothing to learn from None."""
    with pytest.raises(ValueError, match="sarsa needs an objective for each decision"):
        _think(_brain(make, **PARAMS), "a/0", 0.0, 5, None, 0.0)
