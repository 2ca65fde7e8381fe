"""Copies: what environments play, copied from their sources beside the run before anything of a phase begins."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from ganglion import registry
from ganglion.errors import DocumentError, GanglionError
from ganglion.run.agents import replaying
from ganglion.run.plan import EnvironmentPlan, PhasePlan, Plan, TablePlan, cap_of
from ganglion.sdk.models import file_name
from ganglion.sdk.session import Session
from ganglion_replay.environment import Recording
from ganglion_replay.record import Record
from ganglion_replay.sources import ELSEWHERE, Finder, Place, Recorded
from ganglion_replay.spool import Source, Spool, read_chunk, read_index
from ganglion_replay.tables import SOURCE, Filled, equal_columns, filled_of

__all__ = ["PLUGIN", "Copies", "faults", "source_of"]

PLUGIN = "replay"
_LOOKED_AT = 100  # sessions of a source before anything is started; all are when copies are made, before the phase
KEYS = frozenset(
    {"run", "experiment_run", "instance", "base", "store", "phase", "agent", "environment", "mode", "worker"}
    | {"path", "format", "table"}
)


def source_of(environment: EnvironmentPlan) -> tuple[str, Mapping[str, Any]] | None:
    """Return the place and the source of an environment that plays one, None for any other.

    Raises:
        DocumentError: It is no map of the keys that there are.
    """
    plugin = environment.plugin
    if plugin is None or plugin.name.rpartition(":")[2] != PLUGIN:
        return None
    at, given = f"{plugin.at.removesuffix('.name')}.params.source", environment.params.get("source")
    if not isinstance(given, Mapping) or not given:
        raise DocumentError(f"{at}: expected a map that names a run, a path or a table, found {given!r:.60}")
    strange = [key for key in given if key not in KEYS]
    if strange:
        raise DocumentError(f"{at}: expected keys of {', '.join(sorted(KEYS))}, found `{strange[0]}`")
    return at, {key: value for key, value in given.items() if value is not None}


class Copies:
    """Make the copies of one phase.

    Args:
        finder: Of the phase.
        folder: In which they are kept.
        phase: As the document has it.

    Attributes:
        handed: Whose each copy is, where it lies, and the user of that process.
        begun: Uid of each table that begins with what was recorded -> what it is, and the columns of its sessions.
    """

    def __init__(self, finder: Finder, folder: Path, phase: PhasePlan) -> None:
        self._finder, self._folder, self._phase = finder, folder, phase
        self.handed: list[tuple[str, Path, str | None]] = []
        self.begun: dict[str, tuple[Filled, Source]] = {}

    def filled(self) -> PhasePlan:
        """Return the phase with its copies; see `Recordings.prepare`."""
        phase = self._phase
        environments, episodes = [], phase.episodes
        for environment in phase.environments:
            found = source_of(environment)
            if found is None:
                environments.append(environment)
                continue
            made, count = self._environment(environment, *found)
            environments.append(made)
            episodes = count if episodes is None and phase.bodies is None else episodes
        tables = [self._table(table, self._finder.tables.get(table.uid)) for table in phase.tables]
        if environments == phase.environments and tables == phase.tables:
            return phase
        return replace(phase, environments=environments, episodes=episodes, tables=tables)

    def _table(self, table: TablePlan, asked: Filled | None) -> TablePlan:
        """Return a table with a copy of what it begins with."""
        if asked is None or table.plugin is None:
            return table
        phase, at = self._phase, asked.at
        filtered = next((one.name for one in phase.agents if one.name in asked.agents and one.filters), None)
        if filtered is not None:
            text = (
                f"agent `{filtered}` has filters, and what they would have made of the recorded sessions is not known"
            )
            raise DocumentError(f"{at}: {text}: a table with a `source` needs agents without")
        folder = self._folder / f"{phase.index}-tables" / file_name(table.uid)
        kept = _kept(folder, asked.source)
        if kept is None:
            found = self._finder.find(at, asked.source, asked.source.get("agent") or asked.agents[0])
            spool = Spool(folder, {"source": dict(asked.source)})
            count = spool.take(at, (one for one in found.sessions() if _wanted(one, asked.source)))
            _refuse_flaws(at, found.flaws)
            if not count:
                raise DocumentError(f"{at}: {found.told}: there are no recorded episodes in {found.where}")
            kept = spool.sources, spool.close()
        sources, digest = kept
        equal_columns(at, sources)
        self.begun[table.uid] = asked, sources[0]
        self.handed.append((f"table `{table.uid}`", folder, phase.run_as))
        params = {**table.plugin.params, SOURCE: {"folder": str(folder), "sha256": digest}}
        return replace(table, plugin=replace(table.plugin, params=params))

    def _environment(self, environment: EnvironmentPlan, at: str, source: Mapping[str, Any]) -> tuple[Any, int | None]:
        """Return an environment with its copy and a budget, and how many episodes that is."""
        phase, folder = self._phase, self._folder / f"{self._phase.index}-played" / file_name(environment.uid)
        recompute = environment.params.get("reward") == "recompute"
        if recompute is not (environment.reward is not None):
            words = "no reward plugin in the document" if recompute else "a reward plugin, and not `reward: recompute`"
            raise DocumentError(f"{at.removesuffix('.source')}: rewards are read or recomputed: found {words}")
        kept = _kept(folder, source)
        digest = self._copy(folder, environment.uid, at, source) if kept is None else kept[1]
        user = (environment.recovery or phase).run_as
        self.handed.append((f"environment `{environment.uid}`", folder, user))
        recording = Recording(folder, digest)
        self._compare(environment, at, recording)
        count = self._count(environment, at, recording)
        copy: dict[str, Any] = {"folder": str(folder), "sha256": digest, "workers": phase.workers}
        copy |= {"max_steps": self._cap(environment), "budget_steps": environment.budget_steps}
        params = {**environment.params, "source": copy}
        found = replace(
            environment, params=params, per_worker=[{**own, "source": copy} for own in environment.per_worker]
        )
        if phase.bodies is not None and environment.budget_steps is None and environment.budget_episodes is None:
            found = replace(found, budget_episodes=count)
        return found, count

    def _copy(self, folder: Path, uid: str, at: str, source: Mapping[str, Any]) -> str:
        elsewhere = any(source.get(key) is not None for key in ELSEWHERE)
        about: dict[str, Any] = {"source": dict(source)}
        flaws: list[str] = []
        if elsewhere:
            found = self._finder.find(at, source, source.get("agent") or "")
            spool = Spool(folder, about)
            kept = spool.play(at, (one for one in found.sessions() if _wanted(one, source)))
            flaws, where = found.flaws, found.told
        else:
            place, environment = self._finder.place(at, source, uid)
            record, where = Record(place, environment, source), f"environment `{environment}` {_told(place)}"
            about |= {"static_model": record.static_model, "zoned": True}
            spool, kept = Spool(folder, about), 0
            numbers = {
                agent: spool.begin(record.source(at, agent))
                for agent in dict.fromkeys(agent for agent, _ in record.bodies or [("", 0)])
            }
            for agent, episode in record.episodes(flaws):
                spool.add(episode, numbers[agent])
                kept += 1
        _refuse_flaws(at, flaws)
        if not kept:
            raise DocumentError(f"{at}: {where}: there are no recorded episodes")
        return spool.close()

    def _compare(self, environment: EnvironmentPlan, at: str, recording: Recording) -> None:
        """Refuse bodies of the document that were not recorded, and what cannot be played as it was."""
        phase = self._phase
        static = {body for one in recording.episodes for body, stream in one.items() if stream.start == 0}
        known = ", ".join(f"{agent}/{b}" if agent else "one without a body" for agent, b in sorted(static))
        if phase.bodies is None:
            if len(static) > 1:
                raise DocumentError(f"{at}: a phase without `bodies` plays one recorded body, found {known}")
            return
        wanted = [(body.agent, body.b) for body in phase.bodies if body.environment == environment.uid]
        if environment.params.get("map") == "any":
            if len(static) < len(wanted):
                raise DocumentError(f"{at}: expected {len(wanted)} recorded bodies, found {known}")
        else:
            missing = [body for body in wanted if body not in static]
            if missing:
                text = f"{at}: body {missing[0][0]}/{environment.uid}/{missing[0][1]} was not recorded: found {known}"
                raise DocumentError(f"{text}; `map: any` deals them out")
        if environment.episode_end == "each" and any(s.start for one in recording.episodes for s in one.values()):
            raise DocumentError(f"{at}: bodies that come and go are not played with `episode_end: each`")
        coming: Counter[str] = Counter()
        for one in recording.episodes:
            there: Counter[str] = Counter()
            spans = [(s.start, s.start + s.steps, s.body[0]) for s in one.values() if s.start]
            for begin, _, agent in spans:
                most = sum(1 for first, last, other in spans if other == agent and first <= begin < last)
                there[agent] = max(there[agent], most)
            coming |= there
        agents = {agent.name for agent in phase.agents}
        room = {body.agent: body.most for body in phase.dynamic if body.environment == environment.uid}
        for agent, most in coming.items():
            if agent in agents and room.get(agent, 0) < most:
                text = f"{at}: up to {most} bodies of agent `{agent}` come and go in the record at a time"
                raise DocumentError(f"{text}: expected `bodies.dynamic` with `max: {most}`, found {room.get(agent, 0)}")

    def _count(self, environment: EnvironmentPlan, at: str, recording: Recording) -> int | None:
        """Return how many episodes each worker plays to play every one once; None where a budget says otherwise."""
        phase = self._phase
        if phase.episodes is not None or environment.budget_steps or environment.budget_episodes:
            return None
        workers = phase.workers
        recorded = Counter(next(iter(one.values())).worker for one in recording.episodes)
        counts = list(recorded.values())
        if len(counts) != workers:
            counts = [len(recording.episodes[worker::workers]) for worker in range(workers)]
        if environment.episode_end == "each" and workers == 1:
            counts = list(Counter(body for one in recording.episodes for body in one).values())
        if len({*counts}) > 1:
            text = f"{at}: {len(recording.episodes)} recorded episodes cannot be shared out evenly: {counts}"
            raise DocumentError(f"{text}; give a budget of episodes")
        return counts[0]

    def _cap(self, environment: EnvironmentPlan) -> int | None:
        """Return after how many steps the document ends an episode of an environment, None: it does not."""
        if environment.max_steps is not None:
            return environment.max_steps
        caps = []
        for plan in self._phase.episode_conditions:
            condition = registry.load("condition", plan.name)(**plan.params)
            caps.append(cap_of(condition))
        return min((cap for cap in caps if cap is not None), default=None)


def _kept(folder: Path, source: Mapping[str, Any]) -> tuple[list[Source], str] | None:
    """Return what a predecessor has copied of a source, with its digest, None if there is nothing; it is read whole."""
    kept = read_index(folder)
    if kept is None or not isinstance(kept[0], dict) or kept[0].get("source") != dict(source):
        return None
    for part in kept[1]:
        for chunk in part.chunks:
            read_chunk(folder, chunk)
    return kept[1], kept[2]


def _refuse_flaws(at: str, flaws: Sequence[str]) -> None:
    if flaws:
        more = f" and {len(flaws) - 1} more" if len(flaws) > 1 else ""
        raise DocumentError(f"{at}: expected whole episodes: {flaws[0]}{more}")


def faults(plan: Plan, store: str | None) -> Iterator[tuple[str, str]]:
    """Yield place and text of what the sources of a plan lack; sources of this run are not there yet."""
    anywhere = Finder(plan.uid, "", Path(plan.folder or "."), store)
    for phase in plan.phases:
        try:
            finder = replace(anywhere, tables=filled_of(phase))
        except GanglionError as error:
            yield _placed(error, "")
            continue
        for table in finder.tables.values():
            try:
                if finder.is_elsewhere(table.source):
                    _whole(table.at, finder.find(table.at, table.source, table.agents[0]), True)
            except GanglionError as error:
                yield _placed(error, table.at)
        for environment in phase.environments:
            try:
                found = source_of(environment)
                if found is not None and finder.is_elsewhere(found[1]):
                    _look(finder, phase, environment, *found)
            except GanglionError as error:
                yield _placed(error, environment.plugin.at if environment.plugin is not None else "")
        for agent in replaying(phase):
            for at, entry in zip(agent.replay_at, agent.replay, strict=True):
                try:
                    if finder.is_elsewhere(entry):
                        _whole(at, finder.find(at, entry, agent.name), bool(entry.get("strict", True)))
                except GanglionError as error:
                    yield _placed(error, at)


def _placed(error: GanglionError, at: str) -> tuple[str, str]:
    """Return place and text of an error that begins with its place, or with none."""
    text = str(error)
    found = _PLACE.match(text)
    return (found[1], text[found.end() :]) if found is not None else (at, text)


_PLACE = re.compile(r"(\S+:\d+:\d+: [^:\s]+): ")


def _look(finder: Finder, phase: PhasePlan, environment: EnvironmentPlan, at: str, source: Mapping[str, Any]) -> None:
    """Look at the first episodes of what an environment is to play; raises as `Copies`."""
    if any(source.get(key) is not None for key in ELSEWHERE):
        _whole(at, finder.find(at, source, source.get("agent") or ""), True)
        return
    place, uid = finder.place(at, source, environment.uid)
    record, flaws = Record(place, uid, source), list[str]()
    known = {body.agent for body in phase.bodies or () if body.environment == environment.uid}
    missing = sorted(known - {agent for agent, _ in record.bodies})
    if missing and environment.params.get("map") != "any":
        text = f"{at}: agent `{missing[0]}` has a body in `{environment.uid}`, and had none in the record"
        raise DocumentError(f"{text}; `map: any` deals the recorded ones out")
    count = sum(1 for _ in islice(record.episodes(flaws), _LOOKED_AT))
    if flaws or not count:
        text = f"expected whole episodes: {flaws[0]}" if flaws else f"there are none of `{uid}` {_told(place)}"
        raise DocumentError(f"{at}: {text}")


def _whole(at: str, found: Recorded, strict: bool) -> None:
    """Look at the first sessions of a source, whether they are there and whole."""
    count = sum(1 for _ in islice(found.sessions(), _LOOKED_AT))
    if strict and (found.flaws or not count):
        text = f"expected whole episodes: {found.flaws[0]}" if found.flaws else f"{found.told}: there are none"
        raise DocumentError(f"{at}: {text}")


def _wanted(session: Session, source: Mapping[str, Any]) -> bool:
    """Say whether a session from a file is one that its source asks for."""
    narrow = {key: source[key] for key in ("agent", "environment", "worker") if key in source}
    return all(getattr(session, key) == value for key, value in narrow.items())


def _told(place: Place) -> str:
    return f"in run {place.run}, phase `{place.name}`"
