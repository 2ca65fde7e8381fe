"""Recordings: finds the episodes for brains, keeps copies with the run, checks whether they fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ganglion.errors import DocumentError, StoreError
from ganglion.peer.agent.replay import Recordings as Base
from ganglion.peer.models import hand_over
from ganglion.run.agents import ResolvedAgent, replaying
from ganglion.run.plan import AgentPlan, PhasePlan, Plan
from ganglion.sdk.information import Information
from ganglion.sdk.naming import file_name
from ganglion.sdk.session import Session
from ganglion.sdk.spaces import space_from_wire
from ganglion.wire.messages import BrainPretrain
from ganglion_replay.copies import Copies
from ganglion_replay.sources import Finder
from ganglion_replay.spool import Source, Spool, read_chunk, read_index
from ganglion_replay.spooled import Kin, kin_of
from ganglion_replay.tables import Filled, filled_of, misfits

__all__ = ["Recordings"]

_FOLDER = "replay"
_SHOWN = 5  # incomplete episodes, or columns, in one sentence


class Recordings(Base):
    """Serve the `replay` of the agents of one run.

    Args:
        plan: The run.
        run: Its id.
        results: Its folder.
        store: URI of its store, None if it has none.
        warn: Publishes a warning.
    """

    def __init__(self, plan: Plan, run: str, results: str, store: str | None, warn: Callable[[str], None]) -> None:
        self._plan, self._run, self._store, self._warn = plan, run, store, warn
        self._results = Path(results)
        self._document = Path(plan.folder or ".")
        self._ready: dict[str, tuple[Path, str, list[Source]]] = {}  # agent -> spool, digest, content
        self._begun: dict[str, tuple[Filled, Source]] = {}  # table -> its recorded sessions

    def prepare(self, phase: PhasePlan) -> PhasePlan:
        """Find all episodes that the brains of a phase learn from, or its environments play, before any process starts.

        Copies of a predecessor, or of an earlier attempt of the phase, are used again. Returns the phase with copies in
        place of the sources of environments, and with a budget of every recorded episode once if it has none.

        Raises:
            DocumentError: Episodes of `replay` are missing or incomplete; it names the searched places.
            StoreError: A store or file cannot be read or written, or a copy is damaged.
        """
        self._ready = {agent.name: self._spooled(phase, agent) for agent in replaying(phase)}
        copies = Copies(self._finder(phase), self._results / _FOLDER, phase)
        found = copies.filled()
        self._begun = copies.begun
        for name, folder, user in copies.handed:
            self._give(name, folder, user)
        return found

    def _finder(self, phase: PhasePlan) -> Finder:
        return Finder(self._plan.uid, self._run, self._document, self._store, phase.index, filled_of(phase))

    def request(self, agent: str) -> BrainPretrain | None:
        """Return the request to the brain of an agent to learn; None without episodes."""
        found = self._ready.get(agent)
        return None if found is None else BrainPretrain(str(found[0]), found[1])

    def fit(self, agents: Sequence[ResolvedAgent]) -> None:
        """Compare the recorded columns with the agents' sensors and actuators, before the first step.

        Raises:
            DocumentError: A strict entry differs, with all differences; in other entries differences are warnings.
        """
        faults = [fault for agent in agents for fault in self._misfits(agent)]
        for uid, (table, source) in self._begun.items():
            for agent in (one for one in agents if one.plan.name in table.agents):
                seen = {"sensors": _declared(agent.sensors), "actuators": _declared(agent.actuators)}
                faults += misfits(uid, source, table.at, agent.plan.name, seen)
        if faults:
            raise DocumentError("\n".join(faults), faults)

    # -- keeping -----------------------------------------------------------------------------------------------------
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
        self._give(f"agent `{agent.name}`", folder, (agent.recovery or phase).run_as)
        return folder, digest, spool.sources

    def _give(self, whose: str, folder: Path, user: str | None) -> None:
        """Let a brain or an environment that runs as another user read its episodes."""
        if user is None:
            return
        try:
            place = folder.relative_to(self._results / _FOLDER)
            hand_over(self._results / _FOLDER, str(place), user)
            for path in folder.iterdir():
                path.chmod(0o644)  # in a folder that no other user can enter
        except OSError as error:
            raise StoreError(f"recorded episodes of {whose}: {folder}: {error}") from error

    def _spool(self, spool: Spool, phase: PhasePlan, agent: AgentPlan, at: str, entry: Mapping[str, Any]) -> None:
        found, strict = self._finder(phase).find(at, entry, agent.name), bool(entry.get("strict", True))
        count = 0

        def whole() -> Iterator[Session]:
            nonlocal count
            for session in found.sessions():
                if strict and found.flaws:
                    break
                count += 1
                yield _named(session, phase, agent)

        spool.take(at, whole(), int(entry.get("repeat", 1)), strict)
        if strict and found.flaws:
            raise DocumentError(f"{at}: expected whole episodes: {found.flaws[0]}; `strict: false` takes what is there")
        if not count:
            text = f"{at}: {found.told}: there are none in {found.where}"
            if strict:
                raise DocumentError(text)
            self._warn(text)
        if found.flaws:
            more = "" if len(found.flaws) <= _SHOWN else f" and {len(found.flaws) - _SHOWN} more"
            self._warn(f"{at}: not whole: {'; '.join(found.flaws[:_SHOWN])}{more}")

    # -- fitting -----------------------------------------------------------------------------------------------------
    def _misfits(self, agent: ResolvedAgent) -> Iterator[str]:
        """Yield misfits of strict entries; warn of those of other entries."""
        parts = agent.parts()
        kin = [
            Kin(uids if len(parts) > 1 else (), _declared(sensors), _declared(actuators))
            for uids, sensors, actuators in parts
        ]
        for source in self._ready.get(agent.plan.name, (None, None, []))[2]:
            for group in dict.fromkeys(kin_of(kin, source, uid) for uid in source.environment.split(",")):
                found = kin[group].misfits(source)
                where = f"run {source.run}, phase `{source.phase_name}`, agent `{source.agent}`"
                if found and not source.strict:
                    more = "" if len(found) <= _SHOWN else f" and {len(found) - _SHOWN} more"
                    self._warn(f"{source.at}: {where}: {'; '.join(found[:_SHOWN])}{more}; the rest is taken")
                elif source.strict:
                    yield from (f"{source.at}: {where}: {text}" for text in found)


def _declared(rows: Sequence[Mapping[str, Any]]) -> list[Information]:
    return [Information(None, space_from_wire(row["space"]), row["id"]) for row in rows]


def _named(session: Session, phase: PhasePlan, agent: AgentPlan) -> Session:
    """Return a session with the ids that an agent has in a phase.

    Ids of an agent with bodies in several environments are local, else full. Other ids stay, so that a recording of
    one environment does not count as one of another.
    """
    embodied = list(dict.fromkeys(body.environment for body in phase.bodies or () if body.agent == agent.name))
    homes = embodied or [environment.uid for environment in phase.environments]
    recorded = session.environment.split(",")

    def name(uid: str) -> str:
        home = next((home for home in recorded if uid.startswith(f"{home}.")), None)
        if home is None:
            return f"{homes[0]}.{uid}" if len(homes) == 1 else uid
        return uid.removeprefix(f"{home}.") if len(embodied) > 1 and len(recorded) == 1 else uid

    sensors, actuators = (
        [Information(None, it.space, name(it.uid)) for it in declared]
        for declared in (session.sensors, session.actuators)
    )
    return replace(session, sensors=sensors, actuators=actuators, reward_ids=[name(uid) for uid in session.reward_ids])
