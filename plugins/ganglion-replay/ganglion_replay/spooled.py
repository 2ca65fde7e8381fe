"""Spooled: recorded episodes as a brain sees them, read from files when somebody looks, one chunk at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
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

__all__ = ["Pick", "Sessions", "rewards_of", "unlike"]

Array = NDArray[Any]
_MODES = tuple(Mode)


def unlike(space: Space, recorded: Space, strict: bool) -> bool:
    """Say whether recorded values cannot be taken for those of a space; if not strict, bounds of boxes may differ."""
    if space == recorded:
        return False
    alike = isinstance(space, Box) and isinstance(recorded, Box)
    return strict or not alike or (space.size, space.dtype) != (recorded.size, recorded.dtype)


class Pick:
    """Know which recorded columns are those of declared informations; the order is that of the declarations.

    Attributes:
        taken: The declarations of which there are columns.
        missing: Full ids without a column, or whose recorded values cannot be taken for theirs.
        spare: Recorded ids that nobody declares.
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
        """Return the columns of a recorded matrix that are declared."""
        found = matrix if self._columns is None else matrix[:, self._columns]
        return found.astype(self._dtype, copy=False)


class Sessions(Sequence[Session]):
    """Be a sequence of recorded episodes that can be run through any number of times.

    Episodes come entry by entry of `replay`, each as often as it says, in recorded order: phase, worker, episode. Only
    the chunk that was looked at last is held. `failure` is what went wrong when a chunk was to be read, for the bus.

    Args:
        folder: Of the spool.
        sha256: Digest of its index.
        sensors: What the brain sees.
        actuators: What its muscles set.

    Raises:
        StoreError: The index is gone or damaged.
        DocumentError: Something does not fit, and its entry is strict.
    """

    def __init__(
        self, folder: Path, sha256: str, sensors: Sequence[Information], actuators: Sequence[Information]
    ) -> None:
        found = read_index(folder, sha256)
        if found is None:
            raise StoreError(f"recorded episodes: there is no index in {folder}")
        self._folder = folder
        self.failure: GanglionError | None = None
        self.sources = found[1]
        self._picks = [
            (Pick(sensors, source.sensors, source.strict), Pick(actuators, source.actuators, source.strict))
            for source in self.sources
        ]
        for source, picks in zip(self.sources, self._picks, strict=True):
            missing = [uid for pick in picks for uid in pick.missing]
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
        """Return how many decisions all episodes have together, repetitions counted."""
        return sum(chunk.decisions for _, chunk in self._rows)

    @property
    def missing(self) -> list[str]:
        """Return the full ids that some entry has no columns of."""
        return list(dict.fromkeys(uid for picks in self._picks for pick in picks for uid in pick.missing))

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
        """Yield each session with where it comes from."""
        for number, chunk in self._rows:
            for place in range(chunk.sessions):
                yield self.sources[number], self._session(number, chunk, place)

    def _session(self, number: int, chunk: Chunk, place: int) -> Session:
        arrays, bounds = self._chunk(chunk)
        key = dict(zip(KEYS, arrays["keys"][place].tolist(), strict=True))
        first, rows = bounds[place]
        source, (sensors, actuators) = self.sources[number], self._picks[number]
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
            **steps,
        )

    def _chunk(self, chunk: Chunk) -> tuple[dict[str, Array], list[Any]]:
        """Return the arrays of a chunk, and where the rows of each of its episodes begin."""
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
    """Return rewards in the dtype of their spaces; one that is missing is NaN, which no integer can be."""
    dtypes = [parse_space(text).dtype for _, text in source.rewards]
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
    if dtype.kind != "f" and np.isnan(rewards).any():
        dtype = np.result_type(dtype, np.float16)
    return rewards.astype(dtype, copy=False)
