"""Environment: any environment of Gymnasium on the bus, by its id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Mask,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
    Space,
    SpaceError,
    StepBatch,
)

if TYPE_CHECKING:
    import gymnasium

__all__ = ["GymnasiumEnvironment"]

REWARD = Box(-np.inf, np.inf, ())
Array = NDArray[Any]


class GymnasiumEnvironment(Environment):
    """An environment of Gymnasium.

    Sensor `observation` and actuator `action` have the spaces of the environment (Tuple and Dict included; Text,
    Graph, Sequence and OneOf are refused by name), reward `reward` is any number. The no-op is the action nearest to
    zero. `terminated` and `truncated` are passed on as they are; where an environment says both, it terminated.
    Simulated time: ticks are steps. Nothing is rendered unless `render_mode` is given.

    Every episode is begun by `reset(seed=...)` with the seed of the environment or of the episode, so that equal
    documents give equal runs, as far as the environment keeps its own randomness in its generator.

    With several bodies there is one environment of Gymnasium for each, which are stepped together and know nothing of
    each other. Each body's episodes are begun by seeds of its own; with `episode_end: each` they are begun one by one.

    Params:
        id: What `gymnasium.make` knows, such as `CartPole-v1`. An id of the form `module:id`, which would import any
            module, is refused: let the package register itself by Gymnasium's entry points.
        action_mask: Whether the `action_mask` of the environment's infos (as of Taxi-v3) is a sensor of this name, a
            Mask: what it forbids may not be done. At the end of an episode all is allowed. Default false.
        ...: All others are passed to `gymnasium.make`, such as `max_episode_steps` or the environment's own.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - the name that everybody knows from Gymnasium
        action_mask: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        import gymnasium  # heavy, and only needed where such an environment really runs

        _check_id(id)
        self.id = id
        self.kwargs, self.masked = kwargs, action_mask
        self.world: gymnasium.Env[Any, Any] = gymnasium.make(id, **kwargs)
        self.worlds = [self.world]  # one for each body
        self.steps = 0
        self._observation_space: Space
        self._action_space: Space

    @property
    def batched(self) -> bool:  # type: ignore[override]
        """Whether there are bodies, which are stepped together."""
        return bool(self.bodies)

    @classmethod
    def longest_episode(cls, id: str = "", **params: Any) -> int | None:  # noqa: A002 - as in the constructor
        """Return the registered number of steps, or `max_episode_steps` where it is given."""
        import gymnasium

        if params.get("max_episode_steps") is not None:
            return int(params["max_episode_steps"])
        _check_id(id)
        return gymnasium.spec(id).max_episode_steps

    def start_environment(self) -> EnvironmentBaseline:
        """Begin the first episode, by the environment's own seed; those of bodies are begun by `begin_batch`."""
        from ganglion_gymnasium.space import from_gymnasium

        self._observation_space = from_gymnasium(self.world.observation_space)
        self._action_space = from_gymnasium(self.world.action_space)
        if self.masked and not isinstance(self._action_space, Discrete):
            raise ValueError(f"action_mask: expected an environment with Discrete actions, found {self._action_space}")
        if not self.bodies:
            return self._begin(self.seed)
        import gymnasium

        self.worlds += [gymnasium.make(self.id, **self.kwargs) for _ in self.bodies[len(self.worlds) :]]
        return self._declare(self._observation_space.default())

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin a later episode, by the seed of the request."""
        return self._begin(request.seed)

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Carry out one action; without a setpoint the no-op."""
        from ganglion_gymnasium.space import value_to_gymnasium

        action = actuators[0].value if actuators else self._action_space.default()
        found = self.world.step(value_to_gymnasium(self._action_space, action))
        observation, reward, terminated, truncated, info = found
        self.steps += 1
        return EnvironmentState(
            sensor_information=self._readings(observation, info, bool(terminated or truncated)),
            rewards=[RewardInformation(float(reward), REWARD, "reward")],
            terminated=bool(terminated),
            truncated=bool(truncated) and not terminated,
            simtime=SimTime(simtime_ticks=self.steps),
        )

    def begin_batch(self, rows: Array, seeds: Sequence[int]) -> Mapping[str, Array]:
        """Begin an episode of each of these bodies, by its seed."""
        begun = [self.worlds[row].reset(seed=seed) for row, seed in zip(rows.tolist(), seeds, strict=True)]
        return self._seen(rows, [one[0] for one in begun], [one[1] for one in begun], np.zeros(len(rows), bool))

    def update_batch(self, setpoints: Mapping[str, Array]) -> StepBatch:
        """Carry out an action of each of the bodies that take part."""
        from ganglion_gymnasium.space import value_to_gymnasium

        space, answers = self._action_space, []
        for row, vector in zip(self.rows.tolist(), setpoints["action"].reshape(len(self.rows), -1), strict=True):
            answers.append(self.worlds[row].step(value_to_gymnasium(space, space.from_vector(vector))))
        observations, rewards, terminated, truncated, infos = zip(*answers, strict=True)
        over = np.array(terminated, bool)
        return StepBatch(
            readings=self._seen(self.rows, observations, infos, over | np.array(truncated, bool)),
            rewards={"reward": np.array(rewards, np.float64)},
            terminated=over,
            truncated=np.array(truncated, bool) & ~over,
        )

    def shutdown(self) -> bool | None:
        """Close the environment, or those of all bodies."""
        for world in self.worlds:
            world.close()
        return None

    def _begin(self, seed: int) -> EnvironmentBaseline:
        observation, info = self.world.reset(seed=seed)
        self.steps = 0
        return self._declare(observation, info)

    def _declare(self, observation: Any, info: Mapping[str, Any] | None = None) -> EnvironmentBaseline:
        no_op = ActuatorInformation(self._action_space.default(), self._action_space, "action")
        return EnvironmentBaseline(
            sensors_available=self._readings(observation, info or {}, over=info is None),
            actuators_available=[no_op],
            simtime=SimTime(simtime_ticks=0),
            rewards_available=[RewardInformation(0.0, REWARD, "reward")],
        )

    def _readings(self, observation: Any, info: Mapping[str, Any], over: bool) -> list[SensorInformation]:
        # A copy: environments may write the next observation into the same array, which the bus freezes.
        value = self._observation_space.canonical(observation)
        found = [SensorInformation(value, self._observation_space, "observation")]
        if self.masked:
            mask = self._allowed(info, over)
            found.append(SensorInformation(mask, Mask(len(mask), of="action"), "action_mask"))
        return found

    def _allowed(self, info: Mapping[str, Any], over: bool) -> Array:
        """Return what may be done; all of it where nothing follows and the environment allows nothing."""
        given = info.get("action_mask")
        if given is None and not over:
            raise ValueError(f"action_mask: expected it in the info of {self.id}, found {', '.join(info) or 'nothing'}")
        space: Any = self._action_space
        nothing = over and (given is None or not np.any(given))
        return np.ones(space.n, np.int8) if nothing else np.array(given)

    def _seen(self, rows: Array, observations: Sequence[Any], infos: Sequence[Any], over: Array) -> dict[str, Array]:
        """Return the readings of these bodies by id."""
        found = {"observation": self._observed(rows, observations)}
        if self.masked:
            each = zip(infos, over.tolist(), strict=True)
            found["action_mask"] = np.stack([self._allowed(info, ended) for info, ended in each])
        return found

    def _observed(self, rows: Array, observations: Sequence[Any]) -> Array:
        """Return copies of the observations of these bodies as one array; refuses one by its body."""
        space: Any = self._observation_space
        vectors = []
        for row, observation in zip(rows.tolist(), observations, strict=True):
            try:
                vectors.append(space.to_vector(observation))
            except SpaceError:
                body = self.bodies[row]
                SensorInformation(observation, space, "observation", body=(body.agent, body.b))  # refuses it by name
                raise
        return np.stack(vectors).reshape(len(vectors), *space.shape)


def _check_id(id: str) -> None:  # noqa: A002 - as in the constructor
    if ":" in id:
        raise ValueError(
            f"id {id!r}: an id that imports a module is not accepted; install a package that registers its "
            "environments by the entry-point group gymnasium.envs"
        )
