"""Functional: environments written as a pure function on batches of states, hosted like any other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ganglion.errors import AuthorError, OutOfActionSpaceError
from ganglion.sdk.environment import Environment, EnvironmentBaseline, EnvironmentState, ResetRequest, StepBatch
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation
from ganglion.sdk.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space

Array = NDArray[Any]
Shape = tuple[int, ...]
Shapes = Mapping[str, Sequence[int]] | Sequence[Sequence[int]] | tuple[int, ...]
Dtypes = Mapping[str, Any] | Sequence[Any] | DTypeLike | None

REWARD = Box(-np.inf, np.inf, ())


class FunctionalStep(NamedTuple):
    """Give the result of a step: new states and observations by name, rewards and whether alive, `[batch]` each."""

    states: dict[str, Any]
    observations: dict[str, Any]
    rewards: Any
    alive: Any


class Items:
    """Name the arrays of one kind (`state`, `observation` or `action`) that a functional environment takes and returns.

    Shapes and dtypes are as of `FunctionalEnvironment`; ValueError for a shape that is no tuple of sizes, or for dtypes
    that do not fit the items. The attributes `shapes` and `dtypes` map names to them, in declared order; `named` says
    whether items come and go as a map or as a list.
    """

    def __init__(self, kind: str, shapes: Shapes, dtypes: Dtypes, default: DTypeLike) -> None:
        self.kind, self.named = kind, isinstance(shapes, Mapping)
        if isinstance(shapes, Mapping):
            pairs = list(shapes.items())
        else:
            listed: Any = [shapes] if isinstance(shapes, tuple) else shapes
            pairs = [(f"{kind}_{i}", shape) for i, shape in enumerate(listed)]
        self.shapes = {name: _shape(f"{kind} {name!r}", shape) for name, shape in pairs}
        kinds: Any = default if dtypes is None else dtypes
        if isinstance(kinds, list | tuple):
            kinds = dict(zip(self.shapes, kinds, strict=True)) if len(kinds) == len(self.shapes) else {}
        if not isinstance(kinds, Mapping):
            kinds = dict.fromkeys(self.shapes, kinds)
        if kinds.keys() != self.shapes.keys():
            raise ValueError(f"{kind}_dtypes: expected one for all, or one for each of {self._names}, found {dtypes!r}")
        self.dtypes = {name: np.dtype(_word(kinds[name])) for name in self.shapes}

    @property
    def _names(self) -> str:
        return ", ".join(self.shapes) or "none"

    def give(self, arrays: Mapping[str, Any]) -> Any:
        """Return arrays in the declared form, a map or a list."""
        return dict(arrays) if self.named else list(arrays.values())

    def read(self, given: Any, batch: int | None, where: str) -> dict[str, Any]:
        """Return the arrays of `where` by name, given as map, list in declared order, or array of the only item.

        `batch` None takes any batch.

        Raises:
            AuthorError: An item is missing or unknown, or its shape or dtype is not the declared one.
        """
        if isinstance(given, Mapping):
            found = dict(given)
        else:
            parts = given if isinstance(given, list | tuple) else [given]
            found = dict(zip(self.shapes, parts, strict=True)) if len(parts) == len(self.shapes) else {}
        if found.keys() != self.shapes.keys():
            text = (
                ", ".join(map(str, given)) if isinstance(given, Mapping) else f"{type(given).__name__}, {given!r:.80}"
            )
            raise AuthorError(f"{where}: expected the {self.kind}s {self._names}, found {text}")
        rows = _batch(found) if batch is None else batch
        for name, shape in self.shapes.items():
            expected = f"{self.dtypes[name]} {(rows, *shape)}"
            if description(found[name]) != expected:
                text = f"expected {expected}, found {description(found[name])}"
                raise AuthorError(f"{where}: {self.kind} {name!r}: {text}")
        return {name: found[name] for name in self.shapes}

    def zeros(self, batch: int) -> dict[str, Array]:
        """Return zeros by name, `[batch, *shape]`."""
        return {name: np.zeros((batch, *shape), self.dtypes[name]) for name, shape in self.shapes.items()}

    def spaces(self, bounds: Any = None) -> dict[str, Space]:
        """Return the space of each item: within its bounds, a pair for all or a map, or else those of its dtype."""
        if not isinstance(bounds, Mapping):
            bounds = {} if bounds is None else dict.fromkeys(self.shapes, bounds)
        strange = [name for name in bounds if name not in self.shapes]
        if strange:
            raise AuthorError(f"bounds: expected {self.kind}s of {self._names}, found {strange[0]!r}")
        return {name: _space(shape, self.dtypes[name], bounds.get(name)) for name, shape in self.shapes.items()}


def description(array: Any) -> str:
    """Return dtype and shape of an array, or of a tensor, whose dtype is named after its module."""
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        return type(array).__name__
    return f"{_word(array.dtype)} {tuple(array.shape)}"


def _word(dtype: Any) -> Any:
    """Return the name of a dtype; those of torch have the names of numpy behind the module's."""
    text = str(dtype)
    return text.removeprefix("torch.") if text.startswith("torch.") else dtype


