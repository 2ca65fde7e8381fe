"""Spool: recorded episodes in files of a run, written in chunks, with an index."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import StoreError
from ganglion.limits import REPLAY_CHUNK_BYTES, REPLAY_CHUNK_SESSIONS, REPLAY_INDEX_BYTES
from ganglion.sdk.flow import Mode
from ganglion.sdk.models import digest_of, load_arrays, save_arrays
from ganglion.sdk.session import Session
from ganglion.sdk.spaces import Box, Space
from ganglion.synced import write_synced

__all__ = ["INDEX", "KEYS", "NO_TIME", "PER_STEP", "Chunk", "Episode", "Source", "Spool", "read_chunk", "read_index"]

Array = NDArray[Any]
INDEX = "sessions.json"
_FORMAT = 4
_MODES = tuple(Mode)

KEYS = ("mode", "worker", "body", "episode", "steps", "observations", "seed", "place", "start")
"""The columns of `keys`, one row per episode; `seed` -1 is not known, `start` is the step before its first row.

`place` is that of the body's environment among those of the source, -1 where it was in all of them.
"""
PER_STEP = ("actions", "rewards", "objectives", "terminated", "truncated", "ticks")
NO_TIME = -(2**63)
"""The value of a missing time."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One file: name, digest, numbers of episodes and decisions."""

    file: str
    sha256: str
    sessions: int
    decisions: int


@dataclass(frozen=True, slots=True)
class Source:
    """The episodes of one entry of `replay`: origin, columns, files.

    `sensors`, `actuators` and `rewards` are pairs of full id and space, as text, in recorded order; `at` is the place
    of the entry in its document. `policies` are the texts for the numbers `policy` of steps.
    """

    at: str
    run: str
    agent: str
    environment: str
    phase: int
    phase_name: str
    repeat: int
    strict: bool
    sensors: list[list[str]]
    actuators: list[list[str]]
    rewards: list[list[str]]
    chunks: list[Chunk] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Episode:
    """One recorded episode on its way into a file; arrays as of `Session`, in recorded order of columns.

    Or as an environment plays it: a map of `observations`, one row more than `steps`, and any names of these.
    """

    mode: Mode
    worker: int
    body: int
    episode: int
    seed: int
    observations: Array | Mapping[str, Array]
    steps: Mapping[str, Array]  # PER_STEP
    place: int = -1
    start: int = 0
    policies: Sequence[str] = ()

    @property
    def seen(self) -> Mapping[str, Array]:
        """Return the observations by name."""
        return self.observations if isinstance(self.observations, Mapping) else {"observations": self.observations}

    @property
    def size_bytes(self) -> int:
        """Return the bytes in memory."""
        return sum(array.nbytes for array in (*self.seen.values(), *self.steps.values()))

    @property
    def key(self) -> list[int]:
        """Return its row of KEYS."""
        rows = len(self.steps["terminated"]), len(next(iter(self.seen.values())))
        whose = _MODES.index(self.mode), self.worker, self.body, self.episode
        return [*whose, *rows, self.seed, self.place, self.start]


