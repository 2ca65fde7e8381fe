"""Environment: plays recorded episodes, step by step, for the recorded bodies or for others, without a simulator."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import StoreError
from ganglion.sdk import (
    ActuatorInformation,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
    StepBatch,
)
from ganglion.sdk.flow import Mode
from ganglion.sdk.spaces import Space, parse_space
from ganglion_replay.spool import KEYS, NO_TIME, Chunk, Source, read_chunk, read_index

__all__ = ["ReplayEnvironment"]

Array = NDArray[Any]
Body = tuple[str, int]
_ORDERS, _ACTIONS, _PACES = ("recorded", "shuffled", "sampled"), ("forced", "own"), ("fast", "recorded", "clock")
_REWARDS = ("recorded", "recompute")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_HELD = 4  # chunks of recorded episodes in memory, besides those being played
_MODES = tuple(Mode)


@dataclass(frozen=True, slots=True)
class Stream:
    """The place of one body's stream in one recorded episode: its chunk, its rows there, its episode."""

    source: int
    chunk: Chunk
    first: int  # row of its first observation
    row: int  # and of its first step
    steps: int
    start: int  # the step of the episode before which it begins
    body: Body
    worker: int
    episode: int


class Recording:
    """Find and read the recorded episodes in the files of a copy.

    Raises:
        StoreError: The copy is gone or damaged.
    """

    def __init__(self, folder: Path, sha256: str) -> None:
        found = read_index(folder, sha256)
        if found is None:
            raise StoreError(f"recorded episodes: there is no index in {folder}")
        self._folder, self.about, self.sources = folder, found[0], found[1]
        self._held: dict[str, dict[str, Array]] = {}
        streams = [
            stream
            for number, source in enumerate(self.sources)
            for chunk in source.chunks
            for stream in self._streams(number, source, chunk)
        ]
        self.episodes: list[dict[Body, Stream]] = []
        """The streams of each recorded episode by body, by phase, worker and number."""
        known: dict[tuple[int, str, int, int], dict[Body, Stream]] = {}
        for stream in streams:
            source = self.sources[stream.source]
            key = source.phase, source.run, stream.worker, stream.episode
            known.setdefault(key, {})[stream.body] = stream
        self.episodes = [known[key] for key in sorted(known)]

    def _streams(self, number: int, source: Source, chunk: Chunk) -> list[Stream]:
        keys = self.arrays(chunk)["keys"].tolist()
        columns = {name: [row[KEYS.index(name)] for row in keys] for name in KEYS}
        rows, firsts = (list(accumulate(columns[name], initial=0)) for name in ("steps", "observations"))
        return [
            Stream(
                number,
                chunk,
                firsts[i],
                rows[i],
                columns["steps"][i],
                columns["start"][i],
                (source.agent, columns["body"][i]),
                columns["worker"][i],
                columns["episode"][i],
            )
            for i in range(len(keys))
        ]

    def arrays(self, chunk: Chunk) -> dict[str, Array]:
        """Return the arrays of a file; the last few files are cached."""
        found = self._held.pop(chunk.file, None)
        if found is None:
            found = read_chunk(self._folder, chunk)
        self._held[chunk.file] = found
        while len(self._held) > _HELD + len(self.sources):
            del self._held[next(iter(self._held))]
        return found


class _Played:
    """The stream of one body that is being played."""

    def __init__(self, recording: Recording, stream: Stream) -> None:
        self.stream, arrays = stream, recording.arrays(stream.chunk)
        self._seen = {k: a[stream.first : stream.first + stream.steps + 1] for k, a in arrays.items()}
        self._rows = {k: a[stream.row : stream.row + stream.steps] for k, a in arrays.items()}
        self.policies = recording.sources[stream.source].policies

    def seen(self, name: str, i: int) -> Any:
        """Return the readings before step i, from 0; after the last step the closing ones."""
        return self._seen[name][i]

    def row(self, name: str, i: int) -> Any:
        """Return a value of step i."""
        return self._rows[name][i]

    def has(self, name: str) -> bool:
        """Return whether a kind of values was recorded."""
        return name in self._rows


