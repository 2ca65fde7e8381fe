"""Pool: recorded sessions to draw from, and drawn batches, which are functional environments."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ganglion.sdk import Environment, FunctionalEnvironment, StepBatch
from ganglion.sdk.functional import FunctionalStep, Items
from ganglion.sdk.session import Session

Array = NDArray[Any]
Declared = int | Sequence[tuple[str, Sequence[int], DTypeLike]]
"""So many scalar items, or name, shape and dtype of each."""
Sequences = Any
"""Of one item an array `[n, T, *shape]`, or a list of n arrays `[T_i, *shape]`; of several a list or map of these."""

ON_SHORT = ("truncate", "error", "wait", "wrap")
_TICK = {"tick": ()}
_FLAGS = ("is_alive", "terminated", "truncated", "is_first")


class ReplayError(Exception):
    """The base of errors of recorded experience."""


class PoolEmpty(ReplayError):
    """Report a draw from a pool without sessions."""


class PoolShort(ReplayError):
    """Report fewer sessions or windows than requested."""


class PoolMismatch(ReplayError):
    """Report data that do not fit the pool's declarations; the pool does not change."""


class PoolTimeout(ReplayError):
    """Report that a wait for sessions timed out."""


class ReplayEnd(ReplayError):
    """Report that nothing is recorded after the last observation."""


