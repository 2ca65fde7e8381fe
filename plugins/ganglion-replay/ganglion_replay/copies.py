"""Copies: the episodes that environments play, copied from their sources to the run before a phase begins."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ganglion import registry
from ganglion.errors import DocumentError, GanglionError
from ganglion.run.agents import misfits, replaying, resolve
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, TablePlan, cap_of
from ganglion.sdk.naming import file_name
from ganglion.sdk.session import Session
from ganglion.sdk.spaces import parse_space
from ganglion_replay.environment import Body, Recording, ReplayEnvironment
from ganglion_replay.record import Record
from ganglion_replay.sources import ELSEWHERE, NO_STORE, Finder, Place, Recorded, given_of
from ganglion_replay.spool import NO_TIME, Episode, Source, Spool, read_chunk, read_index
from ganglion_replay.tables import SOURCE, Filled, equal_columns, filled_of

__all__ = ["PLUGIN", "Copies", "faults", "source_of"]

PLUGIN = "replay"
# Read of a source before anything is started, within seconds; the copy before the phase reads all of it.
_LOOKED_AT, _LOOKED_AT_BYTES = 100_000, 64 * 1024**2  # decisions


def source_of(environment: EnvironmentPlan) -> tuple[str, Mapping[str, Any]] | None:
    """Return the place and the source of an environment that plays one; None for any other environment.

    Raises:
        DocumentError: The source is no map of known keys, a word is unknown, or rewards are neither read nor
            recomputed.
    """
    plugin = environment.plugin
    if plugin is None or plugin.name.rpartition(":")[2] != PLUGIN:
        return None
    at, given = f"{plugin.at.removesuffix('.name')}.params.source", environment.params.get("source")
    found = given_of(at, given)
    for worker in range(max(1, len(environment.per_worker))):
        try:
            ReplayEnvironment(**environment.params_of(worker))
        except ValueError as error:
            raise DocumentError(f"{at.removesuffix('.source')}.{error}") from error
    recompute = environment.params.get("reward") == "recompute"
    if recompute is not (environment.reward is not None):
        words = "no reward plugin in the document" if recompute else "a reward plugin, and not `reward: recompute`"
        raise DocumentError(f"{at.removesuffix('.source')}: rewards are read or recomputed: found {words}")
    return at, found


class Copies:
    """Make the copies of one phase.

    Args:
        finder: Of the phase.
        folder: For the copies.
        phase: Of the document.

    Attributes:
        handed: Owner, folder and user of each copy.
        begun: Uid of each table with recorded sessions -> its source, and the columns of its sessions.
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
        """Return a table with a copy of its recorded sessions."""
        if asked is None or table.plugin is None:
            return table
        phase, at = self._phase, asked.at
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
        """Return an environment with its copy and a budget, and the number of episodes."""
        phase, folder = self._phase, self._folder / f"{self._phase.index}-played" / file_name(environment.uid)
        kept = _kept(folder, source)
        digest = self._copy(folder, environment, at, source) if kept is None else kept[1]
        user = (environment.recovery or phase).run_as
        self.handed.append((f"environment `{environment.uid}`", folder, user))
        recording = Recording(folder, digest)
        compare(phase, environment, at, recording.episodes)
        count = count_of(phase, environment, at, recording.episodes)
        copy: dict[str, Any] = {"folder": str(folder), "sha256": digest, "workers": phase.workers}
        copy |= {"max_steps": self._cap(environment), "budget_steps": environment.budget_steps}
        params = {**environment.params, "source": copy}
        found = replace(
            environment, params=params, per_worker=[{**own, "source": copy} for own in environment.per_worker]
        )
        if phase.bodies is not None and environment.budget_steps is None and environment.budget_episodes is None:
            found = replace(found, budget_episodes=count)
        return found, count

    def _copy(self, folder: Path, environment: EnvironmentPlan, at: str, source: Mapping[str, Any]) -> str:
        elsewhere = any(source.get(key) is not None for key in ELSEWHERE)
        about: dict[str, Any] = {"source": dict(source)}
        flaws: list[str] = []
        if elsewhere:
            found = self._finder.find(at, source, source.get("agent") or "")
            spool = Spool(folder, about)
            _refuse_pace(at, environment, None)
            kept = spool.play(at, _played(found, at, source, environment.uid))
            flaws, where = found.flaws, found.told
        else:
            place, uid = self._finder.place(at, source, environment.uid)
            record, where = Record(place, uid, source), f"environment `{uid}` {_told(place)}"
            record.check_agent(at)
            about["static_model"] = record.static_model
            spool, kept = Spool(folder, about), 0
            numbers = {
                agent: spool.begin(record.source(at, agent))
                for agent in dict.fromkeys(agent for agent, _ in record.bodies or [("", 0)])
            }
            for agent, episode in _recorded(record, at, environment, flaws):
                spool.add(episode, numbers[agent])
                kept += 1
        _refuse_flaws(at, flaws)
        if not kept:
            raise DocumentError(f"{at}: {where}: there are no recorded episodes")
        return spool.close()

    def _cap(self, environment: EnvironmentPlan) -> int | None:
        """Return the number of steps after which the document ends an episode of an environment; None: it does not."""
        if environment.max_steps is not None:
            return environment.max_steps
        caps = []
        for plan in self._phase.episode_conditions:
            condition = registry.load("condition", plan.name)(**plan.params)
            caps.append(cap_of(condition))
        return min((cap for cap in caps if cap is not None), default=None)


