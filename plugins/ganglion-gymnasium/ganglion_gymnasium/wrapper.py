"""Wrapper: an environment of ours as one of Gymnasium."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import isawaitable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ganglion.sdk import (
    ActuatorInformation,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Mode,
    ResetRequest,
    SensorInformation,
)
from ganglion.sdk.part import construct
from ganglion_gymnasium.space import to_gymnasium, value_to_gymnasium

__all__ = ["WrappedEnvironment", "as_gymnasium"]

Information = Sequence[SensorInformation] | Sequence[ActuatorInformation]
SEED_END = 2**63


def as_gymnasium(
    environment: type[Environment], params: Mapping[str, Any] | None = None, uid: str = "environment"
) -> WrappedEnvironment:
    """Return a Gymnasium environment around one of ours, for programs that know Gymnasium only.

    Args:
        environment: The class; hooks that are `async def` are refused, since Gymnasium has no loop.
        params: Arguments of its constructor; None is none.
        uid: The name that it is told to have.

    Raises:
        PluginInvalid: The class does not take these parameters.
        TypeError: A hook is asynchronous.
    """
    return WrappedEnvironment(environment, params or {}, uid)


class WrappedEnvironment(gymnasium.Env[Any, Any]):
    """An environment of Ganglion as one of Gymnasium.

    One sensor is the observation as it is, several are a Dict by id; likewise actuators and the action. The reward is
    the sum of the rewards. `info` has `simtime_ticks`, and `rewards` by id. `reset(seed=s)` makes a new object of that
    seed, so that it repeats exactly; `reset()` goes on with the same object.
    """

    def __init__(self, environment: type[Environment], params: Mapping[str, Any], uid: str) -> None:
        self._class, self._params, self._uid = environment, dict(params), uid
        self._episode = 0
        self._make(seed=0)
        baseline = self._baseline(self._environment.start_environment())
        self._actuators = list(baseline.actuators_available)
        self.observation_space = _joint(baseline.sensors_available)
        self.action_space = _joint(self._actuators)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; `options` are not looked at."""
        super().reset(seed=seed)
        if seed is None:
            self._episode += 1
            request = ResetRequest(episode=self._episode, seed=int(self.np_random.integers(SEED_END)))
            baseline = self._baseline(self._environment.reset(request))
        else:
            self._episode = 0
            self.close()
            self._make(seed)
            baseline = self._baseline(self._environment.start_environment())
        return self._observation(baseline.sensors_available), {"simtime_ticks": baseline.simtime.simtime_ticks}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply an action and advance by one step."""
        setpoints = [action] if len(self._actuators) == 1 else [action[it.uid] for it in self._actuators]
        actuators = [
            ActuatorInformation(value, it.space, it.uid, it.value_ids)
            for value, it in zip(setpoints, self._actuators, strict=True)
        ]
        state = _plain(self._environment.update(actuators))
        if not isinstance(state, EnvironmentState):
            state = EnvironmentState(*state)
        rewards = {it.uid: float(it.value) for it in state.rewards}
        info = {"rewards": rewards, "simtime_ticks": state.simtime.simtime_ticks if state.simtime else None}
        reward = sum(rewards.values())
        return self._observation(state.sensor_information), reward, state.terminated, state.truncated, info

    def close(self) -> None:
        """Release what the environment holds."""
        _plain(self._environment.shutdown())

    def _make(self, seed: int) -> None:
        attributes = {
            "uid": self._uid,
            "name": self._uid,
            "worker": 0,
            "mode": Mode.TRAIN,
            "seed": seed,
            "rng": np.random.default_rng(seed),
            "params": self._params,
        }
        self._environment = construct(self._class, self._params, {"uid": self._uid, "seed": seed}, attributes)

    def _baseline(self, started: Any) -> EnvironmentBaseline:
        found = _plain(started)
        self._environment.episode = self._episode
        return found if isinstance(found, EnvironmentBaseline) else EnvironmentBaseline(*found)

    def _observation(self, sensors: Sequence[SensorInformation]) -> Any:
        values = {it.uid: value_to_gymnasium(it.space, it.value) for it in sensors}
        return values if len(values) > 1 else next(iter(values.values()))


def _joint(informations: Information) -> spaces.Space[Any]:
    """Return the space of one value, or the Dict of several by id."""
    found = {it.uid: to_gymnasium(it.space) for it in informations}
    if not found:
        raise ValueError("an environment without sensors or without actuators cannot be one of Gymnasium")
    return spaces.Dict(found) if len(found) > 1 else next(iter(found.values()))


def _plain(found: Any) -> Any:
    if isawaitable(found):
        raise TypeError("a hook of this environment is asynchronous, and Gymnasium has no loop to await it")
    return found
