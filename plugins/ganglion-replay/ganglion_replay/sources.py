"""Sources: recorded sessions of a run in a store, in files, or in a table; found first, then read."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ganglion.errors import DocumentError, GanglionError
from ganglion.peer.models import located, shown, store_class, stored_runs
from ganglion.run import model
from ganglion.run.model import Wish
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import Information
from ganglion.sdk.session import Session
from ganglion.sdk.spaces import parse_space
from ganglion_replay import wish as replay
from ganglion_replay.spool import Episode, Source
from ganglion_replay.spooled import rewards_of
from ganglion_replay.transcript import Transcript, quoted

__all__ = ["Finder", "Place", "ReadElsewhere", "Recorded", "session_of"]

_STORE = "ganglion.db"  # in a folder of results
NO_STORE = "recorded episodes are read from a store, and this run has none (--store none)"

ReadElsewhere = Callable[["Finder", str, Mapping[str, Any]], "Recorded"]
"""What finds sessions that are in no store: `(finder, place in the document, source) -> Recorded`.

It raises DocumentError, which begins with that place, where there are none or where what is there is damaged.
"""
ELSEWHERE = {"path": "ganglion_replay.files:find", "table": "ganglion_replay.tables:find"}
"""The key of a source that is no run, and the `ReadElsewhere` behind it, which is loaded when one is asked for."""


_NARROW = frozenset({"agent", "environment", "worker"})
_OF_RUN = frozenset({"run", "experiment_run", "instance", "base", "store", "phase", "mode"})
KEYS = _NARROW | _OF_RUN | {"path", "format", "table"}


def given_of(at: str, source: Any) -> dict[str, Any]:
    """Return the given keys of the `source` of an environment or a table.

    Raises:
        DocumentError: The source is no map of known keys.
    """
    if not isinstance(source, Mapping) or not source:
        raise DocumentError(f"{at}: expected a map that names a run, a path or a table, found {source!r:.60}")
    strange = [key for key in source if key not in KEYS]
    if strange:
        raise DocumentError(f"{at}: expected keys of {', '.join(sorted(KEYS))}, found `{strange[0]}`")
    found = {key: value for key, value in source.items() if value is not None}
    for key, value in found.items():
        kinds: dict[str, tuple[Any, str]] = {
            "worker": (int, "a number of a worker"),
            "phase": ((int, str), "text or a number"),
        }
        kind, words = kinds.get(key, (str, "text"))
        if not isinstance(value, kind) or isinstance(value, bool) or (key == "worker" and value < 0):
            raise DocumentError(f"{at}.{key}: expected {words}, found {value!r:.60}")
    if found.get("mode", "test") not in tuple(Mode):
        raise DocumentError(f"{at}.mode: expected one of {', '.join(Mode)}, found {found['mode']!r:.60}")
    return found


def _refuse_mixed(at: str, source: Mapping[str, Any]) -> None:
    """Refuse a source with two places, or with a key of files beside a run."""
    given = {key for key, value in source.items() if value is not None}
    kind = next((key for key in ELSEWHERE if key in given), None)
    strange = sorted(given & (_OF_RUN | set(ELSEWHERE) - {kind})) if kind else sorted(given & {"format"})
    if "format" in given and kind == "table":
        strange = ["format"]
    if strange:
        beside = f"`{kind}`" if kind else "a run"
        raise DocumentError(
            f"{at}.{strange[0]}: expected a run, a `path` or a `table`, found `{strange[0]}` beside {beside}"
        )


@dataclass(frozen=True, slots=True)
class Recorded:
    """The sessions of a source.

    Args:
        told: The wanted sessions, in words.
        where: The place of the sessions, in words.
        sessions: Yields the sessions in recorded order at each call; nothing is read before.
        flaws: Filled by reading with a sentence for each incomplete session.
        grouped: The environments, each with columns of its own, if bodies were of several groups.
        environments: Those of the sessions; `x,y` are both at once.
    """

    told: str
    where: str
    sessions: Callable[[], Iterator[Session]] = field(repr=False)
    flaws: list[str] = field(default_factory=list)
    grouped: Sequence[str] = ()
    environments: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A phase of a run in a store: the store, the run's id, index, name and mode."""

    uri: str
    run: str
    index: int
    name: str
    mode: str

    @property
    def of(self) -> tuple[str, tuple[int, str]]:
        """Return run and phase as a Transcript takes them."""
        return self.run, (self.index, self.name)


