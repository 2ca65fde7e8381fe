"""Table: a pool of decisions in a process of its own, which brains feed and draw from."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ganglion.sdk import INSERT, Ask, Pool
from ganglion_replay.limiter import RateLimiter
from ganglion_replay.pool import (
    PoolEmpty,
    PoolMismatch,
    PoolShort,
    SessionBatchEnvironment,
    _bounds,
    _Ring,
    drawn_of,
    on_short_of,
)

__all__ = ["PoolTable", "TableBatch", "TableFace", "TableSteps"]

Array = NDArray[Any]
STEPS_KEPT = 100_000  # if a document bounds neither steps nor sessions
_REMOVALS = ("fifo", "priority")
_ROUNDING = 1e-9  # of shares written as decimal fractions
_DRAWS = ("sample_steps", "sample_session_batch", "sample_slices")
_OWN = ("priority", "session", "id")  # columns that are never given


class TableSteps(NamedTuple):
    """Drawn decisions, `[n]` or `[n, columns]` each; columns are those of `ganglion.sdk.Transitions`.

    `ids` count the decisions of the table from 0, `ticks` those of an episode, `versions` are the numbers of the
    updates that they were made by (0 before the first, -1 unknown), `weights` correct for the priorities.
    """

    ids: Array
    ticks: Array
    weights: Array
    observations: Array
    actions: Array
    objectives: Array
    rewards: Array
    next_observations: Array
    terminated: Array
    truncated: Array
    versions: Array


class TableBatch(SessionBatchEnvironment):
    """Drawn sessions or slices side by side, with one item of observations and one of actions.

    Rewards are the sum of each decision's rewards.

    Attributes:
        objectives: `[n, T]` float64; NaN is none.
        versions: `[n, T]`, as of `TableSteps`.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        seen, acted = given["observations"], given["actions"]
        names = ("rewards", "is_alive", "terminated", "truncated", "lengths", "ids", "indices", "starts")
        kept = {name: given[name] for name in names}
        finals = np.ones(len(seen), bool)
        super().__init__([seen], [seen.shape[2:]], [acted], [acted.shape[2:]], has_final=finals, **kept)
        self.objectives: Array = given["objectives"]
        self.versions: Array = given["versions"]


class TableFace:
    """The object in `Brain.tables`: each method sends a request to the table and waits for the answer.

    Draws depend on the seed of the run, on the inserted decisions, and on earlier draws of this brain. In lockstep and
    with several agents on a table, rows written in a round are visible from the next round on.

    If the rate of the table allows a draw only later, the draw waits with `sync: async`, until the deadline `ask` of
    the phase; in lockstep, where no insert can come while a brain waits, it is refused at once. `can_sample` tells
    before.
    """

    def __init__(self, uid: str, ask: Ask) -> None:
        self.uid, self._ask = uid, ask

    def sample_steps(self, n: int, *, alpha: float = 0.0, beta: float = 0.0) -> TableSteps:
        """Return decisions drawn with replacement, by their priorities p.

        Args:
            n: The number of decisions.
            alpha: A decision is drawn with P = p^alpha / sum; 0 is uniform.
            beta: Its weight is (N P)^-beta, divided by the greatest of all N.

        Source: Schaul et al. (2016), Prioritized Experience Replay, section 3.
        """
        return TableSteps(**self._ask("sample_steps", n=int(n), alpha=float(alpha), beta=float(beta)))

    def sample_session_batch(
        self, max_n_samples: int, replace: bool = False, *, on_short: str = "truncate"
    ) -> TableBatch:
        """Return ended episodes drawn uniformly, whole; see `SessionPoolEnvironment`."""
        return TableBatch(
            self._ask("sample_session_batch", n=int(max_n_samples), replace=bool(replace), on_short=str(on_short))
        )

    sample_sessions_batch = sample_session_batch

    def sample_slices(self, n: int, length: int, *, partial: str = "refuse", replace: bool = True) -> TableBatch:
        """Return windows of `length` decisions of one episode each, all equally likely.

        With `partial="pad"` windows begin anywhere, and ticks beyond the newest decision of the episode are not alive.
        """
        given = {"n": int(n), "length": int(length), "partial": str(partial), "replace": bool(replace)}
        return TableBatch(self._ask("sample_slices", **given))

    def set_priorities(self, ids: Any, values: Any) -> None:
        """Set priorities of decisions by their `ids`; removed decisions are ignored."""
        self._ask("set_priorities", ids=np.asarray(ids, np.int64), values=np.asarray(values, np.float64))

    def can_sample(self, n: int = 1) -> bool:
        """Return whether so many decisions may be drawn now."""
        return bool(self._ask("can_sample", n=int(n)))

    def state(self) -> dict[str, Any]:
        """Return steps, sessions and the state of the limiter."""
        return dict(self._ask("state"))

    def __len__(self) -> int:
        """Return the number of decisions."""
        return int(self._ask("state")["steps"])


