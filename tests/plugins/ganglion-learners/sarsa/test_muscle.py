from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Box, Discrete, Mask, Mode, SensorInformation
from ganglion_learners.sarsa.muscle import SarsaMuscle

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
