from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Box, Discrete, Mask, Memory, SensorInformation
from ganglion_learners.sarsa.brain import SarsaBrain


def _brain(make, **params) -> SarsaBrain:
    """Return a brain with one sensor in [0, 1] and two actions 5 and 6."""
    brain = make(SarsaBrain, **params)
    brain.sensors = [SensorInformation(None, Box(0.0, 1.0, ()), "e.s")]
    brain.actuators = [ActuatorInformation(None, Discrete(2, start=5), "e.a")]
    brain.memory = Memory()
    brain.memory.declare(brain.sensors, brain.actuators)
    brain.setup()
    return brain


def _think(
    brain,
    muscle,
    reading,
    action,
    objective,
    after,
    terminated=False,
    truncated=False,
    told=True,
    index=None,
    body=None,
):
    brain.memory.append(
        muscle,
        sensor_readings=[reading],
        actuator_setpoints=[action],
        objective=objective,
        next_readings=[after],
        terminated=terminated,
        truncated=truncated,
        dones=terminated or truncated,
        decision_index=index,
        body=body,
    )
    return brain.thinking(muscle, action - 5 if told else None)


def _think_often(brain) -> None:
    for i in range(5):
        _think(brain, "a/0", 0.1 * i, 5, 1.0, 0.1 * i + 0.1)


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
    _think(brain, "a/0", 0.0, 5, 0.0, 1.0, truncated=True)  # follows 0.5 * (0.5 * 3 + 0.5 * 2) = 1.25; error 0.25

    np.testing.assert_allclose(brain.weights, [[1.125, 0.125], [3.0, 0.0]])
    assert {} == brain._paths
    assert brain.exploration == pytest.approx(0.45)


def test_values_that_are_none_end_it(make) -> None:
    """Steps beyond all measure are told with the parameters, and not learned on."""
    brain = _brain(make, **{**PARAMS, "step_size": 1e200})
    with pytest.raises(
        FloatingPointError, match=r"error of a decision is .* learning cannot go on; .* step_size 1e\+200"
    ):
        _think_often(brain)


def test_an_episode_without_an_end_leaves_no_trace(make) -> None:
    """The first decision of an episode begins anew, also where the one before has no end, as a recorded one may."""
    one, two = _brain(make, **PARAMS), _brain(make, **PARAMS)
    _think(one, "a/0", 0.0, 6, 0.0, 1.0, index=0)  # an error of 0 moves nothing
    for brain in (one, two):
        _think(brain, "a/0", 0.0, 5, 1.0, 1.0, index=0)

    np.testing.assert_array_equal(one.weights, two.weights)
    np.testing.assert_array_equal(one._paths["a/0"].trace, two._paths["a/0"].trace)


def test_bodies_have_traces_of_their_own(make) -> None:
    """Rows of two bodies of a muscle in turn are learned from as those of two muscles."""
    workers, bodies = _brain(make, **PARAMS), _brain(make, **PARAMS)
    for index in range(3):
        for number in (0, 1):
            ends = {"terminated": index == 2 and number == 1}
            _think(workers, f"a/{number}", 0.0 + number, 5 + number, 1.0, 1.0 - number, index=index, **ends)
            _think(bodies, "a/0", 0.0 + number, 5 + number, 1.0, 1.0 - number, index=index, body=number, **ends)
        state = bodies.export_checkpoint_state()
        bodies = _brain(make, **PARAMS)
        bodies.restore_checkpoint_state(state)

    np.testing.assert_array_equal(workers.weights, bodies.weights)
    assert 1 == len(bodies._paths) == len(workers._paths)


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


def test_a_decision_without_objective_is_an_error(make) -> None:
    """There is nothing to learn from None."""
    with pytest.raises(ValueError, match="sarsa needs an objective for each decision"):
        _think(_brain(make, **PARAMS), "a/0", 0.0, 5, None, 0.0)


@pytest.mark.parametrize(
    ("params", "change", "told"),
    [
        ({"order": 2}, {}, "has another order: expected 1, found 2"),
        ({"unbounded": 5.0}, {}, "has another unbounded: expected 3, found 5"),
        ({}, {"state": np.array(1)}, "is not one of sarsa: expected arrays weights, .* found .* state"),
        ({}, {"weights": np.zeros((2, 4))}, r"other sensors or actions: weights: expected \(2, 2\), found \(2, 4\)"),
        ({}, {"weights": np.full((2, 2), np.nan)}, "is damaged: expected finite numbers, found NaN"),
    ],
)
def test_the_model_of_another_brain_is_refused(make, params, change, told) -> None:
    """A model of other sensors, another basis or another brain is refused, and the values stay."""
    brain = _brain(make, **PARAMS)
    before = brain.weights.copy()

    with pytest.raises(ValueError, match=told):
        brain.load_arrays({**_brain(make, **{**PARAMS, **params}).arrays(), **change})
    np.testing.assert_array_equal(before, brain.weights)


def test_expects_nothing_of_what_a_mask_forbids(make) -> None:
    """What comes next is worth what is allowed there: the optimistic value of a forbidden action does not count."""
    mask = Mask(2, of="a")
    brain = make(SarsaBrain, order=1, step_size=0.5, discount=0.5, exploration=0.0, exploration_least=0.0)
    brain.sensors = [SensorInformation(None, mask, "e.m"), SensorInformation(None, Box(0.0, 1.0, ()), "e.s")]
    brain.actuators = [ActuatorInformation(None, Discrete(2, start=5), "e.a")]
    brain.memory = Memory()
    brain.memory.declare(brain.sensors, brain.actuators)
    brain.setup()
    brain.weights[:] = [[1.0, 0.0], [8.0, 0.0]]
    brain.memory.append(
        "m", sensor_readings=[[1, 1], 0.0], actuator_setpoints=[5], objective=0.0, next_readings=[[1, 0], 0.0]
    )
    brain.thinking("m", 0)

    assert (2, 2) == brain.weights.shape
    assert 1.0 + 0.5 * (0.0 + 0.5 * 1.0 - 1.0) == pytest.approx(float(brain.weights[0, 0]))