class MixedFace:
    """Draw steps from several tables by exact shares, in the order of the tables.

    Raises:
        ValueError: A share of n is no whole number of steps.
    """

    def __init__(self, uid: str, parts: Mapping[str, tuple[TableFace, float]]) -> None:
        self.uid, self._parts = uid, parts

    def _shared(self, n: int) -> list[tuple[TableFace, int]]:
        found = [(face, round(n * share)) for face, share in self._parts.values()]
        exact = zip(found, self._parts.values(), strict=True)
        if n < 1 or any(abs(count - n * share) > _ROUNDING * n for (_, count), (_, share) in exact):
            shares = ", ".join(f"{uid} {share:g}" for uid, (_, share) in self._parts.items())
            raise ValueError(f"table {self.uid}: {n} steps cannot be shared out exactly ({shares})")
        return [(face, count) for face, count in found if count]

    def sample_steps(self, n: int, *, alpha: float = 0.0, beta: float = 0.0) -> TableSteps:
        """Return steps of each table by its share; see `TableFace`. `ids` are those of each step's own table."""
        drawn = [face.sample_steps(count, alpha=alpha, beta=beta) for face, count in self._shared(n)]
        return TableSteps(*(np.concatenate(columns) for columns in zip(*drawn, strict=True)))

    def can_sample(self, n: int = 1) -> bool:
        """Return whether each table allows its share."""
        return all(face.can_sample(count) for face, count in self._shared(n))

    def __len__(self) -> int:
        """Return the number of decisions in all tables."""
        return sum(len(face) for face, _ in self._parts.values())


class _Session:
    """An episode of one body: the numbers of its remaining decisions."""

    __slots__ = ("cut", "ended", "rows")

    def __init__(self, rows: Sequence[int] = (), ended: bool = False, cut: bool = False) -> None:
        self.rows, self.ended, self.cut = deque(rows), ended, cut


