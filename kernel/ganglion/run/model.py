"""Models: which stored model `load` names; which models agents begin phases with, and which they leave."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ganglion.errors import DocumentError
from ganglion.run.effect import Effect, Event, Record, Services
from ganglion.run.plan import AgentPlan, PhasePlan, sources_of
from ganglion.run.setup import model_folder
from ganglion.wire.messages import BrainStore, BrainStored

Own = Mapping[tuple[int, str], str]
"""(phase index, agent) -> folder of the model with which the agent left that phase of this run."""

FINISHED = "finished"
_RUNS_SHOWN = 5  # in an error text


@dataclass(frozen=True, slots=True)
class Wish:
    """Hold the request of `load`, with all missing keys filled in.

    `run` None is the newest finished run of `uid`; with both None any run. `phase` None is the last phase with the
    agent. `here` says whether a model of this run may serve, `elsewhere` whether one of other runs may. `bare` says
    that a folder without an index may serve: only a base is given, and perhaps an agent (`named`).
    """

    agent: str
    uid: str | None
    run: str | None
    phase: int | str | None
    here: bool
    elsewhere: bool
    base: str | None = None
    optional: bool = False
    bare: bool = False
    named: bool = False

    def __str__(self) -> str:
        """Return the request in words."""
        phase = "the last phase that left one" if self.phase is None else _phase(self.phase)
        if self.run is not None:
            of = f"run {self.run}" + ("" if self.uid is None else f" of `{self.uid}`")
        elif self.here:
            of = "this run"
            phase = "its latest earlier phase" if self.phase is None else phase
            of += f" or of the newest finished run of `{self.uid}`" if self.elsewhere else ""
        else:
            of = f"the newest finished run of `{self.uid}`"
        return f"the model of agent `{self.agent}` from {of} ({phase})"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Hold a run that may have left models: its id, the uid of its document, its status."""

    run: str
    uid: str
    status: str


Run = TypeVar("Run", bound=StoredRun)


def wish_of(load: Any, agent: str, uid: str, run: str) -> Wish | None:
    """Return the model that `load` names for an agent in a run of `uid`; None if it continues or begins afresh."""
    given = {key: value for key, value in load.items() if value is not None} if isinstance(load, dict) else {}
    if not given.keys() - {"optional"}:
        return None
    asked, instance = given.get("experiment_run"), given.get("instance")
    this = asked in (None, uid) and instance in (None, run)
    return Wish(
        agent=given.get("agent", agent),
        # A run named by its id identifies its document.
        uid=asked if instance is not None else asked or uid,
        run=instance,
        phase=given.get("phase"),
        here=this,
        # A document that names itself means its newest run: this run if it has the model already, else the one before.
        elsewhere=not this or (asked is not None and instance is None),
        base=given.get("base"),
        optional=bool(given.get("optional", False)),
        bare=not given.keys() & {"experiment_run", "instance", "phase"},
        named="agent" in given,
    )


def continued(phases: Sequence[PhasePlan], phase: int, agent: str, models: Own) -> str | None:
    """Return the folder of the model with which an agent left its latest earlier phase, None if there is none."""
    own = [earlier.index for earlier in phases[:phase] if any(other.name == agent for other in earlier.agents)]
    return models.get((own[-1], agent)) if own else None


def own(wish: Wish, phases: Sequence[PhasePlan], phase: int, models: Own) -> tuple[str | None, str]:
    """Return the folder of a model of this run, and why there is none."""
    if wish.phase is None:
        folder = continued(phases, phase, wish.agent, models)
        why = "no earlier phase of this run has left a model of it"
    else:
        index = next((p.index for p in phases[:phase] if wish.phase in (p.index, p.name)), None)
        if index is None:
            return None, f"{_phase(wish.phase)} is no earlier phase of this run"
        folder = models.get((index, wish.agent))
        why = f"{_phase(wish.phase)} of this run has left no model of it"
    return folder, "" if folder is not None else why


def pick_run(wish: Wish, runs: Sequence[Run], this: str) -> Run | str:
    """Return the requested run among those of one place, ordered oldest first, or a text why there is none.

    `this` is the id of the requesting run: while unfinished it is not its own newest finished run.
    """
    if wish.run is not None:
        named = [run for run in runs if run.run == wish.run]
        if not named:
            return f"there is no run {wish.run}"
        if wish.uid is not None and named[-1].uid != wish.uid:
            return f"run {wish.run} is one of `{named[-1].uid}`, not of `{wish.uid}`"
        return named[-1]
    mine = [run for run in runs if run.uid == wish.uid and not (run.run == this and run.status != FINISHED)]
    done = [run for run in mine if run.status == FINISHED]
    if done:
        return done[-1]
    if mine:
        shown = ", ".join(f"{run.run} ({run.status})" for run in mine[-_RUNS_SHOWN:])
        return f"no run of `{wish.uid}` has finished: {shown}; `instance` takes a run as it is"
    is_id = any(run.run == wish.uid for run in runs)
    like = "; that is the id of a run: give it as `instance`" if is_id else ""
    return f"there is no run of `{wish.uid}`{like}"