def _shape(whose: str, shape: Any) -> Shape:
    if isinstance(shape, list | tuple) and all(isinstance(size, int) and size >= 0 for size in shape):
        return tuple(shape)
    raise ValueError(f"{whose}: expected a tuple of sizes as its shape, found {shape!r}")


def _space(shape: Shape, dtype: np.dtype[Any], bounds: Any) -> Space:
    if dtype.kind == "b":
        return MultiBinary(shape) if shape else Discrete(2)
    low, high = (-np.inf, np.inf) if bounds is None else bounds
    if dtype.kind == "f" or not np.isfinite([low, high]).all():
        return Box(low, high, shape, dtype)
    lows, highs = (np.broadcast_to(np.asarray(bound, np.int64), shape) for bound in (low, high))
    return MultiDiscrete(highs - lows + 1, lows) if shape else Discrete(int(highs - lows) + 1, int(lows))


class FunctionalEnvironment(Environment):
    """A world that is a pure function of states and actions, for many bodies at once.

    A subclass has `get_action_results`, and of the other methods what it needs. All arrays have the batch as axis 0,
    one row per body; row i depends on row i alone. No method changes its arguments, and its result depends on
    nothing else. With bodies the methods are called once per step for all living bodies; rows of ended bodies are
    left out. The states stay in the process and are saved, so that a lost environment continues within an episode.

    Each observation is a sensor, each action an actuator whose no-op is the value nearest to zero; the reward is
    `reward`. A body that is not alive any more has terminated. Nothing is truncated: the caps of the document do that.

    Args:
        state_shapes: Shapes without the batch axis: a map name -> shape, or a list, whose items are named `state_0`,
            `state_1`, ...; one tuple is one item. Likewise those of observations and actions. The methods get a map or
            a list as it was declared here, in declared order. They return either; one item alone may be returned bare.
        state_dtypes: One for all, or one per item as a list or map; None is float32. Likewise those of observations,
            and of actions, of which None is int32.
    """

    batched: ClassVar[bool] = True
    # A pair (low, high), both inclusive, for all actions, or a map name -> pair; None, or an action that is not named,
    # has those of the dtype. Integers with bounds are choices: Discrete or MultiDiscrete.
    action_bounds: Any = None

    def __init__(
        self,
        state_shapes: Shapes,
        observation_shapes: Shapes,
        action_shapes: Shapes,
        state_dtypes: Dtypes = None,
        observation_dtypes: Dtypes = None,
        action_dtypes: Dtypes = None,
    ) -> None:
        super().__init__()
        self.state_items = Items("state", state_shapes, state_dtypes, np.float32)
        self.observation_items = Items("observation", observation_shapes, observation_dtypes, np.float32)
        self.action_items = Items("action", action_shapes, action_dtypes, np.int32)
        for items in (self.state_items, self.observation_items):
            if not items.shapes:
                raise ValueError(f"{items.kind}_shapes: expected at least one {items.kind}, found none")
        self._states: dict[str, Any] = {}  # of all bodies, rows of ended ones included

    # -- what a world is ---------------------------------------------------------------------------------------------
    @abstractmethod
    def get_action_results(self, last_states: Any, actions: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return the new states and their observations; all arrays are `[batch, *shape]`.

        The bus gives no other arguments.
        """

    def initial_states(self, batch: int, rng: np.random.Generator) -> Any:
        """Return states in which episodes begin; the default is zeros.

        The bus asks for one row per episode, with a generator of the episode's seed.
        """
        return self.state_items.give(self.state_items.zeros(batch))

    def get_first_observations(self, states: Any) -> Any:
        """Return what is observed before the first action; the default is zeros."""
        return self.observation_items.give(self.observation_items.zeros(_batch(states)))

    def get_reward(self, last_states: Any, actions: Any, new_states: Any, observations: Any) -> Any:
        """Return the rewards of a step, `[batch]`; the default is 0."""
        return np.zeros(_batch(new_states))

    def get_whether_alive(self, observations: Any) -> Any:
        """Return which bodies are alive, `[batch]` of booleans; False has terminated. The default is all."""
        return np.ones(_batch(observations), bool)

    # -- a step, by name ---------------------------------------------------------------------------------------------
    def begin(self, seeds: Sequence[int]) -> dict[str, Any]:
        """Return by name the states in which the episodes of these seeds begin, `[len(seeds), *shape]`."""
        found: dict[str, Any] = self.from_arrays(self.state_items.zeros(len(seeds)))
        for row, seed in enumerate(seeds):
            drawn = self.from_arrays(self.initial_states(1, np.random.default_rng(seed)))
            for name, array in self.state_items.read(drawn, 1, "initial_states").items():
                found[name][row] = array[0]
        return found

    def first_observations(self, states: Mapping[str, Any]) -> dict[str, Any]:
        """Return by name what is observed of first states."""
        items, batch = self.observation_items, _batch(states)
        seen = self.from_arrays(self.get_first_observations(self.state_items.give(states)))
        return items.read(seen, batch, "get_first_observations")

    def results(self, states: Mapping[str, Any], actions: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return new states and observations of states and actions, all by name; as `step`, without the rest."""
        found: Any = self.get_action_results(self.state_items.give(states), self.action_items.give(actions))
        if not isinstance(found, tuple) or len(found) != 2:
            text = f"expected (new_states, observations), found {type(found).__name__}"
            raise AuthorError(f"get_action_results: {text}")
        new, seen = map(self.from_arrays, found)
        batch, where = _batch(states), "get_action_results"
        return self.state_items.read(new, batch, where), self.observation_items.read(seen, batch, where)

    def step(self, states: Mapping[str, Any], actions: Mapping[str, Any]) -> FunctionalStep:
        """Return the result of a step by name; AuthorError: a method's result is not as declared."""
        new, seen = self.results(states, actions)
        last, shown, batch = self.state_items.give(states), self.observation_items.give(seen), _batch(states)
        rewards = self.get_reward(last, self.action_items.give(actions), self.state_items.give(new), shown)
        rewards = self.from_arrays(rewards)
        alive = self.from_arrays(self.get_whether_alive(shown))
        for where, kind, found in (("get_reward", "numbers", rewards), ("get_whether_alive", "bool", alive)):
            text = description(found)
            if not text.endswith(f" {(batch,)}") or (kind == "bool") is not text.startswith("bool "):
                raise AuthorError(f"{where}: expected {kind} {(batch,)}, found {text}")
        return FunctionalStep(new, seen, rewards, alive)

    def from_arrays(self, given: Any) -> Any:
        """Return an array of a method or of the bus in the world's own form; here unchanged."""
        return given

    def to_array(self, given: Any) -> Array:
        """Return an array of the world as one of numpy."""
        return np.asarray(given)

    # -- hosted by the bus -------------------------------------------------------------------------------------------
    def start_environment(self) -> EnvironmentBaseline:
        """Begin the first episode, by the environment's own seed."""
        self._states = self.from_arrays(self.state_items.zeros(max(1, len(self.bodies))))
        return self._baseline(self.seed)

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin a later episode, by the seed of the request."""
        return self._baseline(request.seed)

    def _baseline(self, seed: int) -> EnvironmentBaseline:
        readings = self.begin_batch(np.zeros(1, np.int64), [seed])
        seen, acts = self.observation_items.spaces(), self.action_items.spaces(self.action_bounds)
        return EnvironmentBaseline(
            [SensorInformation(readings[name][0], space, name) for name, space in seen.items()],
            [ActuatorInformation(space.default(), space, name) for name, space in acts.items()],
            rewards_available=[RewardInformation(None, REWARD, "reward")],
        )

    def begin_batch(self, rows: Array, seeds: Sequence[int]) -> Mapping[str, Array]:
        """Begin an episode of each of these bodies, by its seed."""
        self._put(rows, self.begin(seeds))
        return self._shown(self.first_observations(self._taken(rows)))

    def update_batch(self, setpoints: Mapping[str, Array]) -> StepBatch:
        """Advance the bodies that take part by one step; an actuator that is not set has its no-op."""
        rows = self.rows if self.bodies else np.zeros(1, np.int64)
        actions = {}
        for name, dtype in self.action_items.dtypes.items():
            given = setpoints[name] if name in setpoints else self._noop(name, len(rows))
            if not np.isfinite(given).all():
                raise OutOfActionSpaceError(f"actuator {name}: expected finite numbers, found {given!r:.80}")
            actions[name] = _fixed(given.astype(dtype))
        found = self.step(self._taken(rows), self.from_arrays(actions))
        self._put(rows, found.states)
        rewards = self.to_array(found.rewards).astype(np.float64)
        return StepBatch(self._shown(found.observations), {"reward": rewards}, terminated=~self.to_array(found.alive))

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Advance the one body by one step; for use without the bus."""
        found = self.update_batch({it.uid: np.asarray(it.value)[None] for it in actuators})
        readings = {it.uid: (found.readings[it.uid][0], it.space) for it in self.sensors}
        return EnvironmentState(
            [SensorInformation(value, space, name) for name, (value, space) in readings.items()],
            [RewardInformation(float(found.rewards["reward"][0]), REWARD, "reward")],
            terminated=bool(np.asarray(found.terminated)[0]),
        )

    def _noop(self, name: str, batch: int) -> Array:
        value = self.action_items.spaces(self.action_bounds)[name].default()
        return np.broadcast_to(np.asarray(value), (batch, *self.action_items.shapes[name]))

    def _taken(self, rows: Array) -> dict[str, Any]:
        """Return the states of some bodies: always copies, which may not be changed."""
        return {name: _fixed(whole[rows]) for name, whole in self._states.items()}

    def _put(self, rows: Array, states: Mapping[str, Any]) -> None:
        for name, whole in self._states.items():
            whole[rows] = states[name]

    def _shown(self, observations: Mapping[str, Any]) -> dict[str, Array]:
        return {name: self.to_array(array) for name, array in observations.items()}

    def save_state(self) -> dict[str, Any]:
        """Return the states of all bodies."""
        return {"states": {name: self.to_array(whole) for name, whole in self._states.items()}}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the states of `save_state`."""
        self._states = self.from_arrays({name: np.array(whole) for name, whole in state["states"].items()})


def _batch(given: Any) -> int:
    """Return the number of rows of arrays in a map or a list."""
    return len(next(iter(given.values() if isinstance(given, Mapping) else given)))


def _fixed(array: Any) -> Any:
    """Return an array that authors cannot change."""
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    return array