# -- batches --------------------------------------------------------------------------------------------------------
class _Recorded(FunctionalEnvironment):
    """A world whose state is a tick, and whose observations are recorded ones, whatever the actions.

    Row i is session i of the batch that `_played` returns.
    """

    def __init__(self, observations: Items, actions: Items) -> None:
        super().__init__(_TICK, _form(observations), _form(actions), np.int32, observations.dtypes, actions.dtypes)

    def _played(self) -> SessionBatchEnvironment:
        raise NotImplementedError

    def get_first_observations(self, states: Any) -> Any:
        """Return observation 0 of each session."""
        batch = self._played()
        self._ticks(batch, states)
        return self.observation_items.give({name: array[:, 0] for name, array in batch.shown.items()})

    def get_action_results(self, last_states: Any, actions: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return the next ticks and the observations recorded there; actions change nothing.

        Raises:
            ReplayEnd: No session has an observation there.
        """
        batch = self._played()
        ticks = self._ticks(batch, last_states) + np.int32(1)
        if len(ticks) and int(ticks.max()) > batch.last_tick:
            raise ReplayEnd(f"tick {int(ticks.max())}: the last recorded observation is that of tick {batch.last_tick}")
        rows = np.arange(len(ticks))
        seen = {name: array[rows, ticks] for name, array in batch.shown.items()}
        return self.state_items.give({"tick": ticks}), self.observation_items.give(seen)

    def step(self, states: Mapping[str, Any], actions: Mapping[str, Any]) -> FunctionalStep:
        """Return the recorded step: observations, rewards, and whether a session is alive in the next tick."""
        new, seen = self.results(states, actions)
        batch = self._played()
        rows, ticks = np.arange(len(batch.lengths)), states["tick"]
        following = np.minimum(ticks + 1, batch.is_alive.shape[1] - 1)
        alive = ~batch.terminated[rows, ticks] & (batch.is_alive[rows, following] | (following == ticks))
        return FunctionalStep(new, seen, batch.rewards[rows, ticks], alive)

    def _ticks(self, batch: SessionBatchEnvironment, states: Any) -> Array:
        ticks: Array = np.asarray(self.state_items.read(states, None, "states")["tick"])
        if len(ticks) != len(batch.lengths):
            raise ReplayError(f"states: expected a row for each of {len(batch.lengths)} sessions, found {len(ticks)}")
        return ticks


def _form(items: Items) -> Any:
    return items.shapes if items.named else list(items.shapes.values())


class SessionBatchEnvironment(_Recorded):
    """Hold recorded sessions side by side; all arrays are read-only copies.

    A shorter session is padded with zeros that are not alive. As a functional environment the batch plays the record,
    see `ganglion.sdk.FunctionalEnvironment`: its state is the tick.

    Args:
        observations: Of each item `[n, T + 1, *shape]`, or `[n, T, *shape]` without known closing ones, which are zeros
            then. One item may be given bare.
        single_observation_shapes: The shapes of one observation, in the order of the items; "all_scalar": each is ().
        actions: Likewise `[n, T, *shape]`; None is none.
        single_action_shapes: Likewise.
        rewards: `[n, T]`; None is zeros.
        is_alive: `[n, T]`; None is all alive.
        preceding_agent_memories: Of each item `[n, *shape]`, the agent's memory before tick 0; None is none.
        kept: Further attributes, by name.

    Attributes:
        observations, actions, preceding_agent_memories: Lists of arrays in declared order.
        rewards: `[n, T]` float64.
        is_alive, terminated, truncated, is_first: `[n, T]` bool.
        lengths: `[n]`, ticks of each session.
        has_final: `[n]` bool, whether the observation after the last tick is known.
        indices, ids: `[n]`, the places in the pool at the time of the draw, and the pool's ids.
        starts: `[n]`, the tick of the session that is tick 0 here.
        shown: The observations by name.
        last_tick: The last tick with a known observation of some session.

    Raises:
        PoolMismatch: The arrays do not fit each other.
    """

    observations: list[Array]
    lengths: Array
    has_final: Array
    shown: dict[str, Array]
    last_tick: int

    def __init__(
        self,
        observations: Any,
        single_observation_shapes: Any,
        actions: Any = None,
        single_action_shapes: Any = "all_scalar",
        rewards: Any = None,
        is_alive: Any = None,
        preceding_agent_memories: Any = None,
        **kept: Any,
    ) -> None:
        seen, acted = _arrays(observations), _arrays([] if actions is None else actions)
        items = (
            _items_of("observation", seen, single_observation_shapes),
            _items_of("action", acted, single_action_shapes),
        )
        super().__init__(*items)
        if not seen:
            raise PoolMismatch("observations: expected at least one item, found none")
        given = [None if one is None else np.asarray(one) for one in (rewards, is_alive)]
        known = [array.shape[1] for array in (*acted, *(one for one in given if one is not None)) if array.ndim > 1]
        n, ticks = seen[0].shape[0], known[0] if known else seen[0].shape[1] - 1
        for kind, item, found in zip(("observations", "actions"), items, (seen, acted), strict=True):
            for array, (name, shape) in zip(found, item.shapes.items(), strict=True):
                counts = (ticks, ticks + 1) if kind == "observations" else (ticks,)
                if array.shape not in [(n, count, *shape) for count in counts]:
                    expected = " or ".join(str((n, count, *shape)) for count in counts)
                    raise PoolMismatch(f"{kind}: item {name!r}: expected shape {expected}, found {array.shape}")
        for name, part in zip(("rewards", "is_alive"), given, strict=True):
            if part is not None and part.shape != (n, ticks):
                raise PoolMismatch(f"{name}: expected shape {(n, ticks)}, found {part.shape}")
        closed = all(array.shape[1] == ticks + 1 for array in seen)
        self.observations = [_fixed(array if array.shape[1] > ticks else _closed(array)) for array in seen]
        self.actions = [_fixed(array) for array in acted]
        self.rewards = _fixed(np.zeros((n, ticks)) if given[0] is None else given[0], np.float64)
        self.is_alive = _fixed(np.ones((n, ticks), bool) if given[1] is None else given[1], bool)
        nothing = np.zeros((n, ticks), bool)
        self.terminated, self.truncated, self.is_first = (
            _fixed(kept.get(name, nothing), bool) for name in ("terminated", "truncated", "is_first")
        )
        self.lengths = _fixed(kept.get("lengths", np.full(n, ticks)), np.int64)
        self.has_final = _fixed(kept.get("has_final", np.full(n, closed)), bool)
        self.indices, self.ids = (_fixed(kept.get(name, np.arange(n))) for name in ("indices", "ids"))
        self.starts = _fixed(kept.get("starts", np.zeros(n)), np.int64)
        memories = preceding_agent_memories
        self.preceding_agent_memories = None if memories is None else [_fixed(one) for one in _arrays(memories)]
        vars(self).update(_played_of(self))

    @classmethod
    def held(cls, world: FunctionalEnvironment, **kept: Any) -> SessionBatchEnvironment:
        """Return a batch of a world with these items, of fitting arrays by the names of the attributes."""
        found = cls.__new__(cls)
        Environment.__init__(found)
        for part in kept.values():
            for array in part if isinstance(part, list) else [] if part is None else [part]:
                array.flags.writeable = False
        items = {name: getattr(world, name) for name in ("state_items", "observation_items", "action_items")}
        vars(found).update(items, **kept, _states={})
        vars(found).update(_played_of(found))
        return found

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self.lengths)

    def _played(self) -> SessionBatchEnvironment:
        return self


def _played_of(batch: SessionBatchEnvironment) -> dict[str, Any]:
    """Return a batch's observations by name, and the last tick with a known one."""
    shown = dict(zip(batch.observation_items.shapes, batch.observations, strict=True))
    return {"shown": shown, "last_tick": int((batch.lengths - ~batch.has_final).max(initial=0))}


def _arrays(given: Any) -> list[Array]:
    if isinstance(given, np.ndarray):
        return [given]
    return [np.asarray(one) for one in (given.values() if isinstance(given, Mapping) else given)]


def _items_of(kind: str, arrays: Sequence[Array], shapes: Any) -> Items:
    listed = [()] * len(arrays) if isinstance(shapes, str) and shapes == "all_scalar" else shapes
    try:
        items = Items(kind, listed, [array.dtype for array in arrays], np.float32)
    except (TypeError, ValueError) as error:
        raise PoolMismatch(f"single_{kind}_shapes: expected one of {len(arrays)} items each: {error}") from error
    return items


def _closed(array: Array) -> Array:
    return np.concatenate([array, np.zeros_like(array[:, :1])], axis=1)


def _fixed(array: Any, dtype: DTypeLike | None = None) -> Array:
    found = np.array(array, dtype)
    found.flags.writeable = False
    return found


# -- input of a pool ------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Given:
    """One checked session: rows of all columns, one more than ticks, and the preceding memory."""

    columns: dict[str, Array]
    memories: list[Array] | None
    length: int
    has_final: bool

    @property
    def size_bytes(self) -> int:
        """Return the bytes of its arrays."""
        return sum(array.nbytes for array in (*self.columns.values(), *(self.memories or ())))


class SessionUpdates(Mapping[str, Any]):
    """Hold a replacement of a pool's sessions; nothing changes before `apply`.

    Its keys are the parameters of `load_sessions`; each value is a list with an array per session, of observations,
    actions and memories a list of such lists in declared order.
    """

    def __init__(self, given: list[_Given], items: Mapping[str, Items], apply: Callable[[list[_Given]], Array]) -> None:
        self._given, self._apply = given, apply
        self._known = {
            "observation_sequences": [
                [one.columns[f"observation {name}"][: one.length + one.has_final] for one in given]
                for name in items["observation"].shapes
            ],
            "action_sequences": [
                [one.columns[f"action {name}"][: one.length] for one in given] for name in items["action"].shapes
            ],
            "reward_seq": [one.columns["rewards"][: one.length] for one in given],
            **{name: [one.columns[name][: one.length] for one in given] for name in _FLAGS},
            "prev_memories": [one.memories for one in given],
        }

    def __getitem__(self, key: str) -> Any:
        return self._known[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def apply(self) -> Array:
        """Replace the sessions of the pool, all at once; return the ids of the new ones."""
        return self._apply(self._given)


class _Reader:
    """Check sessions of callers by a pool's declarations."""

    def __init__(self, items: Mapping[str, Items], cast: bool) -> None:
        self._items, self._cast = items, cast

    def read(
        self,
        observation_sequences: Sequences,
        action_sequences: Sequences,
        reward_seq: Any,
        is_alive: Any = None,
        prev_memories: Any = None,
        *,
        terminated: Any = None,
        truncated: Any = None,
        is_first: Any = None,
        prev_memory: Any = None,
    ) -> list[_Given]:
        """Return the sessions; PoolMismatch names a misfit, with session and tick."""
        rewards = [self._array("rewards", s, one, np.dtype(np.float64), ()) for s, one in enumerate(_rows(reward_seq))]
        columns = {
            **self._of_items("observation", observation_sequences, len(rewards)),
            **self._of_items("action", action_sequences, len(rewards)),
        }
        flags = {"is_alive": is_alive, "terminated": terminated, "truncated": truncated, "is_first": is_first}
        columns |= {name: self._flags(name, given, len(rewards)) for name, given in flags.items() if given is not None}
        memories = self._memories(prev_memory if prev_memories is None else prev_memories, len(rewards))
        return [
            self._session(
                s, one, {name: column[s] for name, column in columns.items()}, memories[s] if memories else None
            )
            for s, one in enumerate(rewards)
        ]

    def _session(self, s: int, rewards: Array, columns: dict[str, Array], memories: list[Array] | None) -> _Given:
        length, finals = len(rewards), set()
        if not length:
            raise PoolMismatch(f"rewards: session {s}: expected at least one tick, found none")
        for name, column in columns.items():
            closing = name.startswith("observation ")
            if len(column) != length and not (closing and len(column) == length + 1):
                expected = f"{length} or {length + 1}" if closing else str(length)
                raise PoolMismatch(f"{_words(name)}: session {s}: expected {expected} ticks, found {len(column)}")
            if closing:
                finals.add(len(column) > length)
        if len(finals) > 1:
            raise PoolMismatch(f"observations: session {s}: expected a closing observation of every item or of none")
        infinite = np.flatnonzero(~np.isfinite(rewards))
        if len(infinite):
            tick = int(infinite[0])
            raise PoolMismatch(
                f"rewards: session {s}, tick {tick}: expected a finite number, found {float(rewards[tick])}"
            )
        flags = {name: columns.pop(name, np.zeros(length, bool)) for name in _FLAGS[1:]}
        both = np.flatnonzero(flags["terminated"] & flags["truncated"])
        if len(both):
            raise PoolMismatch(f"session {s}, tick {int(both[0])}: terminated and truncated exclude each other")
        alive = columns.pop("is_alive", None)
        flags["is_alive"] = alive_ticks(**flags) if alive is None else alive
        whole = {name: _padded(column, length + 1) for name, column in (columns | flags).items()}
        whole["rewards"] = _padded(rewards, length + 1)
        return _Given(whole, memories, length, finals == {True})

    def _of_items(self, kind: str, given: Any, sessions: int) -> dict[str, list[Array]]:
        items = self._items[kind]
        found: dict[str, list[Array]] = {}
        for name, sequences in _by_item(items, given, 2).items():
            rows = _rows(sequences)
            if len(rows) != sessions:
                raise PoolMismatch(
                    f"{kind} {name!r}: expected {sessions} sessions, as of the rewards, found {len(rows)}"
                )
            shape, dtype = items.shapes[name], items.dtypes[name]
            found[f"{kind} {name}"] = [
                self._array(f"{kind} {name!r}", s, row, dtype, shape) for s, row in enumerate(rows)
            ]
        return found

    def _flags(self, name: str, given: Any, sessions: int) -> list[Array]:
        rows = _rows(given)
        if len(rows) != sessions:
            raise PoolMismatch(f"{name}: expected {sessions} sessions, as of the rewards, found {len(rows)}")
        found = []
        for s, row in enumerate(rows):
            array = np.asarray(row)
            if array.ndim != 1 or array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
                raise PoolMismatch(f"{name}: session {s}: expected a boolean per tick, found {row!r:.60}")
            found.append(array.astype(bool))
        return found

    def _memories(self, given: Any, sessions: int) -> list[list[Array]] | None:
        if given is None:
            return None
        items, found = self._items["agent_memory"], []
        for name, rows in _by_item(items, given, 1).items():
            shape, dtype = items.shapes[name], items.dtypes[name]
            array = self._array(f"memory {name!r}", None, rows, dtype, shape)
            if len(array) != sessions:
                raise PoolMismatch(f"memory {name!r}: expected {sessions} sessions, found {len(array)}")
            found.append(array)
        return [[array[s].copy() for array in found] for s in range(sessions)]

    def _array(self, what: str, s: int | None, given: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """Return rows `[T, *shape]` of this dtype."""
        where = what if s is None else f"{what}: session {s}"
        try:
            array = np.asarray(given)
        except ValueError as error:
            raise PoolMismatch(f"{where}: expected rows of shape {shape}, found rows of several shapes") from error
        if array.ndim != len(shape) + 1 or array.shape[1:] != shape:
            raise PoolMismatch(f"{where}: expected rows of shape {shape}, found an array of shape {array.shape}")
        if array.dtype == dtype:
            found = array
        elif not self._cast or array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and dtype.kind != "f"):
            raise PoolMismatch(f"{where}: expected {dtype}, found {array.dtype}")
        else:
            found = array.astype(dtype)
            if dtype.kind != "f" and not (found == array).all():
                tick = int(np.argwhere(found != array)[0][0])
                raise PoolMismatch(f"{where}, tick {tick}: {array[tick]!r:.40} is no value of {dtype}")
        if found.dtype.kind == "f" and np.isnan(found).any():
            raise PoolMismatch(f"{where}, tick {int(np.argwhere(np.isnan(found))[0][0])}: expected numbers, found NaN")
        return found


def alive_ticks(terminated: Array, truncated: Array, is_first: Array) -> Array:
    """Return which ticks are alive: up to and including the first end, and again from each tick with `is_first`."""
    ticks = np.arange(len(terminated))
    ends = np.concatenate([[0], np.cumsum(terminated | truncated)])
    begun = np.maximum.accumulate(np.where(is_first, ticks, 0))
    found: Array = ends[:-1] == ends[begun]
    return found


def _padded(column: Array, rows: int) -> Array:
    found = np.zeros((rows, *column.shape[1:]), column.dtype)
    found[: len(column)] = column
    return found


def _rows(given: Any) -> Any:
    """Return the rows of each session: an object with a length, whose entries are rows."""
    listed = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim > 0)
    if listed and (not len(given) or np.ndim(given[0]) > 0):
        return given
    raise PoolMismatch(f"expected an array [n, T, ...] or a list of arrays [T, ...], found {given!r:.60}")


def _by_item(items: Items, given: Any, axes: int) -> dict[str, Any]:
    """Return the arrays by item; a single item may be given bare, with so many axes before its shape."""
    names, what = list(items.shapes), f"{items.kind}s"
    if isinstance(given, Mapping):
        if given.keys() != items.shapes.keys():
            raise PoolMismatch(f"{what}: expected the items {', '.join(names)}, found {', '.join(map(str, given))}")
        return {name: given[name] for name in names}
    if given is None:
        given = []
    if len(names) == 1:
        listed = isinstance(given, list | tuple) and len(given) == 1
        in_list = listed and _depth(given[0]) == axes + len(items.shapes[names[0]])
        return {names[0]: given[0] if in_list else given}
    if not isinstance(given, list | tuple) or len(given) != len(names):
        found = len(given) if isinstance(given, list | tuple) else type(given).__name__
        raise PoolMismatch(f"{what}: expected a list or map of {len(names)} items ({', '.join(names)}), found {found}")
    return dict(zip(names, given, strict=True))


def _depth(given: Any) -> int:
    if isinstance(given, list | tuple):
        return 1 + (_depth(given[0]) if given else 0)
    return int(np.ndim(given))


def _words(column: str) -> str:
    kind, _, name = column.partition(" ")
    return f"{kind} {name!r}" if name else kind


# -- a pool ---------------------------------------------------------------------------------------------------------
class _Known(NamedTuple):
    """One session of a pool: where its rows begin, counted over all that ever were."""

    id: int
    begin: int
    length: int
    has_final: bool
    memories: list[Array] | None
    size_bytes: int


class _Ring:
    """Keep rows of several columns, first in, first out; in blocks that grow by doubling."""

    def __init__(self, kinds: Mapping[str, tuple[tuple[int, ...], Any]]) -> None:
        self._kinds = dict(kinds)
        self.clear()

    def clear(self, rows: int = 0) -> None:
        """Remove all rows; numbers continue from `rows`."""
        self._offset, self._capacity = rows, 0
        self.begin = self.end = rows
        self._arrays = {name: np.zeros((1, *shape), dtype) for name, (shape, dtype) in self._kinds.items()}

    def append(self, columns: Mapping[str, Array], rows: int) -> int:
        """Append rows; return the number of the first."""
        if self.end - self._offset + rows > self._capacity:
            kept = self.end - self.begin
            capacity = max(self._capacity, 2 * (kept + rows))
            for name, array in self._arrays.items():
                fresh = np.zeros((capacity + 1, *array.shape[1:]), array.dtype)  # behind all, a row of zeros
                fresh[:kept] = self.all(name)
                self._arrays[name] = fresh
            self._offset, self._capacity = self.begin, capacity
        first, place = self.end, self.end - self._offset
        for name, array in self._arrays.items():
            array[place : place + rows] = columns[name]
        self.end += rows
        return first

    def drop(self, rows: int) -> None:
        """Remove the oldest rows."""
        self.begin += rows

    def all(self, name: str) -> Array:
        """Return a column, the oldest row first."""
        return self._arrays[name][self.begin - self._offset : self.end - self._offset]

    def take(self, name: str, numbers: Array) -> Array:
        """Return copies of rows by their numbers."""
        found: Array = self._arrays[name][numbers - self._offset]
        return found

    def windows(self, begins: Array, lengths: Array, rows: int) -> Array:
        """Return the places `[n, rows]` of so many rows from each of these numbers on, padded with the row of zeros."""
        columns = np.arange(rows)
        return np.where(columns < lengths[:, None], (begins - self._offset)[:, None] + columns, self._capacity)

    def at(self, name: str, places: Array) -> Array:
        """Return copies of the rows of `windows`."""
        return self._arrays[name].take(places, axis=0, mode="clip")  # all are within bounds: no check needed

    def put(self, name: str, numbers: Array, values: Any) -> None:
        """Write rows by their numbers."""
        self._arrays[name][numbers - self._offset] = values


class Steps(NamedTuple):
    """Steps of sessions: places, weights, and lists of arrays in declared order."""

    ids: Array
    ticks: Array
    weights: Array
    observations: list[Array]
    actions: list[Array]
    rewards: Array
    next_observations: list[Array]
    terminated: Array


_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")


def _locked(method: _F) -> _F:
    @wraps(method)
    def locked(self: SessionPoolEnvironment, *args: Any, **kwargs: Any) -> Any:
        with self._changed:
            return method(self, *args, **kwargs)

    return locked  # type: ignore[return-value]


class SessionPoolEnvironment(_Recorded):
    """Keep recorded sessions, and draw batches, slices and single steps from them; new pools are empty.

    A session is the stream of one body: T ticks of actions, rewards and flags, T observations or one more, and the
    agent's memory before them. Methods may be called from several threads. Draws depend only on the seed and on earlier
    calls. As a functional environment the pool plays all its sessions, see `SessionBatchEnvironment`; as an environment
    of a document, by a subclass that has loaded sessions, each body plays one session, drawn by the seed of each
    episode.

    Args:
        observations: So many scalar items of float32, or a list of (name, shape, dtype).
        actions: Likewise, of `default_action_dtype`.
        agent_memories: Likewise, of float32.
        default_action_dtype: Of actions that are given by their number.
        rng_seed: Of all draws.
        capacity: The most sessions, or a map {sessions, steps, bytes}, of which the first one reached counts; None is
            without bound. The oldest sessions are dropped.
        on_short: What `sample_session_batch` does with too few sessions.
        ragged: Whether sessions may differ in their numbers of ticks.

    Raises:
        ValueError: A bound is below 1, or a word is unknown.
    """

    def __init__(
        self,
        observations: Declared = 1,
        actions: Declared = 1,
        agent_memories: Declared = 1,
        default_action_dtype: DTypeLike = "int32",
        rng_seed: int = 1337,
        *,
        capacity: int | Mapping[str, int] | None = None,
        on_short: str = "truncate",
        ragged: bool = True,
    ) -> None:
        self._items = {
            "observation": _declared("observation", observations, np.float32),
            "action": _declared("action", actions, default_action_dtype),
            "agent_memory": _declared("agent_memory", agent_memories, np.float32),
        }
        super().__init__(self._items["observation"], self._items["action"])
        self._bounds = _bounds("capacity", capacity)
        self._on_short, self._ragged = on_short_of(on_short), ragged
        self._draws = np.random.default_rng(rng_seed)
        self._changed = threading.Condition(threading.RLock())
        kinds: dict[str, tuple[tuple[int, ...], Any]] = {
            f"{kind} {name}": (shape, items.dtypes[name])
            for kind, items in self._items.items()
            if kind != "agent_memory"
            for name, shape in items.shapes.items()
        }
        kinds |= {"rewards": ((), np.float64), "priority": ((), np.float64), "flags": ((len(_FLAGS),), bool)}
        self._ring = _Ring(kinds)
        self._sessions: deque[_Known] = deque()
        self._next_id, self._steps, self._bytes, self._greatest = 0, 0, 0, 1.0
        self._known: dict[str, Any] = {}  # derived from the sessions, until they change
        self._hosted: dict[int, SessionBatchEnvironment] = {}  # on the bus: the session that each body plays

    @classmethod
    def of(cls, sessions: Iterable[Session], rewards: Callable[[Session], Array] | None = None, **options: Any) -> Self:
        """Return a pool of sessions as `Brain.pretrain` gets them: an item per sensor and actuator, under its full id.

        Args:
            sessions: At least one, all with the same sensors and actuators.
            rewards: Returns the reward of each tick, `[T]`; None is the sum of a decision's rewards.
            options: Of the pool.

        Raises:
            PoolEmpty: There is no session.
        """
        found = list(sessions)
        if not found:
            raise PoolEmpty("expected at least one session, found none")
        first = found[0]
        seen, acted = (
            [(name, part.shape[1:], part.dtype) for name, part in parts.items()]
            for parts in (first.readings, first.setpoints)
        )
        pool = cls(seen, acted, 0, **options)
        reward = _sum if rewards is None else rewards
        for session in found:
            pool.append_sessions(
                {name: [part] for name, part in session.readings.items()},
                {name: [part] for name, part in session.setpoints.items()},
                [reward(session)],
                terminated=[session.terminated],
                truncated=[session.truncated],
            )
        return pool

    # -- adding and removing -----------------------------------------------------------------------------------------
    def load_sessions(
        self,
        observation_sequences: Sequences,
        action_sequences: Sequences,
        reward_seq: Any,
        is_alive: Any = None,
        prev_memories: Any = None,
        **flags: Any,
    ) -> Array:
        """Replace all sessions; return the ids of the new ones, which are never reused.

        Args:
            observation_sequences: Of each item `[n, T, *shape]` or `[n, T + 1, *shape]`, with the closing ones.
            action_sequences: Of each item `[n, T, *shape]`.
            reward_seq: `[n, T]`.
            is_alive: `[n, T]`; None: alive up to the first end, and again from each tick with `is_first`.
            prev_memories: Of each item `[n, *shape]`; None is none.
            flags: `terminated`, `truncated` and `is_first`, `[n, T]` each; None is nowhere.

        Raises:
            PoolMismatch: An array is not as declared; the pool does not change.
        """
        return self.get_session_updates(
            observation_sequences, action_sequences, reward_seq, is_alive, prev_memories, **flags
        ).apply()

    def append_sessions(
        self,
        observation_sequences: Sequences,
        action_sequences: Sequences,
        reward_seq: Any,
        is_alive: Any = None,
        prev_memories: Any = None,
        *,
        max_pool_size: int | None = None,
        **flags: Any,
    ) -> Array:
        """Append sessions, and drop the oldest until the bounds hold; return the ids of the new ones.

        Arguments and errors are those of `load_sessions`; `max_pool_size` bounds the number of sessions for this call.
        """
        most = _bounds("max_pool_size", max_pool_size)
        given = _Reader(self._items, cast=True).read(
            observation_sequences, action_sequences, reward_seq, is_alive, prev_memories, **flags
        )
        return self._take(given, most)

    def get_session_updates(
        self,
        observation_sequences: Sequences,
        action_sequences: Sequences,
        reward_seq: Any,
        is_alive: Any = None,
        prev_memories: Any = None,
        *,
        cast_dtypes: bool = True,
        **flags: Any,
    ) -> SessionUpdates:
        """Check arguments of `load_sessions`; return an object whose `apply` carries it out.

        Args:
            cast_dtypes: Whether another dtype is accepted if all values fit; else it is a PoolMismatch.
        """
        given = _Reader(self._items, cast_dtypes).read(
            observation_sequences, action_sequences, reward_seq, is_alive, prev_memories, **flags
        )
        return SessionUpdates(given, self._items, self._replace)

    @_locked
    def _replace(self, given: list[_Given]) -> Array:
        self._check(given, [])
        self._sessions.clear()
        self._ring.clear(self._ring.end)
        self._steps = self._bytes = 0
        return self._take(given, {})

    @_locked
    def _take(self, given: list[_Given], most: Mapping[str, int]) -> Array:
        self._check(given, self._sessions)
        ids = np.arange(self._next_id, self._next_id + len(given))
        for one in given:
            columns = one.columns | {"priority": np.full(one.length + 1, self._greatest)}
            columns["flags"] = np.stack([one.columns[name] for name in _FLAGS], axis=1)
            begin = self._ring.append(columns, one.length + 1)
            known = _Known(self._next_id, begin, one.length, one.has_final, one.memories, one.size_bytes)
            self._sessions.append(known)
            self._next_id += 1
            self._steps += one.length
            self._bytes += known.size_bytes
            self._drop(self._bounds)
        self._drop(dict(most))
        self._known.clear()
        self._changed.notify_all()
        return ids

    def _check(self, given: Sequence[_Given], present: Sequence[_Known]) -> None:
        for s, one in enumerate(given):
            for name, size in (("steps", one.length), ("bytes", one.size_bytes)):
                if size > self._bounds.get(name, size):
                    text = f"expected at most {self._bounds[name]} {name}, as the pool's capacity, found {size}"
                    raise PoolMismatch(f"session {s}: {text}")
        if not self._ragged:
            lengths = [*(one.length for one in list(present)[:1]), *(one.length for one in given)]
            strange = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
            if strange is not None:
                s = strange - (len(lengths) - len(given))
                raise PoolMismatch(
                    f"session {s}: expected {lengths[0]} ticks, as of all others, found {lengths[strange]}"
                )

    def _drop(self, bounds: Mapping[str, int]) -> None:
        """Drop the oldest sessions until the bounds hold."""
        while self._sessions:
            sizes = {"sessions": len(self._sessions), "steps": self._steps, "bytes": self._bytes}
            if all(sizes[name] <= bound for name, bound in bounds.items()):
                return
            oldest = self._sessions.popleft()
            self._ring.drop(oldest.length + 1)
            self._steps -= oldest.length
            self._bytes -= oldest.size_bytes

    # -- state -------------------------------------------------------------------------------------------------------
    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._sessions)

    @property
    @_locked
    def ids(self) -> Array:
        """The ids of the sessions, the oldest first."""
        return self._each("id").copy()

    @property
    @_locked
    def lengths(self) -> Array:
        """The ticks of each session."""
        return self._each("length").copy()

    def _of(self, name: str, make: Callable[[], _T]) -> _T:
        if name not in self._known:
            self._known[name] = make()
        found: _T = self._known[name]
        return found

    def _each(self, name: str) -> Array:
        """Return a column with an entry for each session."""
        dtype = bool if name == "has_final" else np.int64
        return self._of(name, lambda: np.array([getattr(one, name) for one in self._sessions], dtype))

    @_locked
    def _played(self) -> SessionBatchEnvironment:
        if not self._sessions:
            raise PoolEmpty("the pool has no sessions")
        return self._of("played", lambda: self.select_session_batch(np.arange(len(self._sessions))))

    # -- hosted by the bus -------------------------------------------------------------------------------------------
    def begin_batch(self, rows: Array, seeds: Sequence[int]) -> Mapping[str, Array]:
        """Begin an episode of each of these bodies, with a session drawn by the seed of the episode.

        Raises:
            PoolEmpty: There is no session.
        """
        with self._changed:
            if not self._sessions:
                raise PoolEmpty("the pool has no sessions")
            for row, seed in zip(rows.tolist(), seeds, strict=True):
                place = int(np.random.default_rng(seed).integers(len(self._sessions)))
                self._hosted[row] = self.select_session_batch([place])
        self._put(rows, {"tick": np.zeros(len(rows), np.int32)})
        return self._seen(rows)

    def update_batch(self, setpoints: Mapping[str, Array]) -> StepBatch:
        """Return the recorded next step, whatever is set; the last step truncates the episode.

        Raises:
            ReplayEnd: The step of some body is not recorded.
        """
        rows = self.rows if self.bodies else np.zeros(1, np.int64)
        played = [(self._hosted[row], int(self._states["tick"][row])) for row in rows.tolist()]
        strange = next((tick for batch, tick in played if tick >= batch.last_tick), None)
        if strange is not None:
            raise ReplayEnd(f"tick {strange + 1}: the last recorded observation is that of tick {strange}")
        self._put(rows, {"tick": self._taken(rows)["tick"] + np.int32(1)})
        rewards = np.array([batch.rewards[0, tick] for batch, tick in played])
        terminated = np.array([batch.terminated[0, tick] for batch, tick in played])
        last = np.array([batch.truncated[0, tick] or tick + 1 == batch.last_tick for batch, tick in played])
        return StepBatch(self._seen(rows), {"reward": rewards}, terminated=terminated, truncated=last & ~terminated)

    def _seen(self, rows: Array) -> dict[str, Array]:
        places = [(self._hosted[row], self._states["tick"][row]) for row in rows.tolist()]
        return {
            name: np.stack([batch.shown[name][0, tick] for batch, tick in places])
            for name in self.observation_items.shapes
        }

    def save_state(self) -> dict[str, Any]:
        """Return the session and tick of each body."""
        rows = np.array(list(self._hosted), np.int64)
        return {**super().save_state(), "rows": rows, "ids": np.array([int(b.ids[0]) for b in self._hosted.values()])}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on where `save_state` was called."""
        super().load_state(state)
        places = np.searchsorted(self.ids, state["ids"]).tolist()
        self._hosted = {
            int(row): self.select_session_batch([place]) for row, place in zip(state["rows"], places, strict=True)
        }

    # -- sessions ----------------------------------------------------------------------------------------------------
    @_locked
    def select_session_batch(self, selector: Any) -> SessionBatchEnvironment:
        """Return sessions by their places in the pool, in this order, with repetitions.

        Raises:
            IndexError: A place is unknown, negative, or no integer.
        """
        places = np.asarray(selector)
        if not places.size:
            places = places.astype(np.int64)
        if places.ndim != 1 or places.dtype.kind not in "iu":
            raise IndexError(f"selector: expected a list of places in the pool, found {selector!r:.60}")
        strange = places[(places < 0) | (places >= len(self._sessions))] if places.size else places
        if len(strange):
            raise IndexError(f"selector: expected places below {len(self._sessions)}, found {int(strange[0])}")
        chosen = places.astype(np.int64)
        begins, lengths = self._each("begin")[chosen], self._each("length")[chosen]
        return self._batch(places, chosen, begins, lengths, self._each("has_final")[chosen])

    def _batch(
        self, indices: Array, chosen: Array, begins: Array, lengths: Array, finals: Array, ticks: int = 0
    ) -> SessionBatchEnvironment:
        """Return so many rows of sessions side by side, from `begins` on; without `ticks` whole sessions."""
        whole, ticks = not ticks, ticks or int(lengths.max(initial=0))
        seen_at = self._ring.windows(begins, lengths + finals, ticks + 1)
        # A row of zeros follows a whole session, except for its closing observation.
        at = seen_at[:, :-1] if whole else self._ring.windows(begins, lengths, ticks)
        taken = self._ring.at
        memories = self._of("memories", lambda: [one.memories for one in self._sessions])
        starts = begins - self._each("begin")[chosen]
        seen, acted = (self._items[kind].shapes for kind in ("observation", "action"))
        flags = taken("flags", at)
        return SessionBatchEnvironment.held(
            self,
            observations=[taken(f"observation {name}", seen_at) for name in seen],
            actions=[taken(f"action {name}", at) for name in acted],
            rewards=taken("rewards", at),
            preceding_agent_memories=self._preceding([memories[place] for place in chosen.tolist()], starts),
            lengths=lengths.astype(np.int64),
            has_final=finals.astype(bool),
            indices=np.array(indices),
            ids=self._each("id")[chosen],
            starts=starts,
            **{name: flags[..., place] for place, name in enumerate(_FLAGS)},
        )

    def _preceding(self, memories: Sequence[list[Array] | None], starts: Array) -> list[Array] | None:
        """Return agents' memories before the rows; zeros if unknown, None if all are unknown."""
        known = [None if start else one for one, start in zip(memories, starts.tolist(), strict=True)]
        if all(one is None for one in known):
            return None
        found = [np.zeros((len(known), *s), d) for s, d in _pairs(self._items["agent_memory"])]
        for row, one in enumerate(known):
            for whole, part in zip(found, one or (), strict=False):
                whole[row] = part
        return found

    def sample_session_batch(
        self,
        max_n_samples: int,
        replace: bool = False,
        selector_dtype: DTypeLike = "int32",
        *,
        on_short: str | None = None,
        timeout_s: float = 10.0,
    ) -> SessionBatchEnvironment:
        """Return sessions drawn uniformly, named by `indices` and `ids`.

        Args:
            max_n_samples: The number of sessions.
            replace: Whether a session may be drawn several times; without it all are distinct.
            selector_dtype: Of `indices`.
            on_short: With fewer sessions, `truncate` takes all, `error` refuses, `wait` waits for more, `wrap` draws
                whole permutations one after another. None is the pool's own word.
            timeout_s: The longest wait of `wait`.

        Raises:
            ValueError: `max_n_samples` is below 1, or the word is unknown.
            PoolEmpty: There is no session, without `wait`.
            PoolShort: There are too few, with `error`.
            PoolTimeout: There were too few until the timeout, with `wait`.
        """
        want = int(max_n_samples)
        if want < 1:
            raise ValueError(f"max_n_samples: expected at least 1, found {max_n_samples}")
        word = self._on_short if on_short is None else on_short_of(on_short)
        least = 1 if replace else want
        with self._changed:
            if word == "wait":
                self._await(least, timeout_s)
            have = len(self._sessions)
            if not have:
                raise PoolEmpty("the pool has no sessions")
            if have < least and word == "error":
                raise PoolShort(f"expected {want} sessions, found {have}")
            return self.select_session_batch(drawn_of(self._draws, want, have, replace, word).astype(selector_dtype))

    sample_sessions_batch = sample_session_batch

    def _await(self, least: int, timeout_s: float) -> None:
        until_s = time.monotonic() + timeout_s
        while len(self._sessions) < least:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise PoolTimeout(f"waited {timeout_s:g} s: have {len(self._sessions)} sessions, want {least}")
            self._changed.wait(left_s)

    # -- slices and steps --------------------------------------------------------------------------------------------
    @_locked
    def sample_slices(
        self, n: int, length: int, *, partial: str = "refuse", replace: bool = True
    ) -> SessionBatchEnvironment:
        """Return windows of `length` ticks of one episode each, all equally likely.

        Args:
            n: The number of windows.
            length: Their ticks.
            partial: `refuse` takes whole windows of ticks that are alive, `pad` begins at any tick that is alive, and
                ticks beyond the end of the episode are not alive.
            replace: Whether a window may be drawn several times.

        Raises:
            ValueError: A number is below 1, or the word is unknown.
            PoolEmpty: There is no session.
            PoolShort: There are too few such windows.
        """
        if n < 1 or length < 1:
            raise ValueError(f"n, length: expected at least 1, found {n} and {length}")
        if partial not in ("refuse", "pad"):
            raise ValueError(f"partial: expected refuse or pad, found {partial!r}")
        if not self._sessions:
            raise PoolEmpty("the pool has no sessions")
        runs = self._runs()
        candidates = np.flatnonzero(runs >= (length if partial == "refuse" else 1))
        if len(candidates) < (1 if replace else n):
            raise PoolShort(f"expected {1 if replace else n} windows of {length} ticks, found {len(candidates)}")
        drawn = candidates[self._draws.integers(len(candidates), size=n)] if replace else None
        if drawn is None:
            drawn = self._draws.choice(candidates, n, replace=False)
        begins = drawn + self._ring.begin
        chosen = np.searchsorted(self._each("begin"), begins, side="right") - 1
        lengths = np.minimum(runs[drawn], length)
        ends = begins + lengths  # the place of the closing observation, if it is of this episode
        tops = self._each("begin")[chosen] + self._each("length")[chosen]
        finals = np.where(
            ends < tops,
            ~self._ring.take("flags", np.minimum(ends, tops))[:, _FLAGS.index("is_first")],
            self._each("has_final")[chosen],
        )
        return self._batch(chosen, chosen, begins, lengths, finals, length)

    def _runs(self) -> Array:
        """Return for each row the number of living ticks of its episode from it on; 0 if it is not alive."""

        def make() -> Array:
            alive, terminated, truncated, first = self._ring.all("flags").T
            over = terminated | truncated
            follows = np.concatenate([alive[1:] & ~first[1:], [False]])
            stops = np.where(over | ~follows, np.arange(len(alive)), len(alive))
            following = np.minimum.accumulate(stops[::-1])[::-1]
            return np.where(alive, following - np.arange(len(alive)) + 1, 0)

        return self._of("runs", make)

    @_locked
    def sample_steps(self, n: int, *, alpha: float = 0.0, beta: float = 0.0) -> Steps:
        """Return steps that are alive, drawn with replacement by their priorities p.

        Args:
            n: The number of steps.
            alpha: A step is drawn with P = p^alpha / sum; 0 is uniform.
            beta: Its weight is (N P)^-beta, divided by the greatest of all N steps.

        A last step without a closing observation is left out, unless it terminated: its next observation is zeros then.

        Raises:
            ValueError: `n` is below 1, or an exponent is negative.
            PoolEmpty: There is no step.

        Source: Schaul et al. (2016), Prioritized Experience Replay, section 3.
        """
        if n < 1 or alpha < 0 or beta < 0:
            raise ValueError(f"n, alpha, beta: expected n >= 1 and no negative exponents, found {n}, {alpha}, {beta}")
        rows = self._of("usable", self._usable)
        if not len(rows):
            raise PoolEmpty("the pool has no steps")
        if alpha == 0:
            places, weights = self._draws.integers(len(rows), size=n), np.ones(n)
        else:
            scaled, sums = self._of(f"priorities {alpha}", lambda: self._scaled(rows, alpha))
            places = np.searchsorted(sums, self._draws.random(n) * sums[-1], side="right")
            places = np.minimum(places, len(rows) - 1)
            weights = (scaled[places] / scaled.min()) ** -beta
        numbers = rows[places] + self._ring.begin
        chosen = np.searchsorted(self._each("begin"), numbers, side="right") - 1
        ring, items = self._ring, self._items
        return Steps(
            self._each("id")[chosen],
            numbers - self._each("begin")[chosen],
            weights,
            [ring.take(f"observation {name}", numbers) for name in items["observation"].shapes],
            [ring.take(f"action {name}", numbers) for name in items["action"].shapes],
            ring.take("rewards", numbers),
            [ring.take(f"observation {name}", numbers + 1) for name in items["observation"].shapes],
            ring.take("flags", numbers)[:, _FLAGS.index("terminated")],
        )

    def _usable(self) -> Array:
        """Return the rows of steps with a known next observation, or without a next one."""
        alive, terminated, *_ = self._ring.all("flags").T.copy()
        lasts = (self._each("begin") + self._each("length") - 1 - self._ring.begin)[~self._each("has_final")]
        alive[lasts] &= terminated[lasts]
        return np.flatnonzero(alive)

    def _scaled(self, rows: Array, alpha: float) -> tuple[Array, Array]:
        scaled = self._ring.all("priority")[rows] ** alpha
        return scaled, np.cumsum(scaled)

    @_locked
    def set_priorities(self, ids: Any, ticks: Any, values: Any) -> int:
        """Set priorities of steps; return the number of set ones, without steps of dropped sessions.

        New steps have the greatest priority so far, at first 1.

        Raises:
            ValueError: A priority is not above 0 and finite, or the numbers differ.
            IndexError: There never was such a session, or it has no such tick.
        """
        wanted, at = np.asarray(ids), np.asarray(ticks)
        given = np.asarray(values, np.float64)
        if not wanted.shape == at.shape == given.shape or not (np.isfinite(given) & (given > 0)).all():
            raise ValueError("set_priorities: expected as many ids, ticks and numbers above 0")
        if len(wanted) and not 0 <= int(wanted.min()) <= int(wanted.max()) < self._next_id:
            raise IndexError(f"set_priorities: expected ids below {self._next_id}, found {wanted!r:.60}")
        known = self._each("id")
        places = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
        here = known[places] == wanted if len(known) else np.zeros(len(wanted), bool)
        places, at, given = places[here], at[here], given[here]
        if len(at) and ((at < 0) | (at >= self._each("length")[places])).any():
            raise IndexError(f"set_priorities: a session has no tick {int(at.max())}")
        self._ring.put("priority", self._each("begin")[places] + at, given)
        self._greatest = max(self._greatest, float(given.max(initial=0.0)))
        for name in [name for name in self._known if name.startswith("priorities")]:
            del self._known[name]
        return len(at)


