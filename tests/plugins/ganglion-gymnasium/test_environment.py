from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ganglion.sdk import ActuatorInformation, SpaceError
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


def test_truncation_is_kept_apart(make) -> None:
    """A time limit truncates; parameters beside `id` go to Gymnasium."""
    environment, _ = _started(make, id="CartPole-v1", max_episode_steps=3)
    states = [environment.update(_act(environment, step % 2)) for step in range(3)]

    assert [(False, False), (False, False), (False, True)] == [(it.terminated, it.truncated) for it in states]
    assert 3 == GymnasiumEnvironment.longest_episode(id="CartPole-v1", max_episode_steps=3)
    assert 500 == GymnasiumEnvironment.longest_episode(id="CartPole-v1")


def test_refuses_a_space_without_counterpart(make) -> None:
    """An observation that has no fixed number of columns is refused by name, before the first episode."""
    with pytest.raises(SpaceError, match="Gymnasium's Text"):
        _started(make, id="GanglionTalking-v0")


def test_refuses_an_id_that_imports(make) -> None:
    """An id with a module in it is refused: a document shall not import what it likes."""
    for refused in (make, lambda cls, **params: cls.longest_episode(**params)):
        with pytest.raises(ValueError, match="an id that imports a module is not accepted"):
            refused(GymnasiumEnvironment, id="antigravity:CartPole-v1")
