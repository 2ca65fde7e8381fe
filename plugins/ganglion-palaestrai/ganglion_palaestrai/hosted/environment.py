"""Environment: worlds, rewards and state transformers of palaestrAI, played unmodified."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping
from inspect import Parameter, isawaitable
from typing import Any

import numpy as np
from palaestrai import environment as theirs
from palaestrai.agent import ActuatorInformation as TheirActuator
from palaestrai.agent import RewardInformation as TheirReward
from palaestrai.agent import SensorInformation as TheirSensor
from palaestrai.core.protocol import EnvironmentResetRequest
from palaestrai.types import SimTime as TheirTime

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    ResetRequest,
    Reward,
    RewardInformation,
    SensorInformation,
    Space,
    StateTransformer,
)
from ganglion_palaestrai.hosted.chance import Chance
from ganglion_palaestrai.hosted.part import Hosted
from ganglion_palaestrai.hosted.values import our_information, our_time, their_information

__all__ = ["HostedEnvironment", "HostedReward", "HostedState", "HostedTransformer"]


class HostedState(EnvironmentState):
    """Be a state that came from a world of palaestrAI; its own state and setpoints are kept for rewards of theirs."""

    __slots__ = ("setpoints", "theirs")
    theirs: Any
    setpoints: list[Any]


class HostedEnvironment(Hosted, Environment):
    """Play a world of palaestrAI.

    Both forms of answers, plain and async hooks, and a `reset` of its own are taken. What it draws from Gymnasium
    without a seed comes from the seed of the run.
    """

    @staticmethod
    def check(hosted: type[Any], parameters: Mapping[str, Parameter]) -> None:
        """Refuse a constructor that takes neither `uid` nor `seed`, which the base class of palaestrAI needs."""
        keywords = any(it.kind is Parameter.VAR_KEYWORD for it in parameters.values())
        if not keywords and not {"uid", "seed"} & parameters.keys():
            found = ", ".join(list(parameters)[1:]) or "none"
            raise TypeError(f"has a constructor without uid and seed, which palaestrAI gives it, found {found}")

    def __init__(self, **params: Any) -> None:
        Chance(self.rng)
        super().__init__(**params)
        self.theirs._name = self.uid
        self._sensor_spaces: dict[str, Space] = {}
        self._actuator_spaces: dict[str, Space] = {}
        self._reward_spaces: dict[str, Space] = {}
        self._their_actuators: dict[str, Any] = {}

    def meant(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with uid and seed, which palaestrAI gives its worlds."""
        found = inspect.signature(self.hosted.__init__).parameters
        keywords = any(it.kind is Parameter.VAR_KEYWORD for it in found.values())
        offered = {"uid": self.uid, "broker_uri": "", "seed": self.seed % 2**31}
        taken = {name for name in offered if name in found or (keywords and name != "broker_uri")}
        return {name: value for name, value in offered.items() if name in taken} | super().meant(params)

    def start_environment(self) -> Any:
        """Open the first episode; see `Environment`."""
        self._lend_reward()
        return _then(self.theirs.start_environment(), self._baseline)

    def _baseline(self, started: Any) -> EnvironmentBaseline:
        time, model = None, None
        if isinstance(started, tuple) and len(started) == 2:
            sensors, actuators = started
        elif isinstance(started, theirs.EnvironmentBaseline):
            sensors, actuators = started.sensors_available, started.actuators_available
            time, model = our_time(started.simtime), started.static_world_model
        else:
            wanted = "an EnvironmentBaseline of palaestrAI or (sensors, actuators)"
            raise TypeError(f"start_environment: expected {wanted}, found {started!r:.200}")
        return self._opened(sensors, actuators, time, model if isinstance(model, dict) else None)

    def _opened(self, sensors: Any, actuators: Any, time: Any, model: Any) -> EnvironmentBaseline:
        prefix = f"{self.uid}."
        self._sensor_spaces.clear()
        self._actuator_spaces.clear()
        self.theirs._done, self.theirs._tick = False, 0
        self._their_actuators = {str(it.uid).removeprefix(prefix): it.space for it in actuators}
        readings = our_information(SensorInformation, sensors, prefix, self._sensor_spaces)
        setpoints = our_information(ActuatorInformation, actuators, prefix, self._actuator_spaces)
        for it in setpoints:
            if it.value is None:  # palaestrAI asks for none
                it.value = it.space.default()
        self.theirs._sensor_ids = [f"{prefix}{it.uid}" for it in readings]
        self.theirs._actuator_ids = [f"{prefix}{it.uid}" for it in setpoints]
        more = {} if time is None else {"simtime": time}
        return EnvironmentBaseline(readings, setpoints, static_world_model=model, **more)

    def update(self, actuators: list[ActuatorInformation]) -> Any:
        """Advance by one step; see `Environment`."""
        setpoints = their_information(TheirActuator, actuators, self._their_actuators)
        self.theirs._tick += 1
        return _then(self.theirs.update(setpoints), lambda stepped: self._state(stepped, setpoints))

    def _state(self, stepped: Any, setpoints: list[Any]) -> EnvironmentState:
        if isinstance(stepped, tuple) and len(stepped) == 3:
            time = TheirTime(simtime_ticks=self.theirs._tick)
            stepped = theirs.EnvironmentState(stepped[0], stepped[1], stepped[2], simtime=time)
        elif not isinstance(stepped, theirs.EnvironmentState):
            wanted = "an EnvironmentState of palaestrAI or (sensors, rewards, done)"
            raise TypeError(f"update: expected {wanted}, found {stepped!r:.200}")
        self.theirs._done = bool(stepped.done)
        prefix = f"{self.uid}."
        rewards = stepped.rewards if isinstance(stepped.rewards, list | tuple) else [stepped.rewards]
        state = HostedState(
            our_information(SensorInformation, stepped.sensor_information, prefix, self._sensor_spaces),
            self._paid(our_information(RewardInformation, rewards, prefix, {})),
            bool(stepped.done),
            stepped.world_state,
            our_time(stepped.simtime),
            None if stepped.terminated is None else bool(stepped.terminated),
            None if stepped.truncated is None else bool(stepped.truncated),
        )
        state.theirs, state.setpoints = stepped, setpoints
        return state

    def _paid(self, rewards: list[RewardInformation]) -> list[RewardInformation]:
        """Return the rewards of a step, unbounded, under the ids of the first one: there worlds are held to neither."""
        ids = [it.uid for it in rewards]
        if not self._reward_spaces:
            self._reward_spaces = {
                it.uid: Box(-np.inf, np.inf, it.space.shape) if isinstance(it.space, Box) else it.space
                for it in rewards
            }
        elif not self._reward_spaces.keys() >= set(ids) and len(ids) == len(self._reward_spaces):
            ids = list(self._reward_spaces)
        return [
            RewardInformation(it.value, self._reward_spaces.get(uid, it.space), uid, it.value_ids)
            for it, uid in zip(rewards, ids, strict=True)
        ]

    def reset(self, request: ResetRequest) -> Any:
        """Open the next episode: by its own `reset` if it has one, else by `shutdown` and `start_environment`."""
        Chance(np.random.default_rng(request.seed))
        self._lend_reward()
        if type(self.theirs).reset is not theirs.Environment.reset:
            asked = EnvironmentResetRequest("ganglion", self.uid, "", "", 0)
            return _then(self.theirs.reset(asked), self._answered)
        closed = self.theirs.shutdown()
        if isawaitable(closed):
            return self._anew(closed)
        return _then(self.theirs.start_environment(), self._baseline)

    def _answered(self, answer: Any) -> EnvironmentBaseline:
        return self._opened(answer.sensors, answer.actuators, our_time(answer.simtime), None)

    async def _anew(self, closed: Awaitable[Any]) -> EnvironmentBaseline:
        await closed
        started = self.theirs.start_environment()
        return self._baseline(await started if isawaitable(started) else started)

    def shutdown(self) -> Any:
        """Release what the world holds."""
        return _then(self.theirs.shutdown(), lambda _: None)

    def _lend_reward(self) -> None:
        """Let the world call the document's reward itself, as palaestrAI lets it."""
        if self.reward is not None:
            self.theirs.reward = _Lent(self)


