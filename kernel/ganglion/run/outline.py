"""A phase as plain maps: what a document would say with every default written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ganglion.run.plan import (
    NO_BRAIN,
    AgentPlan,
    BodyPlan,
    EnvironmentPlan,
    PhasePlan,
    PluginPlan,
    PolicyPlan,
    Recovery,
    TablePlan,
)


def _values(part: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(part, name) for name in names}


def outline_plugin(plugin: PluginPlan) -> dict[str, Any]:
    """Return a `{name, params, on_error}`."""
    return _values(plugin, "name", "params", "on_error")


def outline_optional(plugin: PluginPlan | None) -> dict[str, Any] | None:
    """Return a `{name, params, on_error}`, None where there is no plugin."""
    return None if plugin is None else outline_plugin(plugin)


def outline_recovery(recovery: Recovery) -> dict[str, Any]:
    """Return what holds of losses and deadlines."""
    values = {part.name: getattr(recovery, part.name) for part in fields(Recovery)}
    restarts = {key: values.pop(f"restarts_{key}") for key in ("max", "within_s", "poison")}
    first = {key: values.pop(key) for key in ("on_loss", "deterministic")}
    return {**first, "restarts": restarts, **values}


def outline(phase: PhasePlan) -> dict[str, Any]:
    """Return a phase as a document says it in our spelling, whole, every default written out."""
    config = {
        "mode": phase.mode,
        "worker": phase.workers,
        **_values(phase, "episodes", "sync", "evaluate_every", "evaluate_episodes"),
        "conditions": [outline_plugin(c) for c in phase.phase_conditions],
    }
    simulation = outline_plugin(phase.controller)
    simulation["conditions"] = [outline_plugin(c) for c in phase.episode_conditions]
    bodies: dict[str, Any] = {} if phase.bodies is None else {"bodies": _bodies(phase.bodies, phase.dynamic)}
    bodies |= {"tables": [_table(table) for table in phase.tables]} if phase.tables else {}
    return {
        **bodies,
        "environments": [_entry(e, phase.bodies is not None) for e in phase.environments],
        "agents": [_agent(a) for a in phase.agents],
        "simulation": simulation,
        "phase_config": config,
        "recovery": outline_recovery(phase),
    }


def _table(table: TablePlan) -> dict[str, Any]:
    drawn = {"mix": table.mix} if table.plugin is None else outline_plugin(table.plugin)
    return {"uid": table.uid, **drawn, **_values(table, "feed", "serve")}


def _bodies(bodies: Sequence[BodyPlan], dynamic: Sequence[BodyPlan]) -> dict[str, Any]:
    """Return the section that gives exactly these bodies: a list, and a rule for each."""
    rules = []
    for body in (*bodies, *dynamic):
        reward: dict[str, Any] = {"scale": body.scale, "offset": body.shift}
        if body.low is not None and body.high is not None:
            reward["clip"] = [body.low, body.high]
        reward |= {} if body.reward is None else outline_plugin(body.reward)
        decision = {"period": body.period, "phase": body.offset, "between": body.between}
        match: dict[str, Any] = {"agent": body.agent, "environment": body.environment}
        match |= {"dynamic": True} if body.most else {"body": body.b}
        tags = _values(body, "learn", "role", "team", "group")
        rules.append({"match": match, "reward": reward, "decision": decision, **tags, "policy": _policy(body.policy)})
    spawned = [{"agent": body.agent, "environment": body.environment, "max": body.most} for body in dynamic]
    return {
        "product": "custom",
        "num": [[body.agent, body.environment, body.b] for body in bodies],
        "rules": rules,
        **({"dynamic": spawned} if spawned else {}),
    }


def _policy(policy: PolicyPlan) -> Any:
    if policy.source == "latest":
        return policy.source
    if policy.source == "frozen":
        return {"source": policy.source} | ({} if policy.load is None else {"load": policy.load})
    keys = ("source", "window", "latest", "snapshot_every", "swap_every", "rotate_every", "agent")
    return {**_values(policy, *keys), "rating": _values(policy, "initial", "k")}


def _timeline(environment: EnvironmentPlan) -> dict[str, Any]:
    named = environment.episode_end in ("all", "any", "each", "environment")
    budget = {"steps": environment.budget_steps, "episodes": environment.budget_episodes}
    given = {key: value for key, value in budget.items() if value is not None}
    return {
        "clock": {"period": environment.period, "phase": environment.offset},
        **({"budget": given} if given else {}),
        "max_steps": environment.max_steps,
        "episode_end": environment.episode_end if named else {"body": environment.episode_end},
    }


def _entry(environment: EnvironmentPlan, bodies: bool = False) -> dict[str, Any]:
    form: dict[str, Any] = {} if environment.plugin is None else {"name": environment.plugin.name}
    if environment.program is not None:
        form = environment.program.outline()
    parts = {"reward": environment.reward, "state_transformer": environment.transformer}
    form |= _values(environment, "params", "per_worker")
    entry: dict[str, Any] = {"environment": {"uid": environment.uid, **form}}
    entry |= {key: outline_plugin(plugin) for key, plugin in parts.items() if plugin is not None}
    return {**entry, **(_timeline(environment) if bodies else {}), **_own(environment)}


def _agent(agent: AgentPlan) -> dict[str, Any]:
    if agent.program is not None:
        acts = {"muscle": {**agent.program.outline(), "params": agent.program.params}}
    else:
        assert agent.muscle is not None
        acts = {"muscle": outline_plugin(agent.muscle), "objective": outline_plugin(agent.objective)}
    return {
        "name": agent.name,
        "muscle": acts.pop("muscle"),
        "brain": outline_plugin(agent.brain or PluginPlan(NO_BRAIN)),
        **acts,
        **_values(agent, "sensors", "actuators", "rewards"),
        "filters": [outline_plugin(part) for part in agent.filters],
        **_values(agent, "models", "load"),
        "replay": agent.replay or None,
        **_own(agent),
    }


def _own(part: EnvironmentPlan | AgentPlan) -> dict[str, Any]:
    """Return `recovery` and `topics` of an entry; one that has no recovery has that of its phase."""
    recovery = {} if part.recovery is None else {"recovery": outline_recovery(part.recovery)}
    return recovery | ({"topics": part.topics} if part.topics else {})
