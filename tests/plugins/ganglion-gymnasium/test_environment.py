from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ganglion.sdk import ActuatorInformation, Dict, Discrete, ResetRequest, SpaceError
from ganglion.sdk import Tuple as TupleSpace
from ganglion_gymnasium.environment import GymnasiumEnvironment


def _act(environment, action):
    [declared] = environment.start_declared
    return [ActuatorInformation(action, declared.space, declared.uid)]


def _started(make, **params):
    environment = make(GymnasiumEnvironment, **params)
    baseline = environment.start_environment()
    environment.start_declared = baseline.actuators_available
    return environment, baseline


class Composite(gymnasium.Env):
    """Give composite observations, write them into one array each time, and end as it is told to."""

    observation_space = spaces.Dict({"pair": spaces.Tuple([spaces.Discrete(9), spaces.Box(0, 9, (2,), np.float32)])})
    action_space = spaces.Dict({"go": spaces.Discrete(3, start=-1), "by": spaces.Box(-1, 1, ())})

    def __init__(self, flags=(False, False)) -> None:
        self.flags, self.steps, self.given, self.closed = flags, 0, [], False
        self.buffer = np.zeros(2, np.float32)

    def _observation(self):
        self.buffer[:] = self.steps
        return {"pair": (self.steps, self.buffer)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.given.append(action)
        self.steps += 1
        return self._observation(), 0.5, *self.flags, {}

    def close(self):
        self.closed = True


class Talking(Composite):
    observation_space = spaces.Text(10)


@pytest.fixture(autouse=True)
def registered():
    """Register environments for the time of a test."""
    for cls in (Composite, Talking):
        gymnasium.register(f"Ganglion{cls.__name__}-v0", entry_point=cls, disable_env_checker=True)
    yield
    for cls in (Composite, Talking):
        del gymnasium.registry[f"Ganglion{cls.__name__}-v0"]


def test_cartpole_runs_as_in_gymnasium(make) -> None:
    """Readings, rewards and flags are those of Gymnasium with the same seed and actions."""
    environment, baseline = _started(make, seed=5, id="CartPole-v1")
    twin = gymnasium.make("CartPole-v1")
    observation, _ = twin.reset(seed=5)
    assert ["observation"] == [it.uid for it in baseline.sensors_available]
    np.testing.assert_array_equal(observation, baseline.sensors_available[0].value)
    terminated, step = False, 0
    while not terminated:
        step += 1
        observation, reward, terminated, truncated, _ = twin.step(step % 2)
        state = environment.update(_act(environment, step % 2))
        np.testing.assert_array_equal(observation, state.sensor_information[0].value)
        assert (reward, terminated, truncated) == (state.rewards[0].value, state.terminated, state.truncated)
        assert step == state.simtime.simtime_ticks
    twin.close()
    environment.shutdown()


def test_each_episode_begins_by_its_seed(make) -> None:
    """Equal seeds of requests begin equally, others elsewhere, whatever was before."""
    environment, _ = _started(make, id="CartPole-v1")
    found = []
    for seed in (7, 2**62, 7):
        found.append(environment.reset(ResetRequest(1, seed)).sensors_available[0].value.tolist())
        environment.update(_act(environment, 1))

    assert found[0] == found[2]
    assert found[0] != found[1]


def test_truncation_is_kept_apart(make) -> None:
    """A time limit truncates; parameters beside `id` go to Gymnasium."""
    environment, _ = _started(make, id="CartPole-v1", max_episode_steps=3)
    states = [environment.update(_act(environment, step % 2)) for step in range(3)]

    assert [(False, False), (False, False), (False, True)] == [(it.terminated, it.truncated) for it in states]
    assert 3 == GymnasiumEnvironment.longest_episode(id="CartPole-v1", max_episode_steps=3)
    assert 500 == GymnasiumEnvironment.longest_episode(id="CartPole-v1")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [((False, False), (False, False)), ((True, False), (True, False)), ((False, True), (False, True)),
     ((True, True), (True, False))],
)  # fmt: skip
def test_what_terminated_is_not_truncated(make, flags, expected) -> None:
    """An environment that says both has terminated: there is nothing to be cut off."""
    environment, _ = _started(make, id="GanglionComposite-v0", flags=flags)
    state = environment.update([])

    assert expected == (state.terminated, state.truncated)


def test_composite_spaces(make) -> None:
    """Dict and Tuple pass both ways, and a reading does not change with the next one."""
    environment, baseline = _started(make, id="GanglionComposite-v0")
    space = baseline.sensors_available[0].space
    first = environment.update(_act(environment, {"go": -1, "by": 0.5})).sensor_information[0].value
    environment.update([])
    inner = environment.world.unwrapped

    assert isinstance(space, Dict)
    assert isinstance(space.spaces["pair"], TupleSpace)
    assert (1, [1.0, 1.0]) == (first["pair"][0], first["pair"][1].tolist())
    assert (-1, 0.5) == (inner.given[0]["go"], inner.given[0]["by"])
    assert 0 == inner.given[1]["go"]  # the no-op is what is nearest to zero


def test_refuses_a_space_without_counterpart(make) -> None:
    """An observation that has no fixed number of columns is refused by name, before the first episode."""
    with pytest.raises(SpaceError, match="Gymnasium's Text"):
        _started(make, id="GanglionTalking-v0")


def test_refuses_an_id_that_imports(make) -> None:
    """An id with a module in it is refused: a document shall not import what it likes."""
    for refused in (make, lambda cls, **params: cls.longest_episode(**params)):
        with pytest.raises(ValueError, match="an id that imports a module is not accepted"):
            refused(GymnasiumEnvironment, id="antigravity:CartPole-v1")


def test_shutdown_closes(make) -> None:
    """The end of the phase closes what Gymnasium has opened."""
    environment, _ = _started(make, id="GanglionComposite-v0")
    environment.shutdown()

    assert environment.world.unwrapped.closed
    assert Discrete(3, start=-1) == environment.start_declared[0].space.spaces["go"]