class _Lent:
    """Be the reward that a world of palaestrAI calls: with its own arguments if the reward is theirs, too."""

    def __init__(self, environment: HostedEnvironment) -> None:
        self.environment = environment

    def __call__(self, *given: Any) -> Any:
        environment = self.environment
        assert environment.reward is not None
        state = HostedState(*_seen(given, environment), False)  # flags are not known here
        state.theirs, state.setpoints = given, []
        found = environment.reward(state)
        listed = found if isinstance(found, list | tuple) else [found]
        spaces: dict[str, Any] = {}
        paid = their_information(TheirReward, listed, spaces)
        return paid if isinstance(found, list | tuple) else paid[0]


def _seen(given: tuple[Any, ...], environment: HostedEnvironment) -> tuple[list[SensorInformation], list[Any]]:
    """Return the readings of what a world calls its reward with: a state, or a list of readings."""
    sensors = getattr(given[0], "sensor_information", given[0]) if given else []
    return our_information(SensorInformation, sensors, f"{environment.uid}.", environment._sensor_spaces), []


class HostedReward(Hosted, Reward):
    """Ask a reward of palaestrAI: with the state, or with readings and setpoints if it takes two arguments."""

    @staticmethod
    def check(hosted: type[Any], parameters: Mapping[str, Parameter]) -> None:
        """Refuse one that takes more than two arguments."""
        if _needed(hosted.__call__) > 2:
            raise TypeError("has a __call__ of more than two arguments: expected a state, or readings and setpoints")

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._two = _needed(self.hosted.__call__) == 2
        self._spaces: dict[str, Space] = {}

    def __call__(self, state: EnvironmentState) -> Any:
        """Return its rewards."""
        found = self.theirs(*self._arguments(state))
        single = not isinstance(found, list | tuple)
        rewards = our_information(RewardInformation, [found] if single else found, "", self._spaces)
        return rewards[0] if single else rewards

    def _arguments(self, state: EnvironmentState) -> tuple[Any, ...]:
        if isinstance(state, HostedState):
            if isinstance(state.theirs, tuple):  # the world calls it itself
                return state.theirs
            return (state.theirs.sensor_information, state.setpoints) if self._two else (state.theirs,)
        if self._two:
            raise TypeError("takes readings and setpoints, and only worlds of palaestrAI hand these on")
        return (_theirs_of(state),)


