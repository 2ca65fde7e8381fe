"""Set-up: the messages that begin a phase, with every seed of its participants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ganglion.run.agents import ResolvedAgent
from ganglion.run.effect import Services
from ganglion.run.plan import (
    FAIL,
    RESTART,
    AgentPlan,
    BodyPlan,
    EnvironmentPlan,
    PhasePlan,
    PluginPlan,
    Source,
    TablePlan,
    cap_of,
    is_replayed,
    listens,
    outlines,
    sources_of,
)
from ganglion.sdk.condition import TerminationCondition
from ganglion.sdk.naming import file_name
from ganglion.wire.messages import BrainSetup, ControllerSetup, ControllerStart, TableSetup, Verdict
from ganglion.wire.name import Role, peer_name

EVALUATE = "evaluate"  # the mode of evaluations within a phase that trains
Used = Mapping[tuple[bool, int, str, str], int]
"""Whether it evaluates, worker, agent, environment -> greatest number of a spawned body so far."""


@dataclass(frozen=True, slots=True)
class Cast:
    """Hold the set-up of the workers of a phase, evaluation workers included; `agents` follow the declarations."""

    conditions: Sequence[tuple[str, TerminationCondition, str]]
    contents: Mapping[str, str]
    agents: Sequence[ResolvedAgent] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, Any] = field(default_factory=dict)
    settle: bool = False
    used: Used = field(default_factory=dict)


def model_folder(folder: str, phase: PhasePlan, agent: str) -> str:
    """Return the folder in which an agent's model of a phase is stored, below a folder of models."""
    return f"{folder}/{phase.index}/{file_name(agent)}"


