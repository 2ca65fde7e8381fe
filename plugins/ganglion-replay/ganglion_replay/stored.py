"""Stored: the sessions of a run, read from its store one after another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from ganglion.errors import StoreError, UsageError
from ganglion.peer.models import shown, store_class
from ganglion.sdk.session import Session
from ganglion.sdk.store import StoreReader
from ganglion_replay.sources import session_of
from ganglion_replay.spool import Source
from ganglion_replay.transcript import Transcript, quoted

__all__ = ["SessionSource", "StoredSessions", "sessions"]

_STORE = "ganglion.db"  # in a folder of results


class _Part(NamedTuple):
    """The sessions of one agent in one phase, and in one environment if it has bodies."""

    phase: int
    phase_name: str
    mode: str
    agent: str
    environment: str | None


class SessionSource(Iterable[Session]):
    """Sessions that can be iterated any number of times, read again each time.

    Attributes:
        documents: The SHA-256 of the document of each run, if known.
    """

    documents: Mapping[str, str]


def sessions(
    store: str | PathLike[str],
    run: str,
    *,
    phase: int | str | None = None,
    agent: str | None = None,
    environment: str | None = None,
    body: int | None = None,
    worker: int | None = None,
    mode: str | None = None,
) -> StoredSessions:
    """Return the recorded sessions of a run, one for each episode of each body, read one after another.

    They come phase by phase, agent by agent, environment by environment, in the order of the document; then by worker,
    episode and body. An agent without bodies has one session per episode, of all its environments.

    Args:
        store: The URI of a store, the file of one, or a folder of results.
        run: A run's id, a document's uid (its newest run), a beginning of either, or `last`.
        phase: Index or name of a phase; None is all.
        agent: Name of an agent; None is all.
        environment: Uid of an environment; None is all.
        body: Number of a body; None is all.
        worker: Number of a worker; None is all.
        mode: `train`, `test` or `evaluate`; None is that of the phase, without the evaluations within it.

    Raises:
        UsageError: There is no such run, phase, agent, environment or body.
        StoreError: The store cannot be read, or the run was recorded without first readings; while iterating: rows are
            damaged or incomplete.
    """
    return StoredSessions(_uri(store), run, phase, agent, environment, body, worker, mode)


def _uri(store: str | PathLike[str]) -> str:
    text = fspath(store)
    if "://" in text:
        return text
    path = Path(text).absolute()
    return f"sqlite:///{path / _STORE if path.is_dir() else path}"


class StoredSessions(SessionSource):
    """Read the sessions of a run; see `sessions`. `run` is its id."""

    def __init__(
        self,
        uri: str,
        run: str,
        phase: int | str | None,
        agent: str | None,
        environment: str | None,
        body: int | None,
        worker: int | None,
        mode: str | None,
    ) -> None:
        self._uri, self._body, self._worker = uri, body, worker
        self._begun: Mapping[tuple[int, str, int, str, str], int] = {}
        self._kind = store_class(uri)
        with self._kind.reader(uri) as reader:
            self.run = reader.resolve(run)
            self._first_readings(reader)
            self._parts = list(self._chosen(reader, phase, agent, environment, mode))
            if body is not None:
                self._check_body(reader, body)
            document = _document(reader, self.run)
        self.documents = {} if document is None else {self.run: document}

    def _first_readings(self, reader: StoreReader) -> None:
        has = "resets" in reader.tables() and reader.count("resets", [self.run])
        if not has and reader.count("episodes", [self.run]):
            text = "its first readings are missing: it was recorded before stores kept them (revision 5)"
            raise StoreError(f"{shown(self._uri)}: run {self.run}: {text}; record it again to replay or export it")

    def _chosen(
        self, reader: StoreReader, phase: int | str | None, agent: str | None, environment: str | None, mode: str | None
    ) -> Iterator[_Part]:
        named: dict[int, tuple[str, str]] = {}  # an evaluation within a phase is a second row
        for row in reader.rows("phases", [self.run], columns=["phase", "name", "mode"]):
            named.setdefault(row["phase"], (row["name"], row["mode"]))
        chosen = [index for index in named if phase is None or phase in (index, named[index][0])]
        if phase is not None and not chosen:
            raise self._nowhere("phase", phase, [name for name, _ in named.values()])
        rows = list(reader.rows("declarations", [self.run], columns=["phase", "agent"]))
        pairs = dict.fromkeys((row["phase"], row["agent"]) for row in rows if row["agent"] is not None)
        agents = list(dict.fromkeys(name for index, name in pairs if index in chosen))
        if agent is not None and agent not in agents:
            raise self._nowhere("agent", agent, agents)
        known: dict[str, None] = {}
        found: list[_Part] = []
        for index, name in pairs:
            if index not in chosen or agent not in (None, name):
                continue
            title, own = named[index]
            homes = _homes(reader, self.run, index, name)
            for home in homes or (None,):
                given = Transcript(reader, reader, self.run, (index, title), name, home)
                uid = ",".join(given.environments)
                known.setdefault(uid)
                if environment in (None, uid):
                    found.append(_Part(index, title, mode or own, name, home))
        if environment is not None and not found:
            raise self._nowhere("environment", environment, list(known))
        return iter(found)

    def _check_body(self, reader: StoreReader, body: int) -> None:
        known: set[int] = set()
        for part in self._parts:
            where = f"phase = {part.phase} and agent = {quoted(part.agent)}"
            where += "" if part.environment is None else f" and environment = {quoted(part.environment)}"
            rows = reader.rows("bodies", [self.run], where=where, columns=["body"]) if part.environment else ()
            known |= {row["body"] for row in rows} if part.environment else {0}
        if body not in known:
            raise self._nowhere("body", body, sorted(known))

    def _nowhere(self, what: str, asked: Any, known: Iterable[Any]) -> UsageError:
        there = ", ".join(str(one) for one in known) or "none"
        return UsageError(f"{shown(self._uri)}: run {self.run} has no {what} `{asked}`; there are: {there}")

    def since(self, begun: Mapping[tuple[int, str, int, str, str], int]) -> Iterator[Session]:
        """Return the sessions from some episodes on: (phase, mode, worker, agent, environment) -> number.

        They come worker by worker; those of a missing key come from the first on.
        """
        self._begun = begun
        return iter(self)

    def __iter__(self) -> Iterator[Session]:
        for part in self._parts:
            with self._kind.reader(self._uri) as reader, self._kind.reader(self._uri) as aside:
                yield from self._of(part, reader, aside)

    def _of(self, part: _Part, reader: StoreReader, aside: StoreReader) -> Iterator[Session]:
        given = Transcript(reader, aside, self.run, (part.phase, part.phase_name), part.agent, part.environment)
        environment = ",".join(given.environments)
        sensors, actuators, rewards = (
            [[given.full(uid, part.environment), text] for uid, text in given.columns[kind]]
            for kind in ("sensor", "actuator", "reward")
        )
        whose = Source(
            "", self.run, part.agent, environment, part.phase, part.phase_name, 1, True, sensors, actuators, rewards
        )
        flaws: list[str] = []
        begun = {
            worker: number
            for (phase, mode, worker, agent, home), number in self._begun.items()
            if (phase, mode, agent, home) == (part.phase, part.mode, part.agent, environment)
        }
        for one in given.episodes(part.mode, self._worker, flaws, begun):
            missing = next((flaw for flaw in flaws if flaw.endswith("decisions are missing")), None)
            if missing is not None:
                raise StoreError(f"{shown(self._uri)}: {missing}")
            flaws.clear()
            if self._body in (None, one.body):
                yield session_of(one, whose)
        if flaws and flaws[-1].endswith("decisions are missing"):
            raise StoreError(f"{shown(self._uri)}: {flaws[-1]}")


def _homes(reader: StoreReader, run: str, phase: int, agent: str) -> list[str]:
    """Return the environments in which an agent has bodies, in order; empty without bodies."""
    if "bodies" not in reader.tables():
        return []
    where = f"phase = {phase} and agent = {quoted(agent)}"
    rows = reader.rows("bodies", [run], where=where, columns=["environment"])
    return list(dict.fromkeys(row["environment"] for row in rows))


def _document(reader: StoreReader, run: str) -> str | None:
    """Return the digest of a run's document, None if the store lacks it."""
    try:
        _, rows = reader.query(f"SELECT document FROM stored_runs WHERE run = {quoted(run)}")  # noqa: S608 - quoted
        text = next(rows, (None,))[0]
    except (StoreError, UsageError):  # a store of another kind
        return None
    return hashlib.sha256(text.encode()).hexdigest() if text else None