class HostedTransformer(Hosted, StateTransformer):
    """Ask a state transformer of palaestrAI."""

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._sensors: dict[str, Space] = {}
        self._rewards: dict[str, Space] = {}

    def __call__(self, state: EnvironmentState) -> EnvironmentState:
        """Return the state as it shows it; its flags stay."""
        given = _theirs_of(state)
        shown = self.theirs(given)
        if not isinstance(shown, theirs.EnvironmentState):
            raise TypeError(f"expected an EnvironmentState of palaestrAI, found {shown!r:.200}")
        prefix = f"{self.uid}."
        state.sensor_information = our_information(SensorInformation, shown.sensor_information, prefix, self._sensors)
        state.rewards = our_information(RewardInformation, shown.rewards, prefix, self._rewards)
        state.world_state = shown.world_state
        state.simtime = our_time(shown.simtime)
        return state


def _theirs_of(state: EnvironmentState) -> Any:
    """Return a state of ours as one of palaestrAI, with the rewards that it has now."""
    spaces: dict[str, Any] = {}
    rewards = their_information(TheirReward, state.rewards, {})
    if isinstance(state, HostedState) and not isinstance(state.theirs, tuple):
        sensors, world = state.theirs.sensor_information, state.theirs.world_state
    else:
        sensors, world = their_information(TheirSensor, state.sensor_information, spaces), state.world_state
    time = None if state.simtime is None else TheirTime(state.simtime.simtime_ticks, state.simtime.simtime_timestamp)
    flags = {"terminated": bool(state.terminated), "truncated": bool(state.truncated)}
    return theirs.EnvironmentState(sensors, rewards, state.done, world, time, **flags)


def _needed(function: Any) -> int:
    """Return how many arguments a method takes without a default, beside self."""
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return sum(it.kind in positional and it.default is Parameter.empty for it in parameters)


def _then(found: Any, after: Any) -> Any:
    """Return what comes after a hook that may be async."""
    if not isawaitable(found):
        return after(found)

    async def wait() -> Any:
        return after(await found)

    return wait()