class Span(NamedTuple):
    """The place of a body's stream in its recorded episode: the step before it, its number of steps, its worker."""

    start: int
    steps: int
    worker: int


Episodes = Sequence[Mapping[Body, Any]]
"""Recorded episodes, each with `start`, `steps` and `worker` of every body."""


def compare(phase: PhasePlan, environment: EnvironmentPlan, at: str, episodes: Episodes) -> None:
    """Refuse bodies of the document that were not recorded, and recordings that cannot be played unchanged."""
    static = {body for one in episodes for body, stream in one.items() if stream.start == 0}
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
    if environment.episode_end == "each" and any(s.start for one in episodes for s in one.values()):
        raise DocumentError(f"{at}: bodies that come and go are not played with `episode_end: each`")
    coming: Counter[str] = Counter()
    for one in episodes:
        there: Counter[str] = Counter()
        spans = [(s.start, s.start + s.steps, agent) for (agent, _), s in one.items() if s.start]
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


def count_of(phase: PhasePlan, environment: EnvironmentPlan, at: str, episodes: Episodes) -> int | None:
    """Return the number of episodes that each worker plays to play every episode once; None with a budget."""
    if phase.episodes is not None or environment.budget_steps or environment.budget_episodes:
        return None
    workers = phase.workers
    counts = list(Counter(next(iter(one.values())).worker for one in episodes).values())
    if len(counts) != workers:
        counts = [len(episodes[worker::workers]) for worker in range(workers)]
    if environment.episode_end == "each" and workers == 1:
        counts = list(Counter(body for one in episodes for body in one).values())
    if len({*counts}) > 1:
        text = f"{at}: {len(episodes)} recorded episodes cannot be shared out evenly: {counts}"
        raise DocumentError(f"{text}; give a budget of episodes")
    return counts[0]


def _kept(folder: Path, source: Mapping[str, Any]) -> tuple[list[Source], str] | None:
    """Return a predecessor's copy of a source with its digest, None without one; the copy is read as a whole."""
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
    """Yield place and text of the faults of a plan's sources, except sources of this run, which do not exist yet."""
    anywhere = Finder(plan.uid, "", Path(plan.folder or "."), store)
    for phase in plan.phases:
        try:
            finder = replace(anywhere, tables=filled_of(phase))
        except GanglionError as error:
            yield _placed(error, "")
            continue
        looks: list[tuple[str, Callable[[], Any]]] = []
        declared: dict[str, Mapping[str, Any]] = {}
        for table in finder.tables.values():
            looks.append((table.at, partial(_source, finder, table.at, table.source, table.agents[0], True)))
        for environment in phase.environments:
            at = environment.plugin.at if environment.plugin is not None else ""
            looks.append((at, partial(_look, finder, phase, environment, declared)))
        for agent in replaying(phase):
            looks += [
                (at, partial(_taught, finder, plan, agent, at, entry))
                for at, entry in zip(agent.replay_at, agent.replay, strict=True)
            ]
        wrong = False
        for at, look in looks:
            try:
                look()
            except GanglionError as error:
                wrong = True
                yield _placed(error, at)
        if not wrong and declared.keys() == {environment.uid for environment in phase.environments}:
            yield from _unfit(plan, phase, declared)