def drawn_of(draws: np.random.Generator, want: int, have: int, replace: bool, word: str) -> Array:
    """Return the places of sessions drawn uniformly from `have` sessions; `word` is one of ON_SHORT."""
    if replace:
        return draws.integers(have, size=want)
    if want <= have or word != "wrap":
        return draws.permutation(have)[:want]
    return np.concatenate([draws.permutation(have) for _ in range(-(-want // have))])[:want]


def _declared(kind: str, given: Declared, dtype: DTypeLike) -> Items:
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 0:
            raise ValueError(f"{kind}s: expected a number of items, found {given}")
        return Items(kind, [()] * given, dtype, dtype)
    try:
        triples = [(str(name), tuple(shape), kind_of) for name, shape, kind_of in given]  # type: ignore[union-attr]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{kind}s: expected a number, or a list of (name, shape, dtype), found {given!r:.60}"
        ) from error
    shapes = {name: shape for name, shape, _ in triples}
    if len(shapes) < len(triples):
        raise ValueError(f"{kind}s: expected a name of its own for each item, found {[one[0] for one in triples]}")
    return Items(kind, shapes, {name: kind_of for name, _, kind_of in triples}, dtype)


def _pairs(items: Items) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    return [(shape, items.dtypes[name]) for name, shape in items.shapes.items()]


def _bounds(what: str, given: int | Mapping[str, int] | None) -> dict[str, int]:
    bounds = {} if given is None else dict(given) if isinstance(given, Mapping) else {"sessions": given}
    strange = bounds.keys() - {"sessions", "steps", "bytes"}
    if strange or any(isinstance(bound, bool) or int(bound) != bound or bound < 1 for bound in bounds.values()):
        raise ValueError(f"{what}: expected integers of at least 1, of sessions, steps or bytes, found {given!r:.60}")
    return bounds


def on_short_of(word: str) -> str:
    """Return a word of ON_SHORT; ValueError if it is none."""
    if word not in ON_SHORT:
        raise ValueError(f"on_short: expected one of {', '.join(ON_SHORT)}, found {word!r}")
    return word


def _sum(session: Session) -> Array:
    found: Array = np.nansum(np.asarray(session.rewards, np.float64), axis=1)
    return found
