from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Box, Dict, Discrete, MultiBinary, MultiDiscrete, SensorInformation, Tuple
from ganglion_learners.sarsa.networks import FourierBasis, action_space, observe, ranges


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


def test_observations_are_joined_in_order() -> None:
    """The vectors of all sensors stand side by side, in the sensors' order."""
    sensors = [SensorInformation([1.0, 2.0], Box(0.0, 9.0, (2,)), "e.a"), SensorInformation(1, Discrete(3), "e.b")]

    assert [1.0, 2.0, 1.0] == observe(sensors).tolist()
    assert [1.0, 2.0] == observe(sensors[:1]).tolist()


def test_acts_on_one_discrete_actuator() -> None:
    """One Discrete actuator is taken; none, two or another kind are refused by name."""
    one = ActuatorInformation(None, Discrete(3), "e.a")
    box = ActuatorInformation(None, Box(0.0, 1.0, ()), "e.b")

    assert Discrete(3) == action_space([one])
    for actuators, told in (([], "found none"), ([one, one], "e.a: Discrete"), ([box], "e.b: Box")):
        with pytest.raises(ValueError, match=told):
            action_space(actuators)