def pick_phase(wish: Wish, names: Mapping[int, str], having: Sequence[int], run: str) -> int | str:
    """Return the requested phase of another run, whose phases have `names`, or a text why there is none.

    `having` are the indices of the phases that have left models of the agent.
    """
    if not having:
        return f"run {run} has no model of agent `{wish.agent}`"
    if wish.phase is None:
        return max(having)
    index = next((i for i in sorted(names) if wish.phase in (i, names[i])), None)
    if index is None:
        return f"run {run} has no {_phase(wish.phase)}"
    if index not in having:
        return f"{_phase(wish.phase)} of run {run} has left no model of agent `{wish.agent}`"
    return index


def missing(agent: AgentPlan, wish: Wish, places: Sequence[tuple[str, str]]) -> str:
    """Return the text of the error or warning: the request and the places searched, one line per place."""
    at = f"{agent.load_at}: " if agent.load_at else ""
    end = "it starts fresh" if wish.optional else "with `optional: true` it would start fresh"
    return "\n".join([f"{at}{wish} was not found; {end}", *(f"  in {place}: {why}" for place, why in places)])


def _phase(phase: int | str) -> str:
    return f"phase {phase}" if isinstance(phase, int) else f"phase `{phase}`"


class Inheritance:
    """Hold the models with which a run's agents begin and leave phases.

    `first` maps an agent to the folder of the model with which it begins this phase; agents that begin afresh are
    absent. `folder` is where this run stores models.
    """

    def __init__(self, services: Services, folder: str) -> None:
        self.first: dict[str, str] = {}
        self._services, self._folder = services, folder
        self._phase: PhasePlan
        self._second: dict[str, str] = {}  # agent -> folder below its `models`
        self._own: dict[tuple[int, str], str] = {}  # (phase, agent) -> folder of the model with which the agent left

    def restore(self, models: Iterable[Sequence[Any]]) -> None:
        """Restore what `left` returned."""
        self._own = {(phase, agent): folder for phase, agent, folder in models}

    def left(self) -> list[list[Any]]:
        """Return phase, agent and folder of all models with which agents have left phases."""
        return [[*key, folder] for key, folder in self._own.items()]

    def enter(self, phase: PhasePlan) -> None:
        """Look up the model with which each agent begins a phase, before its processes start.

        DocumentError: the model that `load` names was not found. StoreError: the model is damaged.
        """
        services, self._phase = self._services, phase
        found = {agent.name: services.model(phase, agent, self._own) for agent in phase.agents}
        self.first = {name: folder for name, folder in found.items() if folder is not None}
        for agent in phase.agents:
            self._freeze(agent)
        second = [agent for agent in phase.agents if agent.models and agent.brain is not None]
        self._second = {agent.name: services.second_folder(agent) for agent in second}

    def _freeze(self, agent: AgentPlan) -> None:
        """Look up the stored models by which bodies of an agent decide; DocumentError if there is none."""
        for source in sources_of(self._phase.seats, agent.name):
            policy, part = source.policy, source.part_of(agent.name)
            if policy.source != "frozen":
                continue
            folder = self.first.get(agent.name)
            if policy.load is not None and part is not None:
                meant = dataclasses.replace(agent, load=policy.load, load_at=policy.at)
                folder = self._services.model(self._phase, meant, self._own)
                if folder is not None:
                    self.first[part] = folder
            if folder is None:
                raise DocumentError(f"{policy.at}: frozen: agent `{agent.name}` begins this phase without a model")

    def hand_on(self, agents: Iterable[AgentPlan]) -> None:
        """Let agents without brains leave the phase with the model with which they began it."""
        names = [agent.name for agent in agents if agent.brain is None and agent.name in self.first]
        self._own |= {(self._phase.index, name): self.first[name] for name in names}

    def request(self, agent: AgentPlan) -> BrainStore:
        """Return the message that makes a brain store; if no agent learns, the model is that of the phase's begin."""
        folder = self._second.get(agent.name)
        second = None if folder is None else model_folder(folder, self._phase, agent.name)
        if self._phase.mode == "train":
            return BrainStore(second=second)
        models = model_folder(self._folder, self._phase, agent.name)
        return BrainStore(source=self.first[agent.name], models=models, second=second)

    def keep(self, stored: Mapping[str, BrainStored], episodes: int) -> list[Effect]:
        """Record the files that all brains have stored after this many episodes; the next phases begin with them.

        Agents are in document order, not in order of arrival: equal runs have equal tables.
        """
        phase = self._phase
        effects: list[Effect] = []
        for agent, reply in stored.items():
            files = reply.files
            for file in files:
                row = ["brain", phase.index, agent, file["tag"], episodes, file["updates"]]
                effects.append(Record([*row, self._services.now(), file["bytes"], file["sha256"], file["path"]]))
            if files:
                self._own[phase.index, agent] = model_folder(self._folder, phase, agent)
                effects.append(Event("brain.stored", {"agent": agent, "files": len(files)}))
        return effects
