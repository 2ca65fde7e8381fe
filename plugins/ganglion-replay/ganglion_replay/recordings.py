"""Recordings: finds the episodes that brains are to learn from, keeps them beside the run, sees whether they fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ganglion.errors import DocumentError, GanglionError, StoreError
from ganglion.peer.models import hand_over, located, shown, store_class, stored_runs
from ganglion.peer.replay import Recordings as Base
from ganglion.run import model
from ganglion.run.agents import ResolvedAgent, replaying
from ganglion.run.model import Wish
from ganglion.run.plan import AgentPlan, PhasePlan, Plan
from ganglion.sdk.information import Information
from ganglion.sdk.models import file_name
from ganglion.sdk.spaces import space_from_wire
from ganglion.wire.messages import BrainPretrain
from ganglion_replay import wish as replay
from ganglion_replay.sessions import Pick
from ganglion_replay.spool import Source, Spool, read_chunk, read_index
from ganglion_replay.transcript import Transcript, quoted

__all__ = ["Recordings"]

_FOLDER = "replay"
_STORE = "ganglion.db"  # in a folder of results
_SHOWN = 5  # episodes that are not whole, and columns, in one sentence
_Found = tuple[str, int, str, str]  # run, index, name and mode of its phase


class Recordings(Base):
    """Serve the `replay` of the agents of one run.

    Args:
        plan: The run.
        run: Its id.
        results: Its folder.
        store: URI of its store, None if it has none.
        warn: Tells a sentence to who looks on.
    """

    def __init__(self, plan: Plan, run: str, results: str, store: str | None, warn: Callable[[str], None]) -> None:
        self._plan, self._run, self._store, self._warn = plan, run, store, warn
        self._results = Path(results)
        self._document = Path(plan.folder or ".")
        self._ready: dict[str, tuple[Path, str, list[Source]]] = {}  # agent -> spool, digest, what is in it

    def prepare(self, phase: PhasePlan) -> None:
        """Find all episodes that the brains of a phase learn from, before anybody is started for it.

        What a predecessor or an earlier try of the phase has kept is taken as it is.

        Raises:
            DocumentError: What `replay` asks for is nowhere, or not whole; with the places that were looked at.
            StoreError: It cannot be read or written, or what was kept is damaged.
        """
        self._ready = {agent.name: self._spooled(phase, agent) for agent in replaying(phase)}

    def request(self, agent: str) -> BrainPretrain | None:
        """Return what tells the brain of an agent to learn; None where there is nothing."""
        found = self._ready.get(agent)
        return None if found is None else BrainPretrain(str(found[0]), found[1])

    def fit(self, agents: Sequence[ResolvedAgent]) -> None:
        """Compare what was recorded with what agents see and set, before the first step.

        Raises:
            DocumentError: With all that differs in strict entries; of the others it is a warning.
        """
        faults = [fault for agent in agents for fault in self._misfits(agent)]
        if faults:
            raise DocumentError("\n".join(faults), faults)

    # -- keeping ------------------------------------------------------------------------------------------------------
    def _spooled(self, phase: PhasePlan, agent: AgentPlan) -> tuple[Path, str, list[Source]]:
        folder = self._results / _FOLDER / str(phase.index) / file_name(agent.name)
        kept = read_index(folder)
        if kept is not None and kept[0] == agent.replay:
            for source in kept[1]:
                for chunk in source.chunks:
                    read_chunk(folder, chunk)
            return folder, kept[2], kept[1]
        spool = Spool(folder, agent.replay)
        for at, entry in zip(agent.replay_at, agent.replay, strict=True):
            self._spool(spool, phase, agent, at, entry)
        digest = spool.close()
        self._give(phase, agent, folder)
        return folder, digest, spool.sources

    def _give(self, phase: PhasePlan, agent: AgentPlan, folder: Path) -> None:
        """Let a brain that runs under another name read its episodes."""
        user = (agent.recovery or phase).run_as
        if user is None:
            return
        try:
            place = folder.relative_to(self._results / _FOLDER)
            hand_over(self._results / _FOLDER, str(place), user)
            for path in folder.iterdir():
                path.chmod(0o644)  # in a folder that nobody else enters
        except OSError as error:
            raise StoreError(f"recorded episodes of agent `{agent.name}`: {folder}: {error}") from error

    def _spool(self, spool: Spool, phase: PhasePlan, agent: AgentPlan, at: str, entry: Mapping[str, Any]) -> None:
        wish = replay.wish_of(entry, agent.name, self._plan.uid, self._run)
        vain: list[tuple[str, str]] = []
        for place, uri, here in self._places(wish):
            try:
                found = self._look(uri, wish, phase.index if here else None)
            except GanglionError as error:  # one more place without them
                found = str(error)
            if not isinstance(found, str):
                return self._copy(spool, uri, found, wish, at, entry, (phase, agent))
            vain.append((place, found))
        raise DocumentError(replay.missing(at, entry, wish, vain))

    def _copy(
        self,
        spool: Spool,
        uri: str,
        found: _Found,
        wish: Wish,
        at: str,
        entry: Mapping[str, Any],
        whose: tuple[PhasePlan, AgentPlan],
    ) -> None:
        run, index, name, mode = found
        strict = bool(entry.get("strict", True))
        flaws: list[str] = []
        kind = store_class(uri)
        with kind.reader(uri) as reader, kind.reader(uri) as aside:
            only = entry.get("environment")
            given = Transcript(reader, aside, run, (index, name), wish.agent, only)
            where = f"run {run}, phase `{name}`"
            if only is not None and given.environments != [only]:
                text = f"{at}.environment: in {where} agent `{wish.agent}` was in"
                raise DocumentError(f"{text} {', '.join(given.environments)}, not in `{only}` alone")
            columns = _named(given, *whose)
            source = Source(
                at,
                run,
                wish.agent,
                ",".join(given.environments),
                index,
                name,
                int(entry.get("repeat", 1)),
                strict,
                columns["sensor"],
                columns["actuator"],
                columns["reward"],
            )
            spool.begin(source)
            count = 0
            for episode in given.episodes(entry.get("mode", mode), entry.get("worker"), flaws):
                spool.add(episode)
                count += 1
                if strict and flaws:
                    break
        if strict and flaws:
            raise DocumentError(f"{at}: expected whole episodes: {flaws[0]}; `strict: false` takes what is there")
        if not count:
            text = f"{at}: {replay.told(entry, wish)}: there are none in {where}"
            if strict:
                raise DocumentError(text)
            self._warn(text)
        if flaws:
            more = "" if len(flaws) <= _SHOWN else f" and {len(flaws) - _SHOWN} more"
            self._warn(f"{at}: not whole: {'; '.join(flaws[:_SHOWN])}{more}")

    # -- looking ------------------------------------------------------------------------------------------------------
    def _places(self, wish: Wish) -> Iterator[tuple[str, str, bool]]:
        """Yield the places to look at, in order: name, URI, and whether only this run is meant there."""
        if wish.base is not None:
            uri = self._uri(wish.base)
            yield f"base {shown(uri)}", uri, False
        if self._store is not None:
            if wish.here:
                yield "this run", self._store, True
            if wish.elsewhere:
                yield f"the store {shown(self._store)}", self._store, False

    def _uri(self, base: str) -> str:
        """Return the URI of a store: of the one in a folder of results; paths begin where the document lies."""
        if "://" in base:
            return located(base, self._document)
        return f"sqlite:///{(self._document / base).absolute() / _STORE}"

    def _look(self, uri: str, wish: Wish, before: int | None) -> _Found | str:
        """Return which run and phase of a store is meant, or why none; `before`: an earlier phase of this run."""
        with store_class(uri).reader(uri) as reader:
            runs = stored_runs(reader)
            if before is None:
                chosen = model.pick_run(wish, runs, self._run)
            else:
                mine = [run for run in runs if run.run == self._run]
                chosen = mine[-1] if mine else "it has no rows in the store yet"
            if isinstance(chosen, str):
                return chosen
            phases: dict[int, tuple[str, str]] = {}
            for row in reader.rows("phases", [chosen.run], columns=["phase", "name", "mode"]):
                if before is None or row["phase"] < before:
                    # Evaluations are a second row.
                    phases.setdefault(row["phase"], (row["name"], row["mode"]))
            agents = reader.rows("declarations", [chosen.run], where=f"agent = {quoted(wish.agent)}", columns=["phase"])
            having = [index for index in dict.fromkeys(row["phase"] for row in agents) if index in phases]
        names = {index: name for index, (name, _) in phases.items()}
        found = replay.pick_phase(wish, names, having, chosen.run)
        return found if isinstance(found, str) else (chosen.run, found, *phases[found])

    # -- fitting ------------------------------------------------------------------------------------------------------
    def _misfits(self, agent: ResolvedAgent) -> Iterator[str]:
        """Yield what of the recorded columns does not fit in strict entries; warn of the others."""
        if agent.groups is not None and agent.plan.replay:
            yield f"{agent.plan.replay_at[0]}: replay of an agent whose bodies are of several groups is not built yet"
            return
        for source in self._ready.get(agent.plan.name, (None, None, []))[2]:
            found = []
            for what, declarations, recorded in (
                ("sensor", agent.sensors, source.sensors),
                ("actuator", agent.actuators, source.actuators),
            ):
                declared = [Information(None, space_from_wire(d["space"]), d["id"]) for d in declarations]
                pick = Pick(declared, recorded, source.strict)
                texts: dict[str, str] = {row[0]: row[1] for row in recorded}
                for it in declared:
                    if it.uid in pick.missing:
                        there = f"found {texts[it.uid]}" if it.uid in texts else "found none"
                        found.append(f"{what} `{it.uid}`: expected {it.space.to_string()}, {there}")
                found += [f"{what} `{uid}`: found {texts[uid]}, which the agent has not" for uid in pick.spare]
            where = f"run {source.run}, phase `{source.phase_name}`, agent `{source.agent}`"
            if found and not source.strict:
                more = "" if len(found) <= _SHOWN else f" and {len(found) - _SHOWN} more"
                self._warn(f"{source.at}: {where}: {'; '.join(found[:_SHOWN])}{more}; the rest is taken")
            elif source.strict:
                yield from (f"{source.at}: {where}: {text}" for text in found)


def _named(given: Transcript, phase: PhasePlan, agent: AgentPlan) -> dict[str, list[list[str]]]:
    """Return recorded columns under the ids that an agent has for them in a phase.

    Where an agent has bodies in several environments its ids are local; in one environment they are full. All else
    stays, so that what was recorded in one environment is not taken for that of another.
    """
    embodied = list(dict.fromkeys(body.environment for body in phase.bodies or () if body.agent == agent.name))
    homes = embodied or [environment.uid for environment in phase.environments]

    def name(uid: str) -> str:
        if given.bodies and given.is_local(uid):
            return f"{homes[0]}.{uid}" if len(homes) == 1 else uid
        return given.local(uid) if len(embodied) > 1 and len(given.environments) == 1 else uid

    return {kind: [[name(uid), space] for uid, space in pairs] for kind, pairs in given.columns.items()}
