"""Set-up: the messages that begin a phase, with every seed that its participants get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ganglion.run.agents import ResolvedAgent
from ganglion.run.loss import led, mends
from ganglion.run.plan import FAIL, RESTART, AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.sdk.condition import TerminationCondition
from ganglion.sdk.models import file_name
from ganglion.wire.messages import BrainSetup, ControllerSetup, ControllerStart, Verdict
from ganglion.wire.name import Role, peer_name

EVALUATE = "evaluate"  # the mode of evaluations within a phase that trains


class _Streams(Protocol):
    def words(self, path: Sequence[str | int]) -> bytes: ...

    def integer(self, words: bytes) -> int: ...


@dataclass(frozen=True, slots=True)
class Cast:
    """What the workers of a phase are set up with, those that evaluate too."""

    conditions: Sequence[tuple[str, TerminationCondition, str]]
    contents: Mapping[str, str]
    agents: Sequence[ResolvedAgent]
    models: Mapping[str, str]
    static: Mapping[str, Any]
    settle: bool


class Setup:
    """Make the messages; a function of plan and seed."""

    def __init__(self, run: str, plan: Plan, store: str | None, results: str, streams: _Streams) -> None:
        self._run, self._plan, self._store, self._results = run, plan, store, results
        self._streams = streams

    def episode_seeds(self, phase: PhasePlan, worker: int, episode: int, mode: str | None = None) -> dict[str, Any]:
        """Return environment -> {seed, stream} of an episode; its mode is the phase's unless given."""
        found = {}
        for environment in phase.environments:
            path = self._environment_path(phase, environment, worker, mode or phase.mode)
            words = self._streams.words([*path, "episode", episode])
            found[environment.uid] = {"seed": self._streams.integer(words), "stream": words}
        return found

    def models(self, phase: PhasePlan, agent: str, shelf: str | None = None) -> str:
        """Return the folder in which an agent's model of a phase is stored, on the run's own shelf or another."""
        return f"{shelf or f'{self._results}/brains'}/{phase.index}/{file_name(agent)}"

    def controller(
        self,
        phase: PhasePlan,
        worker: int,
        conditions: Sequence[tuple[str, TerminationCondition, str]],
        contents: Mapping[str, str],
        evaluation: bool = False,
    ) -> ControllerSetup:
        """Return the message that begins a phase in a worker, or in a worker that evaluates it."""
        mode = EVALUATE if evaluation else phase.mode
        parts = {name: c for name, c, _ in conditions if c.has_episode_part()}
        plans = [p for p in (*phase.episode_conditions, *phase.phase_conditions) if p.name in parts]
        return ControllerSetup(
            self._run,
            phase.index,
            phase.name,
            mode,
            worker,
            _plugin(phase.controller),
            [_plugin(p) for p in plans],
            [self._environment(phase, e, worker, contents, evaluation) for e in phase.environments],
            self._streams.words(["phase", phase.name, mode, "controller", "worker", worker]),
            dict(phase.deadlines_s),
            peer_name(self._run, Role.GOVERNOR),
            self._store,
            evaluation,
            mends=mends(phase),
        )

    def brain(
        self, phase: PhasePlan, agent: ResolvedAgent, models: Mapping[str, str], static: Mapping[str, Any]
    ) -> BrainSetup:
        """Return the message that sets up a brain; `models` is agent -> folder of the model that it begins with."""
        assert agent.plan.brain is not None
        name = agent.plan.name
        recovery = phase if agent.plan.recovery is None else agent.plan.recovery
        return BrainSetup(
            self._run,
            phase.index,
            phase.name,
            phase.mode,
            name,
            _plugin(agent.plan.brain),
            agent.sensors,
            agent.actuators,
            None,
            [f"{name}/{worker}" for worker in range(phase.workers)],
            phase.workers,
            self._streams.words(["phase", phase.name, "agent", name, "brain"]),
            self.models(phase, name),
            phase.sync,
            models.get(name),
            {uid: static[uid] for uid in agent.environments if uid in static} or None,
            checkpoint_s=None if recovery.on_loss == FAIL else recovery.checkpoint_s,
            filters=self._filters(agent.plan, lambda i: ["phase", phase.name, "agent", name, "brain", "filter", i]),
        )

    def start(
        self,
        phase: PhasePlan,
        worker: int,
        cast: Cast,
        verdict: Verdict,
        common: bool = False,
        evaluation: bool = False,
    ) -> ControllerStart:
        """Return the message that sets up a worker's muscles, or those of one that evaluates, and begins its episodes.

        `common` asks for a common boundary.
        """
        return ControllerStart(
            [self._agent(phase, agent, worker, cast, evaluation) for agent in cast.agents],
            common,
            phase.sync,
            verdict,
            cast.settle,
            dict(cast.static) or None,
            phase.evaluates and not evaluation,
        )

    def _filters(self, plan: AgentPlan, path_of: Callable[[int], Sequence[str | int]]) -> list[dict[str, Any]] | None:
        """Return an agent's filters, each with its own stream; None if there are none."""
        made = [{**_plugin(f), "stream": self._streams.words(path_of(i))} for i, f in enumerate(plan.filters)]
        return made or None

    def _environment_path(
        self, phase: PhasePlan, environment: EnvironmentPlan, worker: int, mode: str
    ) -> list[str | int]:
        return ["phase", phase.name, mode, "environment", environment.uid, "worker", worker]

    def _environment(
        self, phase: PhasePlan, environment: EnvironmentPlan, worker: int, contents: Mapping[str, str], evaluation: bool
    ) -> dict[str, Any]:
        path = self._environment_path(phase, environment, worker, EVALUATE if evaluation else phase.mode)
        words = self._streams.words(path)
        first = self._streams.words([*path, "episode", 0])
        peer = peer_name(self._run, Role.ENVIRONMENT, environment.uid, worker, evaluation)
        return {
            "uid": environment.uid,
            "peer": peer,
            "content": contents.get(peer, "msgpack"),
            "plugin": None if environment.plugin is None else _plugin(environment.plugin),
            "params": environment.params_of(worker),
            "reward": None if environment.reward is None else _plugin(environment.reward),
            "transformer": None if environment.transformer is None else _plugin(environment.transformer),
            "seed": self._streams.integer(words),
            "stream": words,
            "episode_seed": self._streams.integer(first),
            "episode_stream": first,
            "mends": led(phase, environment),
            **_recovery(phase, environment),
        }

    def _agent(
        self, phase: PhasePlan, agent: ResolvedAgent, worker: int, cast: Cast, evaluation: bool
    ) -> dict[str, Any]:
        plan, name = agent.plan, agent.plan.name
        mode = EVALUATE if evaluation else phase.mode
        path: list[str | int] = ["phase", phase.name, mode, "agent", name]
        learns = plan.brain is not None and phase.mode == "train"
        brain = peer_name(self._run, Role.BRAIN, name) if learns else None
        peer = peer_name(self._run, Role.MUSCLE, name, worker, evaluation)
        return {
            "name": name,
            "peer": peer,
            "content": cast.contents.get(peer, "msgpack"),
            "brain": None if evaluation else brain,
            "policy": brain if evaluation else None,
            "muscle": _muscle(plan),
            "program": plan.program is not None,
            "objective": _plugin(plan.objective),
            "sensors": agent.sensors,
            "actuators": agent.actuators,
            "rewards": plan.rewards,
            "environments": agent.environments,
            "stream": self._streams.words([*path, "muscle", "worker", worker]),
            "objective_stream": self._streams.words([*path, "objective", "worker", worker]),
            "models": cast.models.get(name),
            "filters": self._filters(plan, lambda i: [*path, "filter", i, "worker", worker]),
            **_recovery(phase, plan),
        }


def _recovery(phase: PhasePlan, entry: EnvironmentPlan | AgentPlan) -> dict[str, Any]:
    """Return what a controller has to know of deadlines and losses of an environment or a muscle."""
    own = entry.recovery or phase
    table = {} if entry.recovery is None else {"deadlines_s": dict(own.deadlines_s)}
    return {"restarts": own.on_loss == RESTART, **table}


def _muscle(plan: AgentPlan) -> dict[str, Any]:
    """Return the class of an agent's muscle; a program has none, and gets its parameters alone."""
    if plan.muscle is not None:
        return _plugin(plan.muscle)
    return {"name": "", "params": {} if plan.program is None else plan.program.params}


def _plugin(plan: PluginPlan) -> dict[str, Any]:
    return {"name": plan.name, "params": plan.params, "on_error": plan.on_error}