@dataclass(frozen=True, slots=True)
class Finder:
    """Find the sessions of a document's sources.

    Args:
        uid: Of the document.
        run: Id of this run; empty before its begin.
        folder: To which paths of the document are relative.
        store: URI of the store of this run, None if it has none.
        before: The asking phase: only earlier ones of this run count; None: this run has none yet.
        tables: Uid -> the tables of that phase with recorded sessions (`ganglion_replay.tables.Filled`).
    """

    uid: str
    run: str
    folder: Path
    store: str | None
    before: int | None = None
    tables: Mapping[str, Any] = field(default_factory=dict)

    def find(self, at: str, source: Mapping[str, Any], agent: str) -> Recorded:
        """Return the sessions of an agent that a source names; missing keys have the defaults of `load`.

        Files and tables give the sessions of all agents, unless the source has `agent`.

        Raises:
            DocumentError: There are no such sessions; with `at`, the place of the source, and the searched places.
        """
        _refuse_mixed(at, source)
        key = next((key for key in ELSEWHERE if source.get(key) is not None), None)
        if key is not None:
            module, _, name = ELSEWHERE[key].partition(":")
            find: ReadElsewhere = getattr(importlib.import_module(module), name)
            return find(self, at, source)
        wish = self._wish(source, agent)
        place, flaws = self.phase(at, source, wish), list[str]()
        told = replay.told(source, wish), f"run {place.run}, phase `{place.name}`"
        only = source.get("environment")
        with store_class(place.uri).reader(place.uri) as reader:
            given = Transcript(reader, reader, *place.of, wish.agent, only)
        if only is not None and given.environments != [only]:
            text = f"{at}.environment: in run {place.run}, phase `{place.name}` agent `{wish.agent}` was in"
            raise DocumentError(f"{text} {', '.join(given.environments)}, not in `{only}` alone")
        grouped = given.environments if given.grouped and only is None else ()
        homes = given.environments if given.bodies else [",".join(given.environments)]
        return Recorded(*told, lambda: self._sessions(place, wish.agent, source, flaws), flaws, grouped, homes)

    def is_elsewhere(self, source: Mapping[str, Any]) -> bool:
        """Return whether a source exists before this run: it names no phase of this run, nor a table that does."""
        if source.get("table") is not None:
            table = self.tables.get(str(source["table"]))
            others = {uid: one for uid, one in self.tables.items() if one is not table}
            return table is None or replace(self, tables=others).is_elsewhere(table.source)
        return "path" in source or "store" in source or not self._wish(source, "").here

    def place(self, at: str, source: Mapping[str, Any], uid: str) -> tuple[Place, str]:
        """Return the phase of a run and the environment in it that an environment plays.

        Unless the source names the environment, it is the one with this uid, or the only one.
        """
        _refuse_mixed(at, source)
        wish, asked = self._wish(source, ""), source.get("environment")
        where = "environment is not null" if asked is None else f"environment = {quoted(asked)}"
        place = self.phase(at, source, wish, where)
        with store_class(place.uri).reader(place.uri) as reader:
            rows = reader.rows("declarations", [place.run], where=f"phase = {place.index}", columns=["environment"])
            known = [name for name in dict.fromkeys(row["environment"] for row in rows) if name is not None]
        chosen = asked or (uid if uid in known else known[0])
        if asked is None and uid not in known and len(known) > 1:
            text = f"{at}: expected one of {', '.join(known)} as `environment`, since run {place.run} has several"
            raise DocumentError(text)
        return place, str(chosen)

    def _wish(self, source: Mapping[str, Any], agent: str) -> Wish:
        """Return the wish of a source; a `store` is the only `base`, and `run` is an id or a uid."""
        asked = dict(source)
        if asked.get("store") is not None:
            asked["base"] = asked["store"]
        if asked.get("run") is not None:
            asked["experiment_run"] = asked["run"]
        wish = replay.wish_of(asked, agent, self.uid, self.run)
        return replace(wish, here=wish.here or asked.get("run") == self.run)

    def phase(self, at: str, source: Mapping[str, Any], wish: Wish, having: str | None = None) -> Place:
        """Return the wanted phase of a run in a store; `having` is a condition on its declarations."""
        vain: list[tuple[str, str]] = []
        for place, uri, here in self._places(wish, source.get("store") is not None):
            try:
                found = self._look(uri, wish, self.before if here else None, having, source.get("run"))
            except GanglionError as error:  # a place without the sessions
                found = str(error)
            if isinstance(found, Place):
                return found
            vain.append((place, found))
        if not vain:
            raise DocumentError(f"{at}: {NO_STORE}")
        raise DocumentError(replay.missing(at, source, wish, vain))

    @staticmethod
    def _sessions(place: Place, agent: str, source: Mapping[str, Any], flaws: list[str]) -> Iterator[Session]:
        """Yield sessions by worker and number; with several groups of bodies, environment by environment."""
        kind = store_class(place.uri)
        homes: list[str | None] = [source.get("environment")]
        while homes:
            with kind.reader(place.uri) as reader, kind.reader(place.uri) as aside:
                home = homes.pop(0)
                given = Transcript(reader, aside, *place.of, agent, home)
                if home is None and given.grouped:  # each environment has columns of its own
                    homes += given.environments
                    continue
                columns = [given.columns[what] for what in ("sensor", "actuator", "reward")]
                named = ",".join(given.environments), place.index, place.name
                whose = Source("", place.run, agent, *named, 1, True, columns[0], columns[1], columns[2])
                for episode in given.episodes(source.get("mode") or place.mode, source.get("worker"), flaws):
                    yield session_of(episode, whose)

    # -- searching ---------------------------------------------------------------------------------------------------
    def _places(self, wish: Wish, alone: bool) -> Iterator[tuple[str, str, bool]]:
        """Yield the places to search, in order: name, URI, and whether only this run counts there.

        A `store` is the only place, a `base` the first.
        """
        if wish.base is not None:
            uri = self._uri(wish.base)
            yield f"{'store' if alone else 'base'} {shown(uri)}", uri, False
        if self.store is not None and not alone:
            if wish.here:
                yield "this run", self.store, True
            if wish.elsewhere:
                yield f"the store {shown(self.store)}", self.store, False

    def _uri(self, base: str) -> str:
        """Return the URI of a store, or of that in a folder of results; paths are relative to the document's folder."""
        if "://" in base:
            return located(base, self.folder)
        return f"sqlite:///{(self.folder / base).absolute() / _STORE}"

    def _look(self, uri: str, wish: Wish, before: int | None, having: str | None, run: str | None) -> Place | str:
        """Return the wanted run and phase of a store, or why there is none; `before`: an earlier phase of this run."""
        with store_class(uri).reader(uri) as reader:
            runs = stored_runs(reader)
            if run is not None and any(one.run == run for one in runs):
                wish = replace(wish, run=run, uid=None)
            if before is None:
                chosen = model.pick_run(wish, runs, self.run)
            else:
                mine = [run for run in runs if run.run == self.run]
                chosen = mine[-1] if mine else "it has no rows in the store yet"
            if isinstance(chosen, str):
                return chosen
            phases: dict[int, tuple[str, str]] = {}
            for row in reader.rows("phases", [chosen.run], columns=["phase", "name", "mode"]):
                if before is None or row["phase"] < before:
                    # Evaluations are a second row.
                    phases.setdefault(row["phase"], (row["name"], row["mode"]))
            where = having or f"agent = {quoted(wish.agent)}"
            rows = reader.rows("declarations", [chosen.run], where=where, columns=["phase"])
            known = [index for index in dict.fromkeys(row["phase"] for row in rows) if index in phases]
        names = {index: name for index, (name, _) in phases.items()}
        found = replay.pick_phase(wish, names, known, chosen.run)
        return found if isinstance(found, str) else Place(uri, chosen.run, found, *phases[found])


def session_of(episode: Episode, source: Source) -> Session:
    """Return a recorded episode as a session, with all recorded columns."""
    sensors, actuators = (
        [Information(None, parse_space(text), uid) for uid, text in columns]
        for columns in (source.sensors, source.actuators)
    )
    environments: Sequence[str] = source.environment.split(",")
    steps: dict[str, Any] = dict(episode.steps)
    return Session(
        run=source.run,
        phase=source.phase,
        worker=episode.worker,
        agent=source.agent,
        environment=source.environment if episode.place < 0 else environments[episode.place],
        body=episode.body,
        episode=episode.episode,
        mode=episode.mode,
        sensors=sensors,
        actuators=actuators,
        observations=episode.seen["observations"],
        rewards=rewards_of(steps.pop("rewards"), source),
        reward_ids=[uid for uid, _ in source.rewards],
        reward_spaces=[parse_space(text) for _, text in source.rewards],
        seed=None if episode.seed < 0 else episode.seed,
        phase_name=source.phase_name,
        **steps,
    )