def _unfit(plan: Plan, phase: PhasePlan, declared: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield faults of agents whose environments all play recordings: ids and spaces that were not recorded so."""
    wrong = misfits(phase, declared)
    yield from wrong
    for agent in [] if wrong else resolve(phase, declared):
        if agent.groups is None:
            continue
        why = f"agent {agent.plan.name}: its bodies are of several groups of ids or spaces ({', '.join(agent.groups)})"
        yield from ((at, f"{why}, and {text}") for at, text in _blind(plan, agent.plan))
        for table in phase.pools:
            if table.plugin is not None and agent.plan.name in (*table.feed, *table.serve):
                yield table.plugin.at, f"{why}, and table {table.uid} takes one"


def _blind(plan: Plan, agent: AgentPlan) -> Iterator[tuple[str, str]]:
    """Yield place and text of an agent's brain and array muscle that take bodies of one group only."""
    for kind, plugin in (("brain", agent.brain), ("muscle", agent.muscle)):
        if plugin is not None:
            cls = registry.load(kind, plugin.name, plan.folder or "", plan.allow)
            if not cls.takes_groups and (kind == "brain" or cls.batched):
                yield plugin.at, f"{kind} {plugin.name} takes one: takes_groups is False"


def _placed(error: GanglionError, at: str) -> tuple[str, str]:
    """Return place and text of an error; empty place if the error has none."""
    text = str(error)
    found = _PLACE.match(text)
    return (found[1], text[found.end() :]) if found is not None else (at, text)


_PLACE = re.compile(r"(\S+:\d+:\d+: [^:\s]+): ")


def _look(finder: Finder, phase: PhasePlan, environment: EnvironmentPlan, declared: dict[str, Any]) -> None:
    """Read the first episodes of an environment's source, and keep the declarations; raises as `Copies`."""
    asked = source_of(environment)
    if asked is None:
        return
    (at, source), uid, flaws = asked, environment.uid, list[str]()
    if not finder.is_elsewhere(source):
        _refuse_without_store(finder, at)
        return
    spans: Iterator[tuple[Any, Body, Span, int]]
    if any(source.get(key) is not None for key in ELSEWHERE):
        found = finder.find(at, source, source.get("agent") or "")
        told, flaws = found.told, found.flaws
        _refuse_pace(at, environment, None)
        spans = (
            ((s.phase, s.run, s.worker, s.episode), (s.agent, s.body), Span(0, len(s), s.worker), s.observations.nbytes)
            for s in _played(found, at, source, uid)
        )
    else:
        place, uid = finder.place(at, source, environment.uid)
        record, told = Record(place, uid, source), f"`{uid}` {_told(place)}"
        record.check_agent(at)
        spans = (
            (
                (one.worker, one.episode),
                (agent, one.body),
                Span(one.start, len(one.steps["terminated"]), one.worker),
                one.size_bytes,
            )
            for agent, one in _recorded(record, at, environment, flaws)
        )
        declared[environment.uid] = {
            f"{kind}s": [{"id": name, "space": parse_space(text).to_wire()} for name, text in pairs]
            for kind, pairs in record.columns.items()
        }
    seen: dict[Any, dict[Body, Span]] = {}
    steps = size_bytes = 0
    cut = False
    for key, body, span, size in spans:
        seen.setdefault(key, {})[body] = span
        steps, size_bytes = steps + span.steps, size_bytes + size
        cut = steps >= _LOOKED_AT or size_bytes >= _LOOKED_AT_BYTES
        if cut:
            break
    _refuse_flaws(at, flaws)
    if not seen:
        raise DocumentError(f"{at}: {told}: there are no recorded episodes")
    if not cut:
        compare(phase, environment, at, [*seen.values()])
        count_of(phase, environment, at, [seen[key] for key in sorted(seen)])
    elif len(seen) > 1:  # the last episode may be incomplete
        compare(phase, environment, at, [*seen.values()][:-1])


def _taught(finder: Finder, plan: Plan, agent: AgentPlan, at: str, entry: Mapping[str, Any]) -> None:
    """Read the first episodes of a brain's sources; raises as `Recordings.prepare`."""
    strict = bool(entry.get("strict", True))
    grouped = _source(finder, at, entry, agent.name, strict)
    for _, text in _blind(plan, agent) if grouped and strict else ():
        why = f"its bodies were of several groups of ids or spaces ({', '.join(grouped)})"
        raise DocumentError(f"{at}: {why}, and {text}; `environment` takes those of one")


def _source(finder: Finder, at: str, source: Mapping[str, Any], agent: str, strict: bool) -> Sequence[str]:
    """Check that the first sessions of a source exist and are whole; return its `grouped`."""
    if not finder.is_elsewhere(source):
        _refuse_without_store(finder, at)
        return ()
    found = finder.find(at, source, agent)
    count = _seen((len(one), one.observations.nbytes) for one in found.sessions())
    if strict:
        _refuse_flaws(at, found.flaws)
        if not count:
            raise DocumentError(f"{at}: {found.told}: there are none")
    return found.grouped


def _refuse_without_store(finder: Finder, at: str) -> None:
    """Refuse sources of an earlier phase of this run, if the run has no store."""
    if finder.store is None:
        raise DocumentError(f"{at}: {NO_STORE}")


def _seen(sizes: Iterable[tuple[int, int]]) -> int:
    """Read episodes, of so many decisions and bytes each, up to the bounds of a check; return their number."""
    count = decisions = size_bytes = 0
    for steps, size in sizes:
        count, decisions, size_bytes = count + 1, decisions + steps, size_bytes + size
        if decisions >= _LOOKED_AT or size_bytes >= _LOOKED_AT_BYTES:
            break
    return count


def _wanted(session: Session, source: Mapping[str, Any]) -> bool:
    """Return whether a source selects a session of a file."""
    narrow = {key: source[key] for key in ("agent", "environment", "worker") if key in source}
    return all(getattr(session, key) == value for key, value in narrow.items())


def _played(found: Recorded, at: str, source: Mapping[str, Any], uid: str) -> Iterator[Session]:
    """Return the sessions of the source's `environment`, else of this uid, or of the only environment.

    Raises:
        DocumentError: There are several environments, or each session is of several at once.
    """
    known = found.environments
    chosen = source.get("environment") or (uid if uid in known or len(known) != 1 else known[0])
    if chosen not in known:
        raise DocumentError(f"{at}: expected one of {', '.join(known)} as `environment`, found `{chosen}`")
    if "," in chosen:
        raise DocumentError(f"{at}: expected sessions of one environment, found those of {chosen} at once")
    return (one for one in found.sessions() if _wanted(one, {**source, "environment": chosen}))


def _recorded(record: Record, at: str, environment: EnvironmentPlan, flaws: list[str]) -> Iterator[tuple[str, Episode]]:
    """Yield the episodes of a record that the environment can play."""
    for agent, episode in record.episodes(flaws):
        _refuse_pace(at, environment, episode)
        yield agent, episode


def _refuse_pace(at: str, environment: EnvironmentPlan, episode: Episode | None) -> None:
    """Refuse `pace: recorded` without timestamps: for sessions of files and tables, or for this episode."""
    if environment.params.get("pace") != "recorded":
        return
    if environment.episode_end == "each":
        why = "bodies with episodes of their own, which have no time in common"
    elif episode is None:
        why = "sessions of files or of a table, which have none"
    elif (episode.seen["stamp"] == NO_TIME).any():
        why = f"none in worker {episode.worker}, episode {episode.episode}"
    else:
        return
    raise DocumentError(f"{at.removesuffix('.source')}.pace: expected timestamps, found {why}; `clock` counts ticks")


def _told(place: Place) -> str:
    return f"in run {place.run}, phase `{place.name}`"