class ReplayEnvironment(Environment):
    """Play recorded episodes: readings, rewards and ends are recorded ones, and no simulator runs.

    Body b of agent a plays the record of (a, b), from spawn to retirement if it was spawned; in a phase without bodies
    the one body plays the record of the environment as a whole. Declarations are the recorded ones.

    Params:
        source: The episodes: of a run in a store or in files; see `README.md`. They are copied before the environment
            begins, and the process gets the folder of the copies.
        order: `recorded`: by phase, worker and number; `shuffled`: drawn without replacement, all of them before any
            comes again; `sampled`: drawn with replacement. Draws depend on the seed of the environment. Default
            `recorded`.
        actions: `forced`: the recorded setpoints are applied, stored and learned from, and the agents' own proposals
            are kept as `proposed`; `own`: the agents' setpoints are applied, without influence on readings. Default
            `forced`.
        pace: `fast`: as fast as possible; `recorded`: as simulated time passed in the record, by its timestamps;
            `clock`: a tick of simulated time takes a second. Default `fast`.
        map: `any` assigns the recorded bodies to those of the document in order; None plays each by its name. Default
            None.
        reward: `recorded`, or `recompute`: by the reward plugin of the document. Default `recorded`.

    Raises:
        ValueError: A word is none of these.
    """

    batched: ClassVar[bool] = True

    def __init__(
        self,
        source: Mapping[str, Any],
        order: str = "recorded",
        actions: str = "forced",
        pace: str = "fast",
        map: str | None = None,  # noqa: A002 - a key of documents
        reward: str = "recorded",
    ) -> None:
        super().__init__()
        words = {"order": (order, _ORDERS), "actions": (actions, _ACTIONS), "pace": (pace, _PACES)}
        words |= {"map": (map or "any", ("any",)), "reward": (reward, _REWARDS)}
        for name, (word, known) in words.items():
            if word not in known:
                raise ValueError(f"{name}: expected one of {', '.join(known)}, found {word!r:.60}")
        if not isinstance(source, Mapping):
            raise ValueError(f"source: expected a map that names a run, a path or a table, found {source!r:.60}")
        self._source, self._order, self._forced, self._pace = source, order, actions == "forced", pace
        self._any = map is not None
        self._recording: Recording
        self._now: list[_Played | None] = []  # by row
        self._numbers: list[int] = []  # of the episode of each row, from 0
        self._t = self._made = 0
        self._began_s: tuple[float, float] | None = None  # the machine's clock, and the simulated time

    # -- declaring ---------------------------------------------------------------------------------------------------
    def start_environment(self) -> EnvironmentBaseline:
        """Read the index of the copy, and begin the first episode.

        Raises:
            ValueError: There is no copy, or a body of the document was not recorded.
        """
        if "folder" not in self._source:
            raise ValueError("source: recorded episodes are played in a run, which makes copies of them")
        self._recording = recording = Recording(Path(self._source["folder"]), str(self._source["sha256"]))
        first = recording.sources[0]
        self._spaces = {
            "sensor": _spaces(first.sensors, first),
            "actuator": _spaces(first.actuators, first),
            "reward": _spaces(first.rewards, first),
        }
        self._share()
        count = max(1, len(self.bodies))
        self._now, self._numbers = [None] * count, [-1] * count
        if not self.bodies:
            self._begin()
        return self._baseline()

    def _baseline(self) -> EnvironmentBaseline:
        """Return the declarations, with the first readings of the one body."""
        spaces = self._spaces
        shown = {} if self.bodies else {uid: rows[0] for uid, rows in self._shown([0], [0]).items()}
        return EnvironmentBaseline(
            [SensorInformation(_value(shown.get(u, s.default()), s), s, u) for u, s in spaces["sensor"].items()],
            [ActuatorInformation(s.default(), s, u) for u, s in spaces["actuator"].items()],
            simtime=self._time(0) or SimTime(0, None),
            static_world_model=self._recording.about.get("static_model"),
            rewards_available=[RewardInformation(None, s, u) for u, s in spaces["reward"].items()],
        )

    def _share(self) -> None:
        """Choose the episodes of this worker, and the streams of its bodies.

        If the number of workers is the recorded one, each plays its own episodes; else episodes are dealt in turn.
        """
        episodes, workers = self._recording.episodes, int(self._source.get("workers", 1))
        found = sorted({stream.worker for one in episodes for stream in one.values()})
        if len(found) == workers:
            mine = [one for one in episodes if next(iter(one.values())).worker == found[self.worker % workers]]
        else:
            mine = episodes[self.worker % workers :: workers]
        self._episodes = mine or episodes
        static = {body: s for one in episodes for body, s in one.items() if s.start == 0}
        recorded = sorted(static, key=lambda body: body)
        self._played: list[Body] = []
        wanted = [(body.agent, body.b) for body in self.bodies] or [recorded[0]]
        if self._any:
            if len(recorded) < len(wanted):
                raise ValueError(f"map: any: expected {len(wanted)} recorded bodies, found {len(recorded)}")
            self._played = recorded[: len(wanted)]
        else:
            missing = [body for body in wanted if body not in static]
            if missing:
                known = ", ".join(f"{agent}/{b}" if agent else "no bodies" for agent, b in recorded)
                raise ValueError(f"source: body {missing[0][0]}/{missing[0][1]} was not recorded; found {known}")
            self._played = wanted
        self._static = len(self._played)

    # -- episodes ----------------------------------------------------------------------------------------------------
    def _pick(self, number: int, episodes: Sequence[Any]) -> Any:
        """Return the recorded episode for the number of an episode."""
        count = len(episodes)
        turn, place = divmod(number, count)
        seed = [self.seed % 2**63, self.worker]
        if self._order == "sampled":
            return episodes[int(np.random.default_rng([*seed, number]).integers(count))]
        if self._order == "shuffled":
            return episodes[int(np.random.default_rng([*seed, turn]).permutation(count)[place])]
        return episodes[place]

    def _begin(self) -> None:
        """Begin the episode of the environment."""
        self._t = 0
        self._playing = self._pick(self.episode, self._episodes)
        self._now = [None] * max(1, len(self.bodies))
        for row, body in enumerate(self._played):
            if body in self._playing:
                self._now[row] = _Played(self._recording, self._playing[body])
        self._last = max(s.start + s.steps for s in self._playing.values())
        self._began_s = None

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin the next episode of an environment without bodies."""
        self._begin()
        return self._baseline()

    def begin_batch(self, rows: Array, seeds: Sequence[int]) -> Mapping[str, Array]:
        """Begin an episode of each of these bodies; the seeds have no influence."""
        chosen = rows.tolist()
        self._now += [None] * (len(self.bodies) - len(self._now))
        self._numbers += [-1] * (len(self.bodies) - len(self._numbers))
        if any(row >= self._static for row in chosen):
            for row, stream in zip(chosen, self._coming, strict=True):
                self._now[row] = _Played(self._recording, stream)
            return self._shown(chosen, [0] * len(chosen))
        if not self.each:
            self._begin()
            return self._shown(chosen, [0] * len(chosen))
        for row in chosen:
            self._numbers[row] += 1
            self._open(row)
        return self._shown(chosen, [0] * len(chosen))

    def _open(self, row: int, step: int = 0) -> None:
        """Play the stream of a body that has episodes of its own."""
        mine = [one[self._played[row]] for one in self._episodes if self._played[row] in one]
        self._now[row] = _Played(self._recording, self._pick(self._numbers[row], mine))
        self._at = self._at if len(self._at) == len(self._now) else [0] * len(self._now)
        self._at[row] = step

    _at: list[int] = []  # noqa: RUF012 - the step of each body with episodes of its own; set anew before it is changed

    # -- a step ------------------------------------------------------------------------------------------------------
    def update_batch(self, setpoints: Mapping[str, Array]) -> StepBatch | Awaitable[StepBatch]:
        """Play one step of these bodies.

        Raises:
            ValueError: The record has ended and the episode has not.
        """
        rows: list[int] = self.rows.tolist() if self.bodies else [0]
        played: list[_Played] = []
        places: list[int] = []
        for row in rows:
            one = self._now[row]
            place = self._at[row] if self.each else self._t - (one.stream.start if one is not None else 0)
            if one is None or place >= one.stream.steps:
                raise ValueError(f"{self._named(row)}: the record has ended after {place} steps, and it is to go on")
            played.append(one)
            places.append(place)
        pairs = list(zip(played, places, strict=True))
        self._made += 1
        if self.each:
            for row, place in zip(rows, places, strict=True):
                self._at[row] = place + 1
        else:
            self._t += 1
        flags = [np.array([bool(one.row(name, i)) for one, i in pairs]) for name in ("terminated", "truncated")]
        found = StepBatch(
            self._shown(rows, [place + 1 for place in places]),
            {
                uid: self._stacked([one.row(f"reward {k}", i) for one, i in pairs], space)
                for k, (uid, space) in enumerate(self._spaces["reward"].items())
            },
            terminated=flags[0],
            truncated=flags[1],
            simtime=None if self.each else self._time(self._t),
        )
        if self._forced:
            self._force(found, pairs)
        if not self.each:
            self._close(found, pairs)
            self._come_and_go(found, rows)
        if not self.bodies:  # its flags are those of the environment
            found.terminated = bool(flags[0][0]) or found.over == "terminated"
            found.truncated = not found.terminated and (bool(flags[1][0]) or found.over == "truncated")
            found.over = None
        return found if self._pace == "fast" else self._paced(found)

    async def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Play one step of the one body; for use without the bus."""
        made = self.update_batch({})
        found = made if isinstance(made, StepBatch) else await made
        return EnvironmentState(
            [SensorInformation(_value(found.readings[u][0], s), s, u) for u, s in self._spaces["sensor"].items()],
            [RewardInformation(_value(found.rewards[u][0], s), s, u) for u, s in self._spaces["reward"].items()],
            simtime=found.simtime,
            terminated=bool(found.terminated),
            truncated=bool(found.truncated),
        )

    def _force(self, found: StepBatch, pairs: Sequence[tuple[_Played, int]]) -> None:
        """Set the applied setpoints, the policies that chose them, and the next decisions."""
        found.applied = {
            uid: self._stacked([one.row(f"actuator {k}", i) for one, i in pairs], space)
            for k, (uid, space) in enumerate(self._spaces["actuator"].items())
        }
        if not self.bodies or not all(one.has("decided") for one, _ in pairs):  # files have no record of it
            return
        numbers = [(one, int(one.row("policy", i)), int(one.row("policy_version", i))) for one, i in pairs]
        found.policies = [(one.policies[number] if number >= 0 else None, version) for one, number, version in numbers]
        found.wants = np.array([i + 1 >= one.stream.steps or bool(one.row("decided", i + 1)) for one, i in pairs])

    def _close(self, found: StepBatch, pairs: Sequence[tuple[_Played, int]]) -> None:
        """Set the end of the episode with its last step."""
        if self._t < self._last and any(self._t < one.stream.start + one.stream.steps for one, _ in pairs):
            return
        if self._t < self._last and self.bodies and self._more():
            return
        own = {int(one.row("own", i)) for one, i in pairs if one.has("own")}
        if 1 in own or 2 in own:
            found.over = "terminated" if 1 in own else "truncated"
        elif not pairs or not (np.asarray(found.terminated) | np.asarray(found.truncated)).all():
            # The record was cut off: the document's cap or budget does so again, or this method.
            cut = self._t == self._source.get("max_steps") or self._made == self._source.get("budget_steps")
            found.over = None if cut else "truncated"

    def _more(self) -> bool:
        """Return whether a body is still to be spawned."""
        return any(s.start >= self._t for s in self._playing.values())

    def _come_and_go(self, found: StepBatch, rows: Sequence[int]) -> None:
        """Spawn the bodies that came after this step, and retire spawned bodies that ended with it."""
        if len(self.bodies) <= self._static and not self._playing.keys() - set(self._played):
            return
        leaving: dict[Body, Any] = {}
        for place, row in enumerate(rows):
            one = self._now[row]
            if row >= self._static and one is not None and self._t == one.stream.start + one.stream.steps:
                end = "terminated" if np.asarray(found.terminated)[place] else "truncated"
                if np.asarray(found.terminated)[place] or np.asarray(found.truncated)[place]:
                    leaving[self.bodies[row].agent, self.bodies[row].b] = end
        for flags in ("terminated", "truncated"):  # which retirement says itself
            gone = [(self.bodies[row].agent, self.bodies[row].b) in leaving for row in rows]
            setattr(found, flags, np.asarray(getattr(found, flags)) & ~np.array(gone, bool))
        agents = {body.agent for body in self.bodies} | set(self.used)
        born = [s for _, s in sorted(self._playing.items()) if s.start == self._t > 0 and s.body[0] in agents]
        if found.over is None:
            used = dict(self.used)
            coming: list[Body] = []
            for stream in born:
                agent, b = stream.body
                b = b if b > used.get(agent, -1) else used.get(agent, -1) + 1
                used[agent] = b
                coming.append((agent, b))
            self._coming, found.spawned = born, coming
        found.retired = leaving or None

    _coming: Sequence[Stream] = ()

    # -- values ------------------------------------------------------------------------------------------------------
    def _shown(self, rows: Sequence[int], places: Sequence[int]) -> dict[str, Array]:
        """Return the readings of bodies at these places of their streams."""
        now = [self._now[row] for row in rows]
        strange = next((row for row, one in zip(rows, now, strict=True) if one is None), None)
        if strange is not None:
            raise ValueError(f"{self._named(strange)} was not recorded in the episode that is played")
        return {
            uid: self._stacked(
                [one.seen(f"sensor {k}", i) for one, i in zip(now, places, strict=True) if one is not None], space
            )
            for k, (uid, space) in enumerate(self._spaces["sensor"].items())
        }

    @staticmethod
    def _stacked(values: Sequence[Any], space: Space) -> Array:
        return np.array(values, space.dtype).reshape(len(values), *space.shape)

    def _named(self, row: int) -> str:
        if not self.bodies:
            return f"{self.uid}, step {self._t + 1}"
        return f"body {self.bodies[row].agent}/{self.uid}/{self.bodies[row].b}, step {self._t + 1}"

    def _time(self, t: int) -> SimTime | None:
        """Return the simulated time after so many steps of the episode; None if not recorded."""
        if not self._now or self._now[0] is None or not self._now[0].has("own"):
            return None
        for stream in self._playing.values():
            place = t - stream.start
            if 0 <= place <= stream.steps:
                arrays = self._recording.arrays(stream.chunk)
                ticks, stamp, zone = (int(arrays[name][stream.first + place]) for name in ("time", "stamp", "zone"))
                moment = None if stamp == NO_TIME else _EPOCH + dt.timedelta(microseconds=stamp)
                if moment is not None:
                    offset = None if zone == NO_TIME else dt.timezone(dt.timedelta(microseconds=zone))
                    moment = moment.replace(tzinfo=None) if offset is None else moment.astimezone(offset)
                return SimTime(None if ticks == NO_TIME else ticks, moment)
        return None

    async def _paced(self, found: StepBatch) -> StepBatch:
        """Return a step after the time that the pace demands."""
        steps = self._t or self._made
        now_s, clock_s = self._seconds(found.simtime, steps), asyncio.get_running_loop().time()
        if self._began_s is None or now_s < self._began_s[1]:
            before = None if self.each else self._time(self._t - 1)
            self._began_s = clock_s, self._seconds(before, steps - 1)
        await asyncio.sleep(max(0.0, now_s - self._began_s[1] - (clock_s - self._began_s[0])))
        return found

    def _seconds(self, time: SimTime | None, steps: int) -> float:
        """Return a simulated time in seconds of the pace; without ticks, steps are counted."""
        if self._pace == "recorded":
            if time is None or time.simtime_timestamp is None:
                raise ValueError("pace: recorded: no timestamps were recorded; `clock` counts ticks as seconds")
            moment = time.simtime_timestamp
            return ((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - _EPOCH).total_seconds()
        return float(steps if time is None or time.simtime_ticks is None else time.simtime_ticks)

    # -- state -------------------------------------------------------------------------------------------------------
    def save_state(self) -> dict[str, Any]:
        """Return the episodes being played and their steps."""
        coming = [[s.body[0], s.body[1]] for s in self._coming]
        spawned = [
            None if one is None or row < self._static else list(one.stream.body) for row, one in enumerate(self._now)
        ]
        return {
            "t": self._t,
            "made": self._made,
            "numbers": list(self._numbers),
            "at": list(self._at),
            "coming": coming,
            "spawned": spawned,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `save_state` returned."""
        self._numbers, self._made = list(state["numbers"]), int(state["made"])
        if self.each:
            self._now = [None] * len(self._numbers)
            for row, number in enumerate(self._numbers):
                if number >= 0:
                    self._open(row, int(state["at"][row]))
            return
        self._begin()
        self._t = int(state["t"])
        self._coming = [self._playing[body[0], body[1]] for body in state["coming"]]
        self._now += [None] * (len(state["spawned"]) - len(self._now))
        for row, body in enumerate(state["spawned"]):
            if body is not None:
                self._now[row] = _Played(self._recording, self._playing[body[0], body[1]])


def _spaces(columns: Sequence[Sequence[str]], source: Source) -> dict[str, Space]:
    """Return space by local id."""
    prefix = f"{source.environment}."
    return {uid.removeprefix(prefix): parse_space(text) for uid, text in columns}


def _value(array: Any, space: Space) -> Any:
    """Return the value of a space from its array."""
    return space.from_vector(np.asarray(array, space.dtype).reshape(-1))
