"""Judgement: the document's reward and transformer, which have their say on each state of an environment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from inspect import isawaitable
from typing import Any

from ganglion.errors import AuthorError
from ganglion.peer.excuse import Excuses, Pardoned, continues
from ganglion.peer.hooks import Hooks, identity
from ganglion.peer.loader import Loader
from ganglion.sdk.environment import EnvironmentBaseline, EnvironmentState, Reward, StateTransformer
from ganglion.sdk.information import RewardInformation
from ganglion.sdk.seed import derive
from ganglion.wire.messages import EnvironmentStart


class Judgement:
    """Make reward and transformer of an environment, where the document has them, and call them as is promised.

    What they raise, and what is wrong with what they return, is blamed on their own classes.
    """

    def __init__(self, loader: Loader, start: EnvironmentStart, excuses: Excuses, owner: Mapping[str, Any]) -> None:
        self._loader, self._start, self._owner = loader, start, owner
        self.generators: dict[str, Any] = {}
        self.own_rewards = False
        """Whether the environment's own rewards stand in this step, since the reward's exception was excused."""
        self._rewarding = self._hooks(excuses, "reward", start.reward)
        self._transforming = self._hooks(excuses, "transformer", start.transformer)
        self.reward: Reward | None = self._make("reward", start.reward, self._rewarding)
        self.transformer: StateTransformer | None = self._make("transformer", start.transformer, self._transforming)
        self.once = None if self.reward is None else Once(self.reward)

    def _hooks(self, excuses: Excuses, kind: str, plugin: Mapping[str, Any] | None) -> Hooks:
        uid = self._start.uid
        where = f"{kind} of environment {uid} (worker {self._start.worker})"
        if plugin is not None:
            where = f"{where}, {self._loader.blame(kind, str(plugin['name']))}"
        return Hooks(where, excuses if continues(plugin) else None, f"{kind}:{uid}")

    def _make(self, kind: str, plugin: Mapping[str, Any] | None, hooks: Hooks) -> Any:
        if plugin is None:
            return None
        attributes = {**self._owner, **identity(derive(self._start.stream, kind))}
        self.generators[kind] = attributes["rng"]
        return hooks("__init__", lambda: self._loader.make(kind, plugin, attributes))

    @property
    def silent(self) -> bool:
        """Say whether there is neither."""
        return self.once is None and self.transformer is None

    def told_by(self, hooks: Hooks) -> Hooks:
        """Return whose readings are seen; `hooks` are the environment's."""
        return hooks if self.transformer is None else self._transforming

    def paid_by(self, hooks: Hooks) -> Hooks:
        """Return whose rewards are seen."""
        return self.told_by(hooks if self.once is None or self.own_rewards else self._rewarding)

    def reset(self) -> None:
        """Begin the next episode with the environment."""
        self.show_step(None)
        for part, hooks in ((self.reward, self._rewarding), (self.transformer, self._transforming)):
            if part is not None:
                hooks("reset", part.reset)

    def show_step(self, step: int | None) -> None:
        """Begin a step: what the reward returned in the one before is forgotten."""
        self._rewarding.step = self._transforming.step = step
        self.own_rewards = False
        if self.once is not None:
            self.once.result = None

    def baseline(self, baseline: EnvironmentBaseline) -> EnvironmentBaseline:
        """Return a baseline as the transformer shows it, if it wants to see them."""
        if self.transformer is None or not self.transformer.baseline:
            return baseline
        state = EnvironmentState(baseline.sensors_available, [], False, None, baseline.simtime)
        state = self._transformed(state)
        return EnvironmentBaseline(
            state.sensor_information,
            baseline.actuators_available,
            baseline.simtime if state.simtime is None else state.simtime,
            baseline.static_world_model,
            baseline.rewards_available,
        )

    def finish(
        self, state: EnvironmentState, check: Callable[[list[RewardInformation]], Any] | None
    ) -> EnvironmentState:
        """Return the state as it is to be seen; `check` raises for rewards that were not declared, where any were."""
        if self.once is not None:
            self._judge(self.once, state, check)
        return state if self.transformer is None else self._transformed(state)

    def close(self) -> None:
        """End the loops of async hooks."""
        self._rewarding.close()
        self._transforming.close()

    # -- reward -------------------------------------------------------------------------------------------------------
    def _judge(self, once: Once, state: EnvironmentState, check: Callable[[Any], Any] | None) -> None:
        """Put the rewards of the document in the place of the environment's own, which stay if that is excused."""
        own, rewards = state.rewards, once.result
        try:
            if rewards is None:
                rewards = self._rewarding.pardon("reward", once, state)
            state.rewards = self._rewarding.pardon("reward", _listed, rewards)
            if self._rewarding.excuses is not None and check is not None:
                self._rewarding.pardon("reward", check, state.rewards)
        except Pardoned:
            state.rewards, self.own_rewards = own, True

    # -- transformer --------------------------------------------------------------------------------------------------
    def _transformed(self, state: EnvironmentState) -> EnvironmentState:
        kept = state if self._transforming.excuses is None else _copied(state)
        try:
            found: EnvironmentState = self._transforming.pardon("transformer", self._transform, state)
        except Pardoned:
            return kept
        return found

    def _transform(self, state: EnvironmentState) -> Any:
        """Return what the transformer makes of a state; its flags stay."""
        assert self.transformer is not None
        flags = (state.terminated, state.truncated)
        made: Any = self.transformer(state)
        return _checked(flags, made) if not isawaitable(made) else _checked_later(flags, made)


async def _checked_later(flags: tuple[bool, bool], made: Awaitable[Any]) -> EnvironmentState:
    return _checked(flags, await made)


def _checked(flags: tuple[bool, bool], made: Any) -> EnvironmentState:
    if not isinstance(made, EnvironmentState):
        raise AuthorError(f"the transformer: expected an EnvironmentState, found {type(made).__name__}")
    if (made.terminated, made.truncated) != flags:
        raise AuthorError("the transformer changed terminated or truncated, which it may not")
    return made


def _listed(rewards: Any) -> list[RewardInformation]:
    """Return what a reward returned, one or several; AuthorError if it is something else."""
    found = list(rewards) if isinstance(rewards, list | tuple) else [rewards]
    for it in found:
        if not isinstance(it, RewardInformation):
            raise AuthorError(f"expected a RewardInformation, or a list of them, found {rewards!r:.80}")
    return found


def _copied(state: EnvironmentState) -> EnvironmentState:
    """Return a state that stays as it is, whatever becomes of the other's readings and rewards."""
    kept = copy(state)
    kept.sensor_information = [copy(it) for it in state.sensor_information]
    kept.rewards = [copy(it) for it in state.rewards]
    return kept


class Once:
    """Stand before the document's reward and remember what it returned, so that it is not asked twice in a step.

    Everything else is the reward's own.
    """

    def __init__(self, reward: Reward) -> None:
        self._inner = reward
        self.result: Any = None

    def __call__(self, state: EnvironmentState) -> Any:
        """Return the reward's rewards."""
        found = self._inner(state)
        if isawaitable(found):
            return self._wait(found)
        self.result = found
        return found

    async def _wait(self, found: Awaitable[Any]) -> Any:
        self.result = await found
        return self.result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)