class Spool:
    """Write the episodes of one agent for one phase; they count after `close`.

    Args:
        folder: Made empty; only its owner may enter it.
        asked: The request of the document, as plain values; the index counts for this request only.

    Attributes:
        sources: The begun sources, with their written chunks.
    """

    def __init__(self, folder: Path, asked: Any) -> None:
        self.folder, self._asked = folder, asked
        self.sources: list[Source] = []
        self._waiting: dict[int, list[Episode]] = {}  # by the number of their source
        self._bytes = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        except OSError as error:
            raise StoreError(f"recorded episodes: {folder} cannot be written: {error}") from error

    def begin(self, source: Source) -> int:
        """Begin the episodes of an entry; return its number."""
        self.sources.append(source)
        return len(self.sources) - 1

    def add(self, episode: Episode, number: int = -1) -> None:
        """Add an episode of an entry, by default of the one begun last."""
        if self._bytes + episode.size_bytes > REPLAY_CHUNK_BYTES:
            self._flush()
        number %= len(self.sources)
        if episode.policies:
            known = self.sources[number].policies
            known += [word for word in episode.policies if word not in known]
            places = np.array([known.index(word) for word in episode.policies] + [-1], np.int64)
            episode = replace(episode, steps={**episode.steps, "policy": places[episode.steps["policy"]]})
        waiting = self._waiting.setdefault(number, [])
        waiting.append(episode)
        self._bytes += episode.size_bytes
        if len(waiting) >= REPLAY_CHUNK_SESSIONS:
            self._write(number)

    def take(self, at: str, sessions: Iterable[Session], repeat: int = 1, strict: bool = True) -> int:
        """Add sessions of any origin as one entry of a document; return their number of decisions.

        Sessions of one agent in one phase of a run with equal columns are one source, in order of appearance; `at` is
        the place of the entry.
        """
        known: list[Any] = []  # the identities of sources, by their numbers after the first
        first, decisions = len(self.sources), 0
        for session in sessions:
            columns = _columns(session)
            whole = "," in session.environment  # it was in several at once
            key = (session.run, session.phase, session.agent, columns, session.environment if whole else None)
            if key not in known:
                known.append(key)
                whose = session.run, session.agent, session.environment, session.phase, session.phase_name
                self.begin(Source(at, *whose, repeat, strict, columns[0], columns[1], columns[2]))
            number = first + known.index(key)
            environments = self.sources[number].environment.split(",")
            if not whole and session.environment not in environments:
                environments.append(session.environment)
                self.sources[number] = replace(self.sources[number], environment=",".join(environments))
            self.add(_episode(session, -1 if whole else environments.index(session.environment)), number)
            decisions += len(session)
        return decisions

    def play(self, at: str, sessions: Iterable[Session]) -> int:
        """Add sessions for an environment to play, an array for each id; return their number."""
        known: list[Any] = []
        first, count = len(self.sources), 0
        for session in sessions:
            if not session.has_final:
                key = f"run {session.run}, worker {session.worker}, episode {session.episode}"
                raise StoreError(f"{at}: {key}: its closing readings are missing")
            columns = _columns(session)
            source = (session.run, session.phase, session.agent, session.environment, columns)
            if source not in known:
                known.append(source)
                whose = session.run, session.agent, session.environment, session.phase, session.phase_name
                self.begin(Source(at, *whose, 1, True, columns[0], columns[1], columns[2]))
            seen = {f"sensor {i}": part.reshape(len(part), -1) for i, part in enumerate(session.readings.values())}
            steps = {f"actuator {i}": part.reshape(len(part), -1) for i, part in enumerate(session.setpoints.values())}
            begin = 0
            for i, space in enumerate(_reward_spaces(session)):
                steps[f"reward {i}"] = session.rewards[:, begin : begin + space.size].astype(space.dtype)
                begin += space.size
            steps |= {"terminated": session.terminated, "truncated": session.truncated}
            seed = -1 if session.seed is None else session.seed
            key_of = session.mode, session.worker, session.body, session.episode, seed
            self.add(Episode(*key_of, seen, steps), first + known.index(source))
            count += 1
        return count

    def close(self) -> str:
        """Write the index after all files are durable; return its digest."""
        self._flush()
        tree = {"format": _FORMAT, "asked": self._asked, "sources": [asdict(source) for source in self.sources]}
        data = json.dumps(tree, separators=(",", ":")).encode()
        if len(data) > REPLAY_INDEX_BYTES:
            raise StoreError(
                f"recorded episodes: {self.folder}: their index would have {len(data)} bytes, at most "
                f"{REPLAY_INDEX_BYTES} are allowed (replay_index_bytes)"
            )
        try:
            write_synced(self.folder / INDEX, data, 0o600)
        except OSError as error:
            raise StoreError(f"recorded episodes: {self.folder / INDEX} cannot be written: {error}") from error
        return hashlib.sha256(data).hexdigest()

    def _flush(self) -> None:
        for number in list(self._waiting):
            self._write(number)

    def _write(self, number: int) -> None:
        """Write the waiting episodes of a source into a file."""
        waiting = self._waiting.pop(number)
        self._bytes -= sum(one.size_bytes for one in waiting)
        name = f"{sum(len(source.chunks) for source in self.sources):05}.npz"
        arrays: dict[str, Array] = {"keys": np.array([one.key for one in waiting], dtype=np.int64)}
        for part in waiting[0].seen:
            arrays[part] = np.concatenate([one.seen[part] for one in waiting])
        for part in waiting[0].steps:
            arrays[part] = np.concatenate([one.steps[part] for one in waiting])
        digest = save_arrays(self.folder / name, arrays)
        self.sources[number].chunks.append(Chunk(name, digest, len(waiting), len(arrays["terminated"])))


