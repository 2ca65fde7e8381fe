from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Box, Discrete, Memory, RewardInformation
from ganglion_toys.dummy import DummyBrain, DummyEnvironment, DummyMuscle, DummyObjective


def test_environment_counts(make) -> None:
    """After update i all sensors and the reward read i mod max_iter, the clock i; update max_iter terminates."""
    environment = make(DummyEnvironment, max_iter=4)
    environment.start_environment()
    states = [environment.update([]) for _ in range(4)]

    assert [{1}, {2}, {3}, {0}] == [{it.value for it in state.sensor_information} for state in states]
    assert [1, 2, 3, 0] == [state.rewards[0].value for state in states]
    assert [1, 2, 3, 4] == [state.simtime.simtime_ticks for state in states]
    assert [False, False, False, True] == [state.terminated for state in states]
    assert [False] * 4 == [state.truncated for state in states]
    assert 4 == DummyEnvironment.longest_episode(max_iter=4)


def test_environment_without_discrete_values(make) -> None:
    """With discrete off, sensors are 0 or 1 from the environment's stream and the reward counts all the same."""
    environment = make(DummyEnvironment, discrete=False)
    baseline = environment.start_environment()
    states = [environment.update([]) for _ in range(10)]
    values = [it.value for state in states for it in state.sensor_information]
    twin = make(DummyEnvironment, discrete=False)
    twin.start_environment()

    assert {Box(0.0, 2.0, ())} == {it.space for it in baseline.sensors_available}
    assert {Box(0.0, 10.0, ())} == {it.space for it in baseline.actuators_available}
    assert {0.0, 1.0} == set(values)
    assert values == [it.value for _ in range(10) for it in twin.update([]).sensor_information]
    assert [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] == [state.rewards[0].value for state in states]


def test_environment_refuses_an_episode_without_steps(make) -> None:
    """A max_iter below 1 is refused."""
    with pytest.raises(ValueError, match="max_iter is at least 1, found 0"):
        make(DummyEnvironment, max_iter=0)


def _actuators() -> list[ActuatorInformation]:
    return [ActuatorInformation(None, Discrete(3, start=5), "a.0"), ActuatorInformation(None, Box(0, 1, ()), "a.1")]


def test_muscle_counts_upwards(make) -> None:
    """With count_upwards a Discrete(3, 5) gets 5 6 7 5, the data are the decision's index, a reset begins anew."""
    muscle = make(DummyMuscle, count_upwards=True)
    first = [muscle.propose_actions([], _actuators()) for _ in range(4)]
    muscle.reset()
    again = muscle.propose_actions([], _actuators())

    assert [5, 6, 7, 5] == [actuators[0].value for actuators, _ in first]
    assert [0, 1, 2, 3] == [data for _, data in first]
    assert (5, 0) == (again[0][0].value, again[1])
    assert all(0 <= actuators[1].value <= 1 for actuators, _ in first)


def test_brain_keeps_the_last_number(make) -> None:
    """The state is 42 at first, then the last number plus one; it is the update and what is stored."""
    brain = make(DummyBrain)

    assert 42 == brain.thinking("m/0", None)
    assert [1, 10] == [brain.thinking("m/0", data) for data in (0, 9)]
    assert 10 == brain.thinking("m/1", None)
    assert 10 == int(brain.arrays()["state"])

    other = make(DummyBrain)
    other.load_arrays(brain.arrays())
    assert 10 == other.state


def test_objective_sums_the_rewards_of_the_decision(make) -> None:
    """The objective is the sum of the newest row's rewards; a reward that it lacks counts nothing."""
    memory = Memory()
    objective = make(DummyObjective)
    space = Box(-np.inf, np.inf, ())
    memory.append("m/0", rewards=[RewardInformation(3.0, space, "e.a"), RewardInformation(4.0, space, "e.b")])
    both = objective.internal_reward(memory)
    memory.append("m/0", rewards=[RewardInformation(5.0, space, "e.a"), RewardInformation(None, space, "e.b")])

    assert (7.0, 5.0) == (both, objective.internal_reward(memory))
