"""A phase as plain maps: what a document would say with every default written out."""

from __future__ import annotations

from typing import Any

from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, PluginPlan

__all__ = ["outline", "outline_plugin"]


def outline_plugin(plugin: PluginPlan) -> dict[str, Any]:
    """Return a `{name, params, on_error}`."""
    return {"name": plugin.name, "params": plugin.params, "on_error": plugin.on_error}


def outline(phase: PhasePlan) -> dict[str, Any]:
    """Return a phase as a document says it in our spelling, whole, every default written out."""
    config = {
        "mode": phase.mode,
        "worker": phase.workers,
        "episodes": phase.episodes,
        "sync": phase.sync,
        "evaluate_every": phase.evaluate_every,
        "evaluate_episodes": phase.evaluate_episodes,
        "conditions": [outline_plugin(c) for c in phase.phase_conditions],
    }
    simulation = outline_plugin(phase.controller)
    simulation["conditions"] = [outline_plugin(c) for c in phase.episode_conditions]
    return {
        "environments": [_entry(e) for e in phase.environments],
        "agents": [_agent(a) for a in phase.agents],
        "simulation": simulation,
        "phase_config": config,
        "recovery": {"deadlines_s": phase.deadlines_s},
    }


def _entry(environment: EnvironmentPlan) -> dict[str, Any]:
    definition: dict[str, Any] = {"uid": environment.uid}
    if environment.plugin is not None:
        definition["name"] = environment.plugin.name
    elif environment.command is not None:
        definition["command"] = environment.command
        definition |= {"cwd": environment.cwd} if environment.cwd is not None else {}
        definition |= {"variables": environment.variables} if environment.variables else {}
    else:
        definition["attach"] = True
    definition |= {"params": environment.params, "per_worker": environment.per_worker}
    entry: dict[str, Any] = {"environment": definition}
    if environment.reward is not None:
        entry["reward"] = outline_plugin(environment.reward)
    if environment.transformer is not None:
        entry["state_transformer"] = outline_plugin(environment.transformer)
    return entry


def _agent(agent: AgentPlan) -> dict[str, Any]:
    return {
        "name": agent.name,
        "muscle": outline_plugin(agent.muscle),
        "brain": outline_plugin(agent.brain or PluginPlan("none")),
        "objective": outline_plugin(agent.objective),
        "sensors": agent.sensors,
        "actuators": agent.actuators,
        "rewards": agent.rewards,
        "filters": [outline_plugin(part) for part in agent.filters],
        "models": agent.models,
        "load": agent.load,
    }