_ANY = Box(-np.inf, np.inf, ())


def _reward_spaces(session: Session) -> Sequence[Space]:
    return session.reward_spaces or [_ANY] * len(session.reward_ids)


def _columns(session: Session) -> list[list[list[str]]]:
    """Return the columns of a session: of sensors, actuators, rewards, pairs of full id and space, as text."""
    pairs = [[(it.uid, it.space) for it in declared] for declared in (session.sensors, session.actuators)]
    pairs.append(list(zip(session.reward_ids, _reward_spaces(session), strict=True)))
    return [[[uid, space.to_string()] for uid, space in kind] for kind in pairs]


def _episode(session: Session, place: int) -> Episode:
    """Return a session in the form for files."""
    seed = -1 if session.seed is None else session.seed
    key = session.mode, session.worker, session.body, session.episode, seed
    return Episode(*key, session.observations, {name: getattr(session, name) for name in PER_STEP}, place)


# -- reading --------------------------------------------------------------------------------------------------------
def read_index(folder: Path, sha256: str | None = None) -> tuple[Any, list[Source], str] | None:
    """Return request, sources and digest of an index; None without one.

    Raises:
        StoreError: The index is damaged, or has another digest.
    """
    path = folder / INDEX
    try:
        if path.stat().st_size > REPLAY_INDEX_BYTES:
            raise StoreError(f"recorded episodes: {path} is longer than {REPLAY_INDEX_BYTES} bytes")
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"recorded episodes: {path} cannot be read: {error}") from error
    digest = hashlib.sha256(data).hexdigest()
    if sha256 is not None and digest != sha256:
        raise StoreError(f"recorded episodes: {path} is damaged: expected SHA-256 {sha256}, found {digest}")
    try:
        tree = json.loads(data)
        if tree["format"] != _FORMAT:
            raise ValueError(f"expected format {_FORMAT}, found {tree['format']!r:.20}")
        return tree["asked"], [_source(row) for row in tree["sources"]], digest
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"recorded episodes: {path} is damaged: {type(error).__name__}: {error}") from error


def _source(tree: dict[str, Any]) -> Source:
    return Source(**{**tree, "chunks": [Chunk(**chunk) for chunk in tree["chunks"]]})


def read_chunk(folder: Path, chunk: Chunk) -> dict[str, Array]:
    """Return the arrays of a file after comparing its digest; StoreError names the file and its fault."""
    path = folder / chunk.file
    try:
        digest = digest_of(path)
        if digest != chunk.sha256:
            text = f"recorded episodes: {path} is damaged: expected SHA-256 {chunk.sha256}, found {digest}"
            raise StoreError(text)
        return load_arrays(path)
    except FileNotFoundError as error:
        raise StoreError(f"recorded episodes: {path} is gone") from error
    except OSError as error:
        raise StoreError(f"recorded episodes: {path} cannot be read: {error}") from error