class PoolTable(Pool):
    """Keep decisions up to a capacity, and draw steps, slices and whole episodes from them.

    Params:
        capacity: The most sessions, or a map {steps, sessions}, of which the first one reached counts. Default
            {steps: 100000}.
        remove: The decisions to remove: `fifo`, the oldest; `priority`, those of the least priority, which leaves no
            whole episodes, so that only steps can be drawn. Default `fifo`.
        rate: {samples_per_insert, min_size, buffer} of a `RateLimiter`; a draw of n steps, slices or sessions counts n.
            Recorded sessions of `source` count as inserted up to `min_size`. Default none.
        source: The recorded sessions that the table begins with: of a run, of files, or of another table; see
            `README.md`. They are copied before the table begins. Default none.

    Raises:
        ValueError: A number is below its bound, or a word is unknown.
    """

    face = TableFace

    def __init__(
        self,
        capacity: int | dict[str, int] | None = None,
        remove: str = "fifo",
        rate: dict[str, float] | None = None,
        source: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._capacity = {"steps": STEPS_KEPT} if capacity is None else _bounds("capacity", capacity)
        if self._capacity.keys() - {"steps", "sessions"} or not self._capacity:
            raise ValueError(f"capacity: expected steps or sessions, found {', '.join(self._capacity) or 'nothing'}")
        if remove not in _REMOVALS:
            raise ValueError(f"remove: expected one of {', '.join(_REMOVALS)}, found {remove!r}")
        self._least_first = remove == "priority"
        if self._least_first and "steps" not in self._capacity:
            raise ValueError("remove: `priority` needs a capacity of steps")
        if source is not None and not isinstance(source, Mapping):
            raise ValueError(f"source: expected a map that names a run, a path or a table, found {source!r:.60}")
        self._limiter, self._source = None if rate is None else _limiter(rate), source
        self._ring: _Ring | None = None
        self._kinds: dict[str, Any] = {}
        self._inserted, self._greatest = 0, 1.0
        self._sessions: dict[int, _Session] = {}  # by number; the oldest first
        self._running: dict[str, tuple[int, int]] = {}  # stream -> its episode, the number of its session
        self._begun = 0
        self._places: dict[int, int] = {}  # with `priority`: id -> row
        self._sums: dict[float, tuple[Array, Array]] = {}  # by exponent, until something changes
        self._draws: dict[str, Generator] = {}

    @classmethod
    def mixed(cls, uid: str, parts: Mapping[str, tuple[TableFace, float]]) -> MixedFace:
        """Return the object that draws from several tables."""
        return MixedFace(uid, parts)

    def setup(self) -> None:
        """Make a stream of draws for each agent, independent of other agents' draws; load the copied sessions.

        Raises:
            StoreError: The copy is missing or damaged.
            ValueError: A table with a `source` has no copy.
        """
        seeds = self.rng.integers(2**63, size=len(self.serve))
        self._draws = {agent: np.random.default_rng(int(seed)) for agent, seed in zip(self.serve, seeds, strict=True)}
        if self._source is None:
            return
        if "folder" not in self._source:
            raise ValueError("source: recorded sessions are there in a run, which makes copies of them")
        from ganglion_replay.tables import filled

        for given in filled(str(self._source["folder"]), str(self._source["sha256"])):
            self._insert("the source", given)
        if self._limiter is not None:
            self._limiter.inserted(min(self._inserted, self._limiter.min_size))

    # -- judging -----------------------------------------------------------------------------------------------------
    def judge(self, agent: str, what: str, given: Mapping[str, Any]) -> str | None:
        """Return why a request cannot be answered yet, None if it can."""
        limiter, n = self._limiter, int(given.get("n", 1))
        if what == INSERT:
            rows = len(given["streams"])
            if limiter is None or limiter.can_insert(rows):
                return None
            return f"{_count(rows, 'decision')} would bring d from {limiter.d:g} above {limiter.high:g}"
        if what not in _DRAWS:
            return None
        if n < 1:
            raise ValueError(f"{what}: expected at least 1, found {n}")
        if what != "sample_steps" and self._least_first:
            raise ValueError(f"{what}: a table with `remove: priority` keeps no whole episodes")
        if what == "sample_session_batch":
            have, word = len(self._whole()), on_short_of(given["on_short"])
            if word == "wait" and have < (1 if given["replace"] else n):
                return f"it has {_count(have, 'whole episode')}, and {n} are wanted"
        if limiter is None or limiter.can_sample(n):
            return None
        if limiter.inserts < limiter.min_size:
            return f"{_count(limiter.inserts, 'decision')} of the first {limiter.min_size} were inserted"
        return f"a draw of {n} would bring d from {limiter.d:g} below {limiter.low:g}"

    def state(self) -> Mapping[str, int | float | str | None]:
        """Return numbers of steps and sessions, and the state of the limiter with `since` as a time of day."""
        found: dict[str, Any] = {
            "steps": len(self),
            "sessions": len(self._sessions),
            "whole": len(self._whole()),
            "inserts": self._inserted,
        }
        if self._limiter is not None:
            found |= self._limiter.state()
            since_s = found["since"]
            found["since"] = None if since_s is None else datetime.fromtimestamp(since_s, UTC).strftime("%H:%M:%SZ")
        return found

    def __len__(self) -> int:
        return 0 if self._ring is None else self._ring.end - self._ring.begin

    # -- inserting ---------------------------------------------------------------------------------------------------
    def insert(self, agent: str, given: Mapping[str, Any]) -> None:
        """Keep decisions, and remove others until the bounds hold."""
        if self._limiter is not None:
            self._limiter.inserted(len(given["streams"]))
        self._insert(agent, given)

    def _insert(self, agent: str, given: Mapping[str, Any]) -> None:
        streams = given["streams"]
        arrays = {name: array for name, array in given.items() if name != "streams"}
        self._declare(agent, arrays)
        for i, stream in enumerate(streams):
            self._keep(stream, {name: array[i] for name, array in arrays.items()})
        self._sums.clear()

    def _declare(self, agent: str, arrays: Mapping[str, Array]) -> None:
        """Set the columns of all decisions by the first ones; refuse differing ones."""
        kinds = {name: (list(array.shape[1:]), array.dtype.str) for name, array in arrays.items()}
        if self._ring is None:
            self._make(kinds)
        for name, kind in kinds.items():
            if kind != self._kinds.get(name):
                expected, found = (f"{dtype} {shape}" for shape, dtype in (self._kinds[name], kind))
                text = f"expected {expected}, as of the first agent, found {found} of {agent}"
                raise PoolMismatch(f"table {self.name}: {name}: {text}")

    def _make(self, kinds: Mapping[str, Any]) -> None:
        self._kinds = {name: (list(shape), dtype) for name, (shape, dtype) in kinds.items()}
        own = {"priority": ((), "<f8"), "session": ((), "<i8"), "id": ((), "<i8")}
        self._ring = _Ring({name: (tuple(s), np.dtype(d)) for name, (s, d) in (self._kinds | own).items()})

    def _keep(self, stream: str, row: dict[str, Any]) -> None:
        ring = self._ring
        assert ring is not None
        episode, (former, number) = int(row["episodes"]), self._running.get(stream, (-1, -1))
        if former != episode or number not in self._sessions:
            if number in self._sessions:
                self._sessions[number].cut = True  # given up: its end will not come
            number, self._begun = self._begun, self._begun + 1
            # What was lost before its first decision came is missing in it.
            self._sessions[number] = _Session(cut=int(row["ticks"]) != 0)
            self._running[stream] = episode, number
        session = self._sessions[number]
        row |= {"priority": self._greatest, "session": number, "id": self._inserted}
        if self._least_first and len(self) >= self._capacity["steps"]:
            place = ring.begin + int(np.argmin(ring.all("priority")))
            del self._places[int(ring.take("id", np.array([place]))[0])]
            self._forget(place)
            for name, value in row.items():
                ring.put(name, np.array([place]), value)
        else:
            place = ring.append({name: np.asarray(value)[None] for name, value in row.items()}, 1)
        self._sessions[number] = session  # the decision that made room may have been its only one
        session.rows.append(place)
        if self._least_first:
            self._places[self._inserted] = place
        self._inserted += 1
        if row["terminated"] or row["truncated"]:
            session.ended = True
            del self._running[stream]
        most = self._capacity
        while not self._least_first and (
            len(self) > most.get("steps", math.inf) or len(self._sessions) > most.get("sessions", math.inf)
        ):
            self._forget(ring.begin)
            ring.drop(1)

    def _forget(self, place: int) -> None:
        """Remove a row from its session; remove a session without rows."""
        assert self._ring is not None
        number = int(self._ring.take("session", np.array([place]))[0])
        session = self._sessions[number]
        session.cut = True
        session.rows.remove(place)  # the first one, if the oldest are removed
        if not session.rows:
            del self._sessions[number]

    # -- drawing -----------------------------------------------------------------------------------------------------
    def answer(self, agent: str, what: str, given: Mapping[str, Any]) -> Any:
        """Return a draw, or the answer to another request."""
        if what == "can_sample":
            return len(self) > 0 and (self._limiter is None or self._limiter.can_sample(int(given["n"])))
        if what == "state":
            return dict(self.state())
        if what == "set_priorities":
            values = np.asarray(given["values"])
            if values.shape != np.shape(given["ids"]) or not (np.isfinite(values) & (values > 0)).all():
                raise ValueError("set_priorities: expected as many ids as numbers above 0")
            return None
        if what not in _DRAWS:
            raise ValueError(f"expected one of {', '.join(_DRAWS)}, set_priorities, can_sample, state, found {what!r}")
        if not len(self):
            raise PoolEmpty(f"table {self.name} has no decisions")
        found: Any = getattr(self, f"_{what}")(self._draws[agent], **given)
        return found

    def note(self, agent: str, what: str, given: Mapping[str, Any]) -> None:
        """Count a draw, or write priorities."""
        if what in _DRAWS and self._limiter is not None:
            self._limiter.sampled(int(given["n"]))
        if what != "set_priorities" or self._ring is None:
            return
        ids, values = np.asarray(given["ids"]), np.asarray(given["values"])
        if self._least_first:
            here = np.array([int(one) in self._places for one in ids], bool)
            rows = np.array([self._places[int(one)] for one in ids[here]], np.int64)
        else:
            here, rows = (ids >= self._ring.begin) & (ids < self._ring.end), ids
            rows = rows[here]
        self._ring.put("priority", rows, values[here])
        self._greatest = max(self._greatest, float(values[here].max(initial=0.0)))
        self._sums.clear()

    def _sample_steps(self, draws: Generator, n: int, alpha: float, beta: float) -> dict[str, Any]:
        if alpha < 0 or beta < 0:
            raise ValueError(f"alpha, beta: expected no negative exponents, found {alpha} and {beta}")
        ring, count = self._ring, len(self)
        assert ring is not None
        weights = np.ones(n)
        if alpha == 0:
            places = draws.integers(count, size=n)
        else:
            if alpha not in self._sums:
                scaled = ring.all("priority") ** alpha
                self._sums = {alpha: (scaled, np.cumsum(scaled))}  # of one exponent: draws rarely use several
            scaled, sums = self._sums[alpha]
            places = np.minimum(np.searchsorted(sums, draws.random(n) * sums[-1], side="right"), count - 1)
            weights = (scaled[places] / scaled.min()) ** -beta
        rows = places + ring.begin
        names = {"ids": "id", **{name: name for name in TableSteps._fields if name in self._kinds}}
        return {"weights": weights, **{name: ring.take(column, rows) for name, column in names.items()}}

    def _whole(self) -> list[int]:
        """Return the numbers of ended sessions without missing decisions."""
        return [number for number, one in self._sessions.items() if one.ended and not one.cut]

    def _sample_session_batch(self, draws: Generator, n: int, replace: bool, on_short: str) -> dict[str, Any]:
        whole = self._whole()
        have = len(whole)
        if not have or (have < n and on_short == "error" and not replace):
            raise PoolShort(f"table {self.name}: expected {n} whole episodes, found {have}")
        places = drawn_of(draws, n, have, replace, on_short)
        windows = [(whole[place], 0, len(self._sessions[whole[place]].rows)) for place in places.tolist()]
        return self._batch(windows, places)

    def _sample_slices(self, draws: Generator, n: int, length: int, partial: str, replace: bool) -> dict[str, Any]:
        if partial not in ("refuse", "pad") or length < 1:
            raise ValueError(f"partial, length: expected refuse or pad, and at least 1, found {partial!r} and {length}")
        least = length if partial == "refuse" else 1
        numbers = list(self._sessions)
        counts = np.array([max(0, len(self._sessions[number].rows) - least + 1) for number in numbers])
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        if total < (1 if replace else n):
            wanted = 1 if replace else n
            raise PoolShort(f"table {self.name}: expected {wanted} windows of {length} decisions, found {total}")
        drawn = draws.integers(total, size=n) if replace else draws.choice(total, n, replace=False)
        chosen = np.searchsorted(ends, drawn, side="right")
        begins = drawn - (ends - counts)[chosen]
        windows = [
            (numbers[place], begin, min(length, len(self._sessions[numbers[place]].rows) - begin))
            for place, begin in zip(chosen.tolist(), begins.tolist(), strict=True)
        ]
        return self._batch(windows, chosen, length)

    def _batch(self, windows: Sequence[tuple[int, int, int]], places: Array, ticks: int = 0) -> dict[str, Any]:
        """Return windows (session, begin, length) side by side, padded with zeros."""
        ring = self._ring
        assert ring is not None
        lengths = np.array([length for _, _, length in windows], np.int64)
        ticks = ticks or int(lengths.max())
        alive = np.arange(ticks) < lengths[:, None]
        rows = np.zeros(alive.shape, np.int64)
        rows[alive] = [row for window in windows for row in self._rows(*window)]

        def taken(name: str) -> Array:
            found = np.zeros((*alive.shape, *self._kinds[name][0]), np.dtype(self._kinds[name][1]))
            found[alive] = ring.take(name, rows[alive])
            return found

        seen, after = taken("observations"), taken("next_observations")
        closed = np.concatenate([seen, np.zeros_like(seen[:, :1])], axis=1)
        closed[np.arange(len(windows)), lengths] = after[np.arange(len(windows)), lengths - 1]
        names = ("actions", "objectives", "terminated", "truncated", "versions")
        return {
            "observations": closed,
            **{name: taken(name) for name in names},
            "rewards": np.nansum(taken("rewards"), axis=2, dtype=np.float64),
            "is_alive": alive,
            "lengths": lengths,
            "ids": np.array([number for number, _, _ in windows], np.int64),
            "indices": np.asarray(places, np.int64),
            "starts": taken("ticks")[:, 0],
        }

    def _rows(self, number: int, begin: int, length: int) -> Iterator[int]:
        return islice(self._sessions[number].rows, begin, begin + length)

    # -- state -------------------------------------------------------------------------------------------------------
    def save_state(self) -> dict[str, Any]:
        """Return the whole state, as large as the kept decisions."""
        ring, limiter = self._ring, self._limiter
        sessions = [[n, list(one.rows), one.ended, one.cut] for n, one in self._sessions.items()]
        return {
            "kinds": self._kinds,
            "rows": None if ring is None else [ring.begin, {n: ring.all(n).copy() for n in (*self._kinds, *_OWN)}],
            "numbers": [self._inserted, self._greatest, self._begun],
            "sessions": sessions,
            "running": self._running,
            "draws": self._draws,
            "limiter": None if limiter is None else [limiter.inserts, limiter.samples],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `save_state` returned."""
        if state["rows"] is not None:
            begin, arrays = state["rows"]
            self._make(state["kinds"])
            assert self._ring is not None
            self._ring.clear(begin)
            self._ring.append(arrays, len(arrays["id"]))
            if self._least_first:
                self._places = {int(one): begin + i for i, one in enumerate(arrays["id"])}
        self._inserted, self._greatest, self._begun = state["numbers"]
        self._sessions = {number: _Session(*rest) for number, *rest in state["sessions"]}
        self._running, self._draws = dict(state["running"]), dict(state["draws"])
        if self._limiter is not None:
            self._limiter.inserts, self._limiter.samples = state["limiter"]


def _limiter(rate: Mapping[str, float]) -> RateLimiter:
    names = ("samples_per_insert", "min_size", "buffer")
    if rate.keys() != set(names):
        raise ValueError(f"rate: expected {', '.join(names)}, found {', '.join(map(str, rate)) or 'nothing'}")
    strange = next((n for n in names if isinstance(rate[n], bool) or not isinstance(rate[n], int | float)), None)
    if strange is not None or int(rate["min_size"]) != rate["min_size"]:
        name = strange or "min_size"
        raise ValueError(f"rate: {name}: expected {'a number' if strange else 'an integer'}, found {rate[name]!r}")
    return RateLimiter(rate["samples_per_insert"], int(rate["min_size"]), rate["buffer"], time.time)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
