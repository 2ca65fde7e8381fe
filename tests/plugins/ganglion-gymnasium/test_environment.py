from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ganglion.sdk import ActuatorInformation, Body, OutOfObservationSpaceError, SpaceError
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


# -- bodies -----------------------------------------------------------------------------------------------------------
def _bodies(make, count, **params):
    """Return an environment with bodies, of which none has begun."""
    environment = make(GymnasiumEnvironment, **params)
    environment.bodies = tuple(Body("ada", 0, b) for b in range(count))
    environment.start_environment()
    return environment


def _play(environment, seeds, actions):
    """Return all that its bodies show: from the first readings, with each body begun anew where it ended."""
    rows = np.arange(len(seeds[0]))
    shown = [environment.begin_batch(rows, seeds[0])["observation"]]
    episodes = np.zeros(len(rows), int)
    environment.rows = rows
    for setpoints in actions:
        batch = environment.update_batch({"action": setpoints})
        shown += [batch.readings["observation"], batch.rewards["reward"], batch.terminated, batch.truncated]
        over = np.flatnonzero(batch.terminated | batch.truncated)
        episodes[over] += 1
        if len(over):
            again = environment.begin_batch(over, [seeds[episodes[row]][row] for row in over])["observation"]
            begun = np.zeros((len(rows), *again.shape[1:]), again.dtype)
            begun[over] = again
            shown.append(begun)
        else:
            shown.append(np.zeros_like(shown[0]))
    return shown


@pytest.mark.parametrize(
    ("params", "actions"),
    [
        ({"id": "CartPole-v1", "max_episode_steps": 12}, np.arange(4 * 40).reshape(40, 4) % 7 % 2),
        ({"id": "Pendulum-v1", "max_episode_steps": 9}, np.linspace(-2, 2, 80, dtype=np.float32).reshape(20, 4, 1)),
        ({"id": "MountainCar-v0"}, np.arange(4 * 20).reshape(20, 4) % 3),
    ],
    ids=lambda given: given["id"] if isinstance(given, dict) else "",
)
def test_bodies_are_copies(make, params, actions) -> None:
    """Four bodies show what one body in each of four environments shows, also where one begins anew, bit for bit."""
    seeds = np.random.default_rng(1).integers(2**62, size=(60, 4)).tolist()
    together = _play(_bodies(make, 4, **params), seeds, actions)
    alone = [
        _play(_bodies(make, 1, **params), [row[b : b + 1] for row in seeds], actions[:, b : b + 1]) for b in range(4)
    ]

    for found, *ones in zip(together, *alone, strict=True):
        np.testing.assert_array_equal(found, np.concatenate(ones))
        assert {found.dtype} == {one.dtype for one in ones}


def test_a_body_is_an_environment_alone(make) -> None:
    """A body's episode is that of an environment without bodies of the same seed and actions."""
    many, [alone, _] = _bodies(make, 2, id="CartPole-v1"), _started(make, id="CartPole-v1", seed=5)
    first = many.begin_batch(np.arange(2), [9, 5])["observation"]
    many.rows = np.arange(1, 2)
    batches = [many.update_batch({"action": np.array([step % 2])}) for step in range(8)]
    states = [alone.update(_act(alone, step % 2)) for step in range(8)]

    assert (np.float32, (2, 4)) == (first.dtype, first.shape)
    for batch, state in zip(batches, states, strict=True):
        np.testing.assert_array_equal(batch.readings["observation"][0], state.sensor_information[0].value)
        assert [state.rewards[0].value] == batch.rewards["reward"].tolist()
        assert [state.terminated] == batch.terminated.tolist()


def test_composite_spaces_of_bodies_are_vectors(make) -> None:
    """A Tuple or Dict travels as its vector, only bodies that take part act, and where both flags are said it ended."""
    environment = _bodies(make, 3, id="GanglionComposite-v0", flags=(True, True))
    first = environment.begin_batch(np.arange(3), [1, 2, 3])["observation"]
    environment.rows = np.array([0, 2])
    batch = environment.update_batch({"action": np.array([[0.25, -1.0], [0.5, 1.0]])})
    given = [world.unwrapped.given for world in environment.worlds]
    environment.shutdown()

    assert [[0.0] * 3] * 3 == first.tolist()
    assert ([[1.0] * 3] * 2, [0.5, 0.5]) == (batch.readings["observation"].tolist(), batch.rewards["reward"].tolist())
    assert ([True, True], [False, False]) == (batch.terminated.tolist(), batch.truncated.tolist())
    assert [[{"by": 0.25, "go": -1}], [], [{"by": 0.5, "go": 1}]] == given
    assert all(world.unwrapped.closed for world in environment.worlds)


def test_an_observation_outside_of_its_space_is_refused_by_its_body(make) -> None:
    """A body whose environment shows what it did not declare is named."""
    environment = _bodies(make, 2, id="GanglionComposite-v0")
    environment.begin_batch(np.arange(2), [1, 2])
    environment.worlds[1].unwrapped.steps = 9
    environment.rows = np.arange(2)

    with pytest.raises(OutOfObservationSpaceError, match="observation of body ada/1"):
        environment.update_batch({"action": np.zeros((2, 2))})
