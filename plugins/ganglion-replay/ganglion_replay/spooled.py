"""Spooled: recorded episodes for a brain, read from files on access, one chunk at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import DocumentError, GanglionError, StoreError
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import Information
from ganglion.sdk.session import Session
from ganglion.sdk.spaces import Box, Space, parse_space
from ganglion_replay.spool import KEYS, PER_STEP, Chunk, Source, read_chunk, read_index

__all__ = ["Kin", "Pick", "Sessions", "kin_of", "rewards_of", "unlike"]

Array = NDArray[Any]
_MODES = tuple(Mode)


def unlike(space: Space, recorded: Space, strict: bool) -> bool:
    """Return whether recorded values do not fit a space; if not strict, bounds of boxes may differ."""
    if space == recorded:
        return False
    alike = isinstance(space, Box) and isinstance(recorded, Box)
    return strict or not alike or (space.size, space.dtype) != (recorded.size, recorded.dtype)


@dataclass(frozen=True, slots=True)
class Kin:
    """A group of an agent's bodies: environments (empty without bodies), sensors and actuators."""

    environments: Sequence[str]
    sensors: Sequence[Information]
    actuators: Sequence[Information]

    def named(self, source: Source) -> Source:
        """Return a source with local ids replaced by the ids of this group, full ones for one environment."""
        if len(self.environments) != 1:
            return source
        home = f"{self.environments[0]}."
        sensors, actuators, rewards = (
            [[uid if uid.startswith(home) else home + uid, text] for uid, text in pairs]
            for pairs in (source.sensors, source.actuators, source.rewards)
        )
        return replace(source, sensors=sensors, actuators=actuators, rewards=rewards)

    def picks(self, source: Source) -> tuple[Pick, Pick]:
        """Return the columns of a source for this group's sensors and actuators."""
        mine = self.named(source)
        sensors = Pick(self.sensors, mine.sensors, source.strict)
        return sensors, Pick(self.actuators, mine.actuators, source.strict)

    def misfits(self, source: Source) -> list[str]:
        """Return the differences of a source's columns from this group's sensors and actuators."""
        found, mine = [], self.named(source)
        pairs = zip(("sensor", "actuator"), self.picks(source), (self.sensors, self.actuators), strict=True)
        for (what, pick, declared), recorded in zip(pairs, (mine.sensors, mine.actuators), strict=True):
            texts = dict(recorded)
            for it in declared:
                if it.uid in pick.missing:
                    there = f"found {texts[it.uid]}" if it.uid in texts else "found none"
                    found.append(f"{what} `{it.uid}`: expected {it.space.to_string()}, {there}")
            found += [f"{what} `{uid}`: found {texts[uid]}, which the agent has not" for uid in pick.spare]
        return found


def kin_of(kin: Sequence[Kin], source: Source, environment: str) -> int:
    """Return the group of a recorded session: that of its environment, else the first that fits best."""
    own = next((i for i, one in enumerate(kin) if environment in one.environments), None)
    if own is not None or len(kin) == 1:
        return own or 0
    misses = [sum(len(pick.missing) + len(pick.spare) for pick in one.picks(source)) for one in kin]
    return misses.index(min(misses))


class Pick:
    """Select the recorded columns of declared informations, in the order of the declarations.

    Attributes:
        taken: The declarations with columns.
        missing: Full ids without a column, or with recorded values that do not fit.
        spare: Recorded ids without a declaration.
    """

    def __init__(self, declared: Sequence[Information], recorded: Sequence[Sequence[str]], strict: bool) -> None:
        spaces = {uid: parse_space(text) for uid, text in recorded}
        ends = np.cumsum([0, *(space.size for space in spaces.values())]).tolist()
        places = dict(zip(spaces, pairwise(ends), strict=True))
        self.taken = [it for it in declared if it.uid in spaces and not unlike(it.space, spaces[it.uid], strict)]
        known = {it.uid for it in self.taken}
        self.missing = [it.uid for it in declared if it.uid not in known]
        self.spare = [uid for uid in spaces if uid not in {it.uid for it in declared}]
        columns = [column for it in self.taken for column in range(*places[it.uid])]
        self._columns = None if columns == list(range(ends[-1])) else columns
        dtypes = [it.space.dtype for it in self.taken]
        self._dtype = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)

    def __call__(self, matrix: Array) -> Array:
        """Return the selected columns of a recorded matrix."""
        found = matrix if self._columns is None else matrix[:, self._columns]
        return found.astype(self._dtype, copy=False)


