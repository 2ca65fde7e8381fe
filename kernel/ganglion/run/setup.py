"""Set-up: the messages that begin a phase, with every seed that its participants get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ganglion.run.agents import ResolvedAgent
from ganglion.run.flow import Flow
from ganglion.run.plan import EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.sdk.condition import TerminationCondition
from ganglion.wire.messages import BrainSetup, ControllerSetup, ControllerStart
from ganglion.wire.name import Role, peer_name, safe

__all__ = ["Setup"]


class _Streams(Protocol):
    def words(self, path: Sequence[str | int]) -> bytes: ...

    def integer(self, words: bytes) -> int: ...


class Setup:
    """Make the messages; a function of plan and seed."""

    def __init__(self, run: str, plan: Plan, store: str | None, results: str, streams: _Streams) -> None:
        self._run, self._plan, self._store, self._results = run, plan, store, results
        self._streams = streams

    def episode_seeds(self, phase: PhasePlan, worker: int, episode: int) -> dict[str, Any]:
        """Return environment -> {seed, stream} of an episode."""
        found = {}
        for environment in phase.environments:
            path = self._environment_path(phase, environment, worker)
            words = self._streams.words([*path, "episode", episode])
            found[environment.uid] = {"seed": self._streams.integer(words), "stream": words}
        return found

    def models(self, phase: PhasePlan, agent: str) -> str:
        """Return the folder in which an agent's model of a phase is stored."""
        return f"{self._results}/brains/{phase.index}/{safe(agent)}"

    def controller(
        self,
        phase: PhasePlan,
        worker: int,
        conditions: Sequence[tuple[str, TerminationCondition, str]],
        contents: Mapping[str, str],
    ) -> ControllerSetup:
        """Return the message that begins a phase in a worker."""
        parts = {name: c for name, c, _ in conditions if c.has_episode_part()}
        plans = [p for p in (*phase.episode_conditions, *phase.phase_conditions) if p.name in parts]
        return ControllerSetup(
            self._run,
            phase.index,
            phase.name,
            phase.mode,
            worker,
            _plugin(phase.controller),
            [_plugin(p) for p in plans],
            [self._environment(phase, e, worker, contents) for e in phase.environments],
            self._streams.words(["phase", phase.name, phase.mode, "controller", "worker", worker]),
            dict(phase.deadlines_s),
            peer_name(self._run, Role.GOVERNOR),
            self._store,
        )

    def brain(
        self, phase: PhasePlan, agent: ResolvedAgent, models: Mapping[str, str], static: Mapping[str, Any]
    ) -> BrainSetup:
        """Return the message that sets up a brain; it continues from its newest model unless told otherwise."""
        assert agent.plan.brain is not None
        name = agent.plan.name
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
            self._source(agent, models),
            dict(static) or None,
        )

    def start(
        self,
        phase: PhasePlan,
        worker: int,
        agents: Sequence[ResolvedAgent],
        models: Mapping[str, str],
        contents: Mapping[str, str],
        flow: Flow,
        static: Mapping[str, Any],
    ) -> ControllerStart:
        """Return the message that sets up a worker's muscles and begins its first episode."""
        return ControllerStart(
            [self._agent(phase, agent, worker, models, contents) for agent in agents],
            flow.common,
            phase.sync,
            flow.first_verdict(worker),
            flow.settle,
            dict(static) or None,
        )

    def _environment_path(
        self, phase: PhasePlan, environment: EnvironmentPlan, worker: int
    ) -> list[str | int]:
        return ["phase", phase.name, phase.mode, "environment", environment.uid, "worker", worker]

    def _environment(
        self, phase: PhasePlan, environment: EnvironmentPlan, worker: int, contents: Mapping[str, str]
    ) -> dict[str, Any]:
        path = self._environment_path(phase, environment, worker)
        words = self._streams.words(path)
        first = self._streams.words([*path, "episode", 0])
        peer = peer_name(self._run, Role.ENVIRONMENT, environment.uid, worker)
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
        }

    def _agent(
        self,
        phase: PhasePlan,
        agent: ResolvedAgent,
        worker: int,
        models: Mapping[str, str],
        contents: Mapping[str, str],
    ) -> dict[str, Any]:
        plan, name = agent.plan, agent.plan.name
        path: list[str | int] = ["phase", phase.name, phase.mode, "agent", name]
        learns = plan.brain is not None and phase.mode == "train"
        peer = peer_name(self._run, Role.MUSCLE, name, worker)
        return {
            "name": name,
            "peer": peer,
            "content": contents.get(peer, "msgpack"),
            "brain": peer_name(self._run, Role.BRAIN, name) if learns else None,
            "muscle": _plugin(plan.muscle),
            "objective": _plugin(plan.objective),
            "sensors": agent.sensors,
            "actuators": agent.actuators,
            "rewards": plan.rewards,
            "environments": agent.environments,
            "stream": self._streams.words([*path, "muscle", "worker", worker]),
            "objective_stream": self._streams.words([*path, "objective", "worker", worker]),
            "models": self._source(agent, models),
        }

    def _source(self, agent: ResolvedAgent, models: Mapping[str, str]) -> str | None:
        """Return the folder of the model that an agent begins with; `load: false` begins afresh."""
        return None if agent.plan.load is False else models.get(agent.plan.name)


def _plugin(plan: PluginPlan) -> dict[str, Any]:
    return {"name": plan.name, "params": plan.params, "on_error": plan.on_error}