class Setup:
    """Make the messages of a phase from plan and seed; the `mode` of evaluation workers is EVALUATE."""

    def __init__(self, run: str, phase: PhasePlan, store: str | None, results: str, services: Services) -> None:
        self._run, self._phase, self._store, self._results = run, phase, store, results
        self._services = services
        self._common: dict[str, Any] = {"run": run, "phase": phase.index, "phase_name": phase.name}

    def _stream(self, *path: str | int) -> bytes:
        """Return the stream of a part of the phase."""
        return self._services.words(["phase", self._phase.name, *path])

    def _mode(self, evaluation: bool) -> str:
        return EVALUATE if evaluation else self._phase.mode

    def episode_seeds(self, worker: int, episode: int, evaluation: bool = False) -> dict[str, Any]:
        """Return environment -> {seed, stream} of an episode."""
        return {e.uid: self._seeds(e, worker, evaluation, "episode", episode) for e in self._phase.environments}

    def _seeds(
        self, environment: EnvironmentPlan, worker: int, evaluation: bool, *episode: str | int
    ) -> dict[str, Any]:
        """Return seed and stream of an environment of a worker, for its set-up or for an episode."""
        mode = self._mode(evaluation)
        words = self._stream(mode, "environment", environment.uid, "worker", worker, *episode)
        return {"seed": self._services.integer(words), "stream": words}

    def controller(self, worker: int, cast: Cast, evaluation: bool = False) -> ControllerSetup:
        """Return the message that begins the phase in a worker, or in an evaluation worker."""
        phase, conditions, mode = self._phase, cast.conditions, self._mode(evaluation)
        parts = {name: c for name, c, _ in conditions if c.has_episode_part()}
        plans = [p for p in (*phase.episode_conditions, *phase.phase_conditions) if p.name in parts]
        environments = self._capped()
        if phase.bodies is not None and evaluation:  # budgets are those of one evaluation
            count = phase.evaluate_episodes
            environments = [replace(e, budget_steps=None, budget_episodes=count) for e in environments]
        return ControllerSetup(
            **self._common,
            mode=mode,
            worker=worker,
            controller=phase.controller.outline(),
            conditions=outlines(plans),
            environments=[self._environment(e, worker, cast, evaluation) for e in environments],
            stream=self._stream(mode, "controller", "worker", worker),
            deadlines_s=dict(phase.deadlines_s),
            governor=peer_name(self._run, Role.GOVERNOR),
            store=self._store,
            evaluation=evaluation,
            mends=any(is_replayed(phase, environment) for environment in phase.environments),
            **_with_bodies(phase, cast.used, (evaluation, worker)),
            free={"lead": phase.lead, "listens": not evaluation and listens(phase, conditions)} if phase.free else None,
        )

    def _capped(self) -> Sequence[EnvironmentPlan]:
        """Return the environments; with bodies a missing cap is replaced by that of the episodes' conditions."""
        phase = self._phase
        if phase.bodies is None:
            return phase.environments
        caps = [cap for _, condition, _ in self._services.conditions(phase) if (cap := cap_of(condition)) is not None]
        least = min(caps, default=None)
        return [e if e.max_steps is not None else replace(e, max_steps=least) for e in phase.environments]

    def brain(self, agent: ResolvedAgent, models: Mapping[str, str], static: Mapping[str, Any]) -> BrainSetup:
        """Return the message that sets up a brain; `models` maps an agent to the folder of its first model."""
        assert agent.plan.brain is not None
        name, phase = agent.plan.name, self._phase
        recovery = agent.plan.recovery or phase
        bodies = [body for body in phase.seats or () if body.agent == name]
        path = ["agent", name, "brain"]
        return BrainSetup(
            **self._common,
            mode=phase.mode,
            agent=name,
            plugin=agent.plan.brain.outline(),
            sensors=agent.sensors,
            actuators=agent.actuators,
            rewards=None,
            muscles=[f"{name}/{worker}" for worker in range(phase.workers)],
            workers=phase.workers,
            stream=self._stream(*path),
            models=model_folder(f"{self._results}/brains", phase, name),
            sync=phase.sync,
            load=models.get(name),
            static_models={uid: static[uid] for uid in agent.environments if uid in static} or None,
            checkpoint_s=None if recovery.on_loss == FAIL else recovery.checkpoint_s,
            filters=self._filters(agent.plan, path),
            bodies=None if phase.bodies is None else [[b.environment, b.b, b.learn] for b in bodies if not b.most],
            dynamic=_dynamic(bodies),
            **self._opponents(name),
            groups=agent.groups,
            tables=self._tables(name) or None,
        )

    def table(self, table: TablePlan) -> TableSetup:
        """Return the message that sets up a table."""
        assert table.plugin is not None
        phase = self._phase
        return TableSetup(
            **self._common,
            mode=phase.mode,
            uid=table.uid,
            plugin=table.plugin.outline(),
            feed=table.feed,
            serve=table.serve,
            writers=[peer_name(self._run, Role.BRAIN, name) for name in table.feed],
            stream=self._stream("table", table.uid),
            waits=phase.sync == "async",
            shared=_shared(phase, table),
            span_s=phase.deadline_s("table.ask"),
        )

    def _tables(self, name: str) -> list[dict[str, Any]]:
        """Return a brain's descriptions of the tables that its agent feeds or asks, mixed tables last."""
        phase = self._phase
        plugins = {table.uid: table.plugin.name for table in phase.pools if table.plugin is not None}
        found: list[dict[str, Any]] = []
        for table in sorted(phase.tables, key=lambda one: one.mix is not None):
            row = {"uid": table.uid, "feeds": name in table.feed, "serves": name in table.serve}
            if table.mix is not None:
                plugin = plugins[next(iter(table.mix))]
                found += [{**row, "plugin": plugin, "mix": table.mix, "shared": False}] if row["serves"] else []
            elif row["feeds"] or row["serves"]:
                peer = peer_name(self._run, Role.TABLE, table.uid)
                more = {"peer": peer, "plugin": plugins[table.uid], "span_s": phase.deadline_s("table.ask")}
                found.append({**row, **more, "shared": _shared(phase, table)})
        return found

    def _opponents(self, name: str) -> dict[str, Any]:
        """Return a brain's descriptions of its agent's model sources, and of the players of its snapshots."""
        phase = self._phase
        sources = sources_of(phase.seats, name)
        found: dict[str, Any] = {"sources": [one.places for one in sources]} if len(sources) > 1 else {}
        pools: list[list[int]] = []
        opponents: dict[str, list[Any]] = {}
        players = [(a.name, one) for a in phase.agents for one in sources_of(phase.seats, a.name)]
        for agent, one in players:
            policy = one.policy
            if policy.source != "pool" or (policy.agent or agent) != name:
                continue
            pool = [policy.window, policy.snapshot_every]
            pools += [] if pool in pools else [pool]
            for worker in range(phase.workers):
                stream = self._stream("agent", agent, "opponents", "worker", worker, "team", one.team or "")
                peer = peer_name(self._run, Role.MUSCLE, one.part_of(agent), worker)
                opponents[peer] = [pools.index(pool), policy.latest, stream]
        return found | ({"pools": pools, "opponents": opponents} if pools else {})

    def start(
        self, worker: int, cast: Cast, verdict: Verdict, common: bool = False, evaluation: bool = False
    ) -> ControllerStart:
        """Return the message that sets up a worker's or evaluation worker's muscles and begins its episodes.

        `common` asks for a common boundary.
        """
        phase = self._phase
        return ControllerStart(
            agents=[
                self._agent(agent, worker, cast, evaluation, source)
                for agent in cast.agents
                for source in enumerate(sources_of(phase.seats, agent.plan.name))
            ],
            common=common,
            sync=phase.sync,
            verdict=verdict,
            settle=cast.settle,
            static_models=dict(cast.static) or None,
            patient=phase.evaluates and not evaluation,
        )

    def _filters(self, plan: AgentPlan, path: Sequence[str], *place: str | int) -> list[dict[str, Any]] | None:
        """Return an agent's filters, each with its own stream; None if there are none."""
        streams = [self._stream(*path, "filter", i, *place) for i in range(len(plan.filters))]
        return [{**f.outline(), "stream": s} for f, s in zip(plan.filters, streams, strict=True)] or None

    def _environment(self, environment: EnvironmentPlan, worker: int, cast: Cast, evaluation: bool) -> dict[str, Any]:
        phase = self._phase
        first = self._seeds(environment, worker, evaluation, "episode", 0)
        peer = peer_name(self._run, Role.ENVIRONMENT, environment.uid, worker, evaluation)
        return {
            "uid": environment.uid,
            "peer": peer,
            "content": cast.contents.get(peer, "msgpack"),
            "plugin": _outline(environment.plugin),
            "params": environment.params_of(worker),
            "reward": _outline(environment.reward),
            "transformer": _outline(environment.transformer),
            **self._seeds(environment, worker, evaluation),
            **{f"episode_{key}": value for key, value in first.items()},
            "mends": is_replayed(phase, environment),
            **_recovery(phase, environment),
            **({"topics": environment.topics} if environment.topics else {}),
            **({} if phase.bodies is None else {key: getattr(environment, key) for key in _OF_TIMELINES}),
        }

    def _agent(
        self, agent: ResolvedAgent, worker: int, cast: Cast, evaluation: bool, numbered: tuple[int, Source]
    ) -> dict[str, Any]:
        plan, name, source, phase = agent.plan, agent.plan.name, numbered[1], self._phase
        part = source.part_of(name)
        path = [self._mode(evaluation), "agent", name]
        place: tuple[str | int, ...] = ("worker", worker)
        learns = plan.brain is not None and phase.mode == "train"
        brain = peer_name(self._run, Role.BRAIN, name) if learns else None
        whose = brain if source.policy.agent is None else peer_name(self._run, Role.BRAIN, source.policy.agent)
        peer = peer_name(self._run, Role.MUSCLE, part or name, worker, evaluation)
        # A program has no class; it receives its parameters only.
        program = {"name": "", "params": {} if plan.program is None else plan.program.params}
        return {
            "name": name,
            "peer": peer,
            "content": cast.contents.get(peer, "msgpack"),
            "brain": None if evaluation or not source.learns else brain,
            "policy": whose if evaluation and source.policy.source != "frozen" else None,
            "muscle": _outline(plan.muscle) or program,
            "program": plan.program is not None,
            "objective": plan.objective.outline(),
            "sensors": agent.sensors,
            "actuators": agent.actuators,
            "rewards": plan.rewards,
            "environments": agent.environments,
            "stream": self._stream(*path, "muscle", *place),
            "objective_stream": self._stream(*path, "objective", *place),
            "models": cast.models.get(name if part is None or source.policy.load is None else part),
            "filters": self._filters(plan, path, *place),
            **_recovery(phase, plan),
            **({"topics": plan.topics} if plan.topics else {}),
            **({} if phase.bodies is None else self._of_bodies(agent, [*path, "muscle", *place], source)),
            **self._of_source(name, numbered, evaluation),
        }

    def _of_source(self, name: str, numbered: tuple[int, Source], evaluation: bool) -> dict[str, Any]:
        """Return the fields that distinguish a muscle of one model source; empty if there is only one source."""
        number, source = numbered
        policy, sources = source.policy, sources_of(self._phase.seats, name)
        if len(sources) == 1 and policy.source == "latest":
            return {}
        follows = policy.source == "latest"
        found = {"source": number, "sources": len(sources), "places": source.places, "follows": follows}
        if not follows and not evaluation:
            found |= {"initial": policy.initial, "k": policy.k}
        if policy.source == "pool" and not evaluation:
            turns = {"swap_every": policy.swap_every, "rotate_every": policy.rotate_every}
            found |= {"pool": peer_name(self._run, Role.BRAIN, policy.agent or name), "team": source.team, **turns}
        return found

    def _of_bodies(self, agent: ResolvedAgent, path: Sequence[str | int], source: Source) -> dict[str, Any]:
        """Return the bodies of an agent that decide by one source, each with its own stream, and its local ids."""
        rows = [
            [b.environment, b.b, b.learn, self._stream(*path, "body", b.environment, b.b)]
            for b in source.bodies
            if not b.most
        ]
        return {"locals": agent.locals, "bodies": rows, "groups": agent.groups, "dynamic": _dynamic(source.bodies)}


