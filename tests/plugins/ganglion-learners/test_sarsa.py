"""Sarsa: features, traces by hand, how it acts."""

from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Dict,
    Discrete,
    Mask,
    Memory,
    Mode,
    MultiBinary,
    MultiDiscrete,
    SensorInformation,
    Tuple,
)
from ganglion_learners.sarsa.brain import SarsaBrain
from ganglion_learners.sarsa.muscle import SarsaMuscle
from ganglion_learners.sarsa.networks import FourierBasis, ranges


def test_features_are_the_cosines_of_all_sums_of_multiples() -> None:
    """With order 1 over [0, 1] x [-2, 2] the four features are those of the closed form."""
    basis = FourierBasis(np.array([0.0, -2.0]), np.array([1.0, 2.0]), 1)
    x, y = 0.3, 0.5  # y is 0.625 of its way

    np.testing.assert_allclose(
        basis.features(np.array([x, y])), np.cos(np.pi * np.array([0.0, 0.625, x, x + 0.625])), atol=1e-15
    )
    np.testing.assert_allclose(basis.step_sizes, [1.0, 1.0, 1.0, 1 / np.sqrt(2)])


def test_observations_beyond_the_ends_count_as_the_ends() -> None:
    """Beyond its ends a column changes nothing any more."""
    basis = FourierBasis(np.array([0.0]), np.array([1.0]), 3)

    np.testing.assert_array_equal(basis.features(np.array([1.0])), basis.features(np.array([9.0])))
    np.testing.assert_array_equal(basis.features(np.array([0.0])), basis.features(np.array([-np.inf])))


def test_too_many_features_are_refused() -> None:
    """More than 4096 features are refused with the two ways out."""
    with pytest.raises(ValueError, match=r"makes 16384 features; at most 4096 .* lower the order, or connect fewer"):
        FourierBasis(np.zeros(7), np.ones(7), 3)


SENSORS = [
    (Box(-1.0, 2.0, (2,)), [-1.0, -1.0], [2.0, 2.0]),
    (Box(-np.inf, np.inf, ()), [-3.0], [3.0]),
    (Box(10.0, np.inf, ()), [10.0], [11.0]),
    (Box(-np.inf, -10.0, ()), [-11.0], [-10.0]),
    (Discrete(4, start=-1), [-1.0], [2.0]),
    (MultiDiscrete([2, 3], start=[0, 5]), [0.0, 5.0], [1.0, 7.0]),
    (MultiBinary(2), [0.0, 0.0], [1.0, 1.0]),
    (Tuple([Discrete(2), Box(0.0, 9.0, ())]), [0.0, 0.0], [1.0, 9.0]),
    (Dict({"b": Discrete(2), "a": Box(4.0, 9.0, ())}), [4.0, 0.0], [9.0, 1.0]),
]


@pytest.mark.parametrize(("space", "low", "high"), SENSORS)
def test_ranges_are_those_of_the_columns(space, low, high) -> None:
    """Each column of a sensor's vector has its ends; a side without bound ends where `unbounded` says, or beyond."""
    found = ranges([SensorInformation(None, space, "e.s")], 3.0)

    assert (low, high) == (found[0].tolist(), found[1].tolist())
    assert space.size == len(low)


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


SENSOR = Box(0.0, 1.0, ())
ACTUATOR = Discrete(3, start=10)


def _muscle(make, exploration: float, mode: Mode = Mode.TRAIN, seed: int = 42) -> SarsaMuscle:
    """Return a muscle whose best action is the last below 0.5 and the first above."""
    muscle = make(SarsaMuscle, mode=mode, seed=seed)
    muscle.sensors = [SensorInformation(None, SENSOR, "e.s")]
    muscle.actuators = [ActuatorInformation(None, ACTUATOR, "e.a")]
    muscle.update(
        {
            "weights": np.array([[0.0, -1.0], [0.0, 0.0], [0.0, 1.0]]),
            "basis": np.array([1.0, 3.0]),
            "exploration": np.array(exploration),
        }
    )
    return muscle


def _choose(muscle: SarsaMuscle, reading: float) -> int:
    sensors = [SensorInformation(reading, SENSOR, "e.s")]
    actuators, choice = muscle.propose_actions(sensors, [ActuatorInformation(None, ACTUATOR, "e.a")])
    assert actuators[0].value == ACTUATOR.start + choice
    return int(actuators[0].value)


def test_takes_the_best_action(make) -> None:
    """Without exploration it takes the action of highest value; of equal ones the first."""
    muscle = _muscle(make, 0.0)

    assert [12, 10] == [_choose(muscle, reading) for reading in (0.1, 0.9)]
    muscle.update({"weights": np.zeros((3, 2)), "basis": np.array([1.0, 3.0]), "exploration": np.array(0.0)})
    assert 10 == _choose(muscle, 0.1)


def test_explores_in_training_only(make) -> None:
    """With exploration 1 every action comes up in training, by the muscle's stream; in test the best one does."""
    chosen = [[_choose(muscle, 0.1) for _ in range(30)] for muscle in (_muscle(make, 1.0), _muscle(make, 1.0))]

    assert chosen[0] == chosen[1]
    assert {10, 11, 12} == set(chosen[0])
    for mode in (Mode.TEST, Mode.EVALUATE):
        assert {12} == {_choose(_muscle(make, 1.0, mode), 0.1) for _ in range(30)}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"weights": np.zeros((2, 2))},
            r"does not fit 1 sensors and 1 actuators: weights: expected \(3, 2\), found \(2",
        ),
        ({"weights": np.zeros((3, 3))}, r"expected \(3, 2\), found \(3, 3\)"),
        ({"weights": np.full((3, 2), np.inf)}, "weights: expected finite numbers"),
        ({"more": np.zeros(1)}, "expected one of sarsa, found a map of weights, basis, exploration, more"),
        (None, "expected one of sarsa, found a list"),
    ],
)
def test_updates_that_do_not_fit_are_refused(make, change, told) -> None:
    """What is of another learner, or for other sensors or actions, is told so, and the muscle acts as before."""
    muscle = _muscle(make, 0.0)
    good = {"weights": np.zeros((3, 2)), "basis": np.array([1.0, 3.0]), "exploration": np.array(0.0)}
    with pytest.raises(ValueError, match=told):
        muscle.update([1] if change is None else {**good, **change})

    assert 12 == _choose(muscle, 0.1)


def test_without_a_policy_it_says_what_is_missing(make) -> None:
    """A muscle that nobody told anything does not act by chance."""
    with pytest.raises(RuntimeError, match="sarsa has no policy"):
        _choose(make(SarsaMuscle, mode=Mode.TEST), 0.1)


@pytest.mark.parametrize(("mode", "expected"), [(Mode.TEST, {11}), (Mode.TRAIN, {10, 11})])
def test_does_nothing_that_a_mask_forbids(make, mode, expected) -> None:
    """Neither the best action nor one that it tries is among those that are forbidden; masks make no features."""
    muscle = _muscle(make, 1.0, mode)
    muscle.sensors = [*muscle.sensors, SensorInformation(None, Mask(3, of="a"), "e.m")]
    sensors = [SensorInformation(0.1, SENSOR, "e.s"), SensorInformation([1, 1, 0], Mask(3, of="a"), "e.m")]
    offered = ActuatorInformation(None, ACTUATOR, "e.a")
    offered.mask = np.array([True, True, False])

    assert expected == {int(muscle.propose_actions(sensors, [offered])[0][0].value) for _ in range(30)}