class Sessions(Sequence[Session]):
    """A sequence of recorded episodes that can be iterated any number of times.

    Episodes come entry by entry of `replay`, with the entry's repetitions, in recorded order: phase, worker, episode.
    Only the last read chunk is held. `failure` is the error of reading a chunk, for the bus.

    Args:
        folder: Of the spool.
        sha256: Digest of its index.
        kin: Sensors and actuators, group by group; one entry without several groups of bodies.

    Raises:
        StoreError: The index is missing or damaged.
        DocumentError: A column of a strict entry does not fit.
    """

    def __init__(self, folder: Path, sha256: str, kin: Sequence[Kin]) -> None:
        found = read_index(folder, sha256)
        if found is None:
            raise StoreError(f"recorded episodes: there is no index in {folder}")
        self._folder = folder
        self.failure: GanglionError | None = None
        self.sources = found[1]
        # Of each source: the group of each of its environments, and the selection of each group.
        self._groups = [[kin_of(kin, one, uid) for uid in one.environment.split(",")] for one in self.sources]
        self._named = [[one.named(source) for one in kin] for source in self.sources]
        self._picks = [
            {group: kin[group].picks(source) for group in dict.fromkeys(groups)}
            for source, groups in zip(self.sources, self._groups, strict=True)
        ]
        for source, picks in zip(self.sources, self._picks, strict=True):
            missing = [uid for pair in picks.values() for pick in pair for uid in pick.missing]
            if source.strict and missing:
                raise DocumentError(f"{source.at}: `{missing[0]}` was not recorded in run {source.run}")
        # One row per chunk and repetition: (source, chunk); and with which session each begins.
        self._rows = [
            (number, chunk)
            for number, source in enumerate(self.sources)
            for _ in range(source.repeat)
            for chunk in source.chunks
        ]
        self._starts = [0, *accumulate(chunk.sessions for _, chunk in self._rows)]
        self._held: tuple[Chunk, dict[str, Array], list[Any]] | None = None

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def decisions(self) -> int:
        """Return the number of decisions of all episodes with repetitions."""
        return sum(chunk.decisions for _, chunk in self._rows)

    @property
    def missing(self) -> list[str]:
        """Return the full ids without a column in some entry."""
        pairs = (pair for picks in self._picks for pair in picks.values())
        return list(dict.fromkeys(uid for pair in pairs for pick in pair for uid in pick.missing))

    @property
    def rewards(self) -> dict[int, list[tuple[str, Space]]]:
        """Return the rewards of each group with sessions, from its first session."""
        found: dict[int, list[tuple[str, Space]]] = {}
        for named, groups in zip(self._named, self._groups, strict=True):
            for group in groups:
                found.setdefault(group, [(uid, parse_space(text)) for uid, text in named[group].rewards])
        return found

    @overload
    def __getitem__(self, index: int) -> Session: ...
    @overload
    def __getitem__(self, index: slice) -> list[Session]: ...
    def __getitem__(self, index: int | slice) -> Session | list[Session]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        row = bisect_right(self._starts, place) - 1
        number, chunk = self._rows[row]
        return self._session(number, chunk, place - self._starts[row])

    def __iter__(self) -> Iterator[Session]:
        return (session for _, session in self.with_sources())

    def by_source(self) -> Iterator[tuple[Source, Iterator[Session]]]:
        """Yield each entry with its sessions, once."""
        for number, source in enumerate(self.sources):
            places = ((chunk, place) for chunk in source.chunks for place in range(chunk.sessions))
            yield source, (self._session(number, *place) for place in places)

    def with_sources(self) -> Iterator[tuple[Source, Session]]:
        """Yield each session with its source."""
        for number, chunk in self._rows:
            for place in range(chunk.sessions):
                yield self.sources[number], self._session(number, chunk, place)

    def _session(self, number: int, chunk: Chunk, place: int) -> Session:
        arrays, bounds = self._chunk(chunk)
        key = dict(zip(KEYS, arrays["keys"][place].tolist(), strict=True))
        first, rows = bounds[place]
        group = self._groups[number][max(0, key["place"])]
        source, (sensors, actuators) = self._named[number][group], self._picks[number][group]
        steps: dict[str, Any] = {name: arrays[name][rows : rows + key["steps"]] for name in PER_STEP}
        return Session(
            run=source.run,
            phase=source.phase,
            worker=key["worker"],
            agent=source.agent,
            environment=source.environment if key["place"] < 0 else source.environment.split(",")[key["place"]],
            body=key["body"],
            episode=key["episode"],
            mode=_MODES[key["mode"]],
            sensors=sensors.taken,
            actuators=actuators.taken,
            observations=sensors(arrays["observations"][first : first + key["observations"]]),
            actions=actuators(steps.pop("actions")),
            rewards=rewards_of(steps.pop("rewards"), source),
            reward_ids=[uid for uid, _ in source.rewards],
            reward_spaces=[parse_space(text) for _, text in source.rewards],
            seed=None if key["seed"] < 0 else key["seed"],
            phase_name=source.phase_name,
            group=group,
            **steps,
        )

    def _chunk(self, chunk: Chunk) -> tuple[dict[str, Array], list[Any]]:
        """Return the arrays of a chunk, and the first row of each of its episodes."""
        if self._held is None or self._held[0] != chunk:
            self._held = None  # never two of them
            try:
                arrays = read_chunk(self._folder, chunk)
            except GanglionError as error:
                self.failure = error
                raise
            keys = arrays["keys"]
            counts = keys[:, [KEYS.index("observations"), KEYS.index("steps")]]
            starts = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(counts, axis=0)])
            self._held = (chunk, arrays, starts.tolist())
        return self._held[1], self._held[2]


def rewards_of(rewards: Array, source: Source) -> Array:
    """Return rewards in the dtype of their spaces; with a missing one as floats with NaN."""
    dtypes = [parse_space(text).dtype for _, text in source.rewards]
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
    if dtype.kind != "f" and np.isnan(rewards).any():
        dtype = np.result_type(dtype, np.float16)
    return rewards.astype(dtype, copy=False)