def _outline(plugin: PluginPlan | None) -> dict[str, Any] | None:
    return None if plugin is None else plugin.outline()


def _shared(phase: PhasePlan, table: TablePlan) -> bool:
    """Say whether several agents use a table, so that its replies must not depend on which is faster."""
    return phase.sync != "async" and len({*table.feed, *table.serve}) > 1


def _recovery(phase: PhasePlan, entry: EnvironmentPlan | AgentPlan) -> dict[str, Any]:
    """Return a controller's settings for deadlines and losses of an environment or a muscle."""
    own = entry.recovery or phase
    table = {} if entry.recovery is None else {"deadlines_s": dict(own.deadlines_s)}
    return {"restarts": own.on_loss == RESTART, **table}


_OF_TIMELINES = ("period", "offset", "budget_steps", "budget_episodes", "max_steps", "episode_end")


def _dynamic(bodies: Sequence[BodyPlan]) -> list[list[Any]] | None:
    """Return the rows for those bodies that may be spawned; None if there are none."""
    return [[body.environment, body.learn] for body in bodies if body.most] or None


def _with_bodies(phase: PhasePlan, used: Used, place: tuple[bool, int]) -> dict[str, Any]:
    """Return a controller's description of the bodies of a phase, with the indices of their agents."""
    if phase.bodies is None:
        return {}
    places = [agent.name for agent in phase.agents]

    def told(body: BodyPlan) -> dict[str, Any]:
        own = {"policy": body.policy.source, "reward": _outline(body.reward)}
        return {**asdict(body), "a": places.index(body.agent), **own}

    bodies, dynamic = list(map(told, phase.bodies)), list(map(told, phase.dynamic))
    for body in bodies:
        del body["most"]
    least = Counter((b.agent, b.environment) for b in phase.bodies)
    for body in dynamic:
        pair = (body["agent"], body["environment"])
        body["used"] = max(used.get((*place, *pair), -1), least[pair] - 1)
    return {"bodies": bodies, "dynamic": dynamic or None, "end": "all" if place[0] else phase.end}
