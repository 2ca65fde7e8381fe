"""From expanded phases to the plan of a run, and back to a document with all defaults written out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import yaml

from ganglion import __version__
from ganglion.document.cascade import Expanded, recovery
from ganglion.document.check import conditions_of, has_brain
from ganglion.document.marks import CORE, Node
from ganglion.run.plan import (
    CONTROLLER,
    FREE,
    OBJECTIVE,
    AgentPlan,
    EnvironmentPlan,
    PhasePlan,
    Plan,
    PluginPlan,
    ProgramPlan,
    Recovery,
    TablePlan,
    outlines,
)


def compile_plan(root: Node, phases: list[Expanded], source: str, folder: str, text: str, allow: Sequence[str]) -> Plan:
    """Return the plan of a normalised document without faults, with all defaults."""
    uid = str(root.map["uid"].value)
    return Plan(
        uid=uid,
        experiment=root.text("experiment_uid") or uid,
        seed=str(root.map["seed"].value),
        phases=[_phase(root, index, phase) for index, phase in enumerate(phases)],
        source=source,
        folder=folder,
        document=text,
        allow=list(allow),
        recovery=recovery([root.map.get("recovery")]),
    )


def _value(node: Node | None, key: str, default: Any = None) -> Any:
    """Return the plain value at a key, or the default if missing or null."""
    part = None if node is None else node.get(key)
    return default if part is None else part.plain()


def _said(node: Node | None, *keys: str, **renamed: str) -> dict[str, Any]:
    """Return a map's values at these keys, some renamed, without missing and null ones."""
    names = {**dict(zip(keys, keys, strict=True)), **renamed}
    found = {} if node is None else {ours: node.get(key) for ours, key in names.items()}
    return {ours: part.plain() for ours, part in found.items() if part is not None}


def _plugin(node: Node | None) -> PluginPlan | None:
    """Return a `{name, params}` as a plan, None without one."""
    if node is None or "name" not in node.map:
        return None
    name = node.map["name"]
    return PluginPlan(str(name.value), **_said(node, "params", "on_error"), at=name.at)


def _plugins(nodes: Sequence[Node]) -> list[PluginPlan]:
    return [plugin for node in nodes if (plugin := _plugin(node)) is not None]


def _phase(root: Node, index: int, phase: Expanded) -> PhasePlan:
    episode, whole = conditions_of(root, phase)
    params = _value(phase.simulation, "params", {})
    levels = [root.map.get("recovery"), phase.recovery]

    def own(entry: Node) -> Recovery | None:
        """Return the topics of an entry, None without any."""
        given = entry.map.get("recovery")
        return recovery([*levels, given]) if given is not None and given.map else None

    episodes = _value(phase.config, "episodes")
    end = params.get("end", "all") if phase.many else "all"
    return PhasePlan(
        index=index,
        name=phase.name,
        environments=[_environment(entry, own(entry), phase, episodes) for entry in phase.environments.values()],
        agents=[_agent(agent, own(agent)) for agent in phase.agents.values()],
        controller=_plugin(phase.simulation) or PluginPlan(CONTROLLER, params, at=(phase.simulation or phase.mark).at),
        episode_conditions=_plugins(episode),
        phase_conditions=_plugins(whole),
        **_said(phase.config, "mode", "episodes", "sync", "evaluate_every", "evaluate_episodes", workers="worker"),
        bodies=[body for body in phase.plans if not body.most] if phase.many else None,
        dynamic=[body for body in phase.plans if body.most],
        end=end["environment"] if isinstance(end, dict) else end,
        free=phase.many and params.get("mode") == FREE,
        lead=params.get("lead") if phase.many else None,
        tables=[_table(entry) for entry in (phase.tables.items if phase.tables is not None else ())],
        **asdict(recovery(levels)),
    )


def _table(node: Node) -> TablePlan:
    feed = _value(node, "feed", [])
    return TablePlan(str(node.map["uid"].value), _plugin(node), feed, _value(node, "serve", feed), _value(node, "mix"))


def _timeline(entry: Node, episodes: int | None) -> dict[str, Any]:
    """Return clock, budget, cap and rule of an environment; its default budget is `episodes`."""
    clock, budget, end = entry.get("clock"), entry.get("budget"), _value(entry, "episode_end", "all")
    given = {} if budget is not None and budget.map else {"budget_episodes": episodes}
    given |= _said(budget, budget_steps="steps", budget_episodes="episodes")
    given |= {**_said(clock, "period", offset="phase"), **_said(entry, "max_steps")}
    return {**given, "episode_end": end["body"] if isinstance(end, dict) else end}


def _environment(entry: Node, own: Recovery | None, phase: Expanded, episodes: int | None) -> EnvironmentPlan:
    node = entry.map["environment"]
    return EnvironmentPlan(
        **(_timeline(entry, episodes) if phase.many else {}),
        uid=str(node.map["uid"].value),
        plugin=_plugin(node) if node.text("name") else None,
        program=_program(node),
        **_said(node, "params", "per_worker"),
        reward=_plugin(entry.map.get("reward")),
        transformer=_plugin(entry.map.get("state_transformer")),
        recovery=own,
        **_said(entry, "topics"),
    )


def _program(node: Node, **more: Any) -> ProgramPlan | None:
    """Return the program of an environment or a muscle; None for a plugin."""
    return None if node.text("name") else ProgramPlan(**_said(node, "command", "cwd", "variables", "speaks"), **more)


def _agent(node: Node, own: Recovery | None) -> AgentPlan:
    muscle = node.map["muscle"]
    sensors, actuators, rewards, replay = map(node.entries, ("sensors", "actuators", "rewards", "replay"))
    return AgentPlan(
        name=str(node.map["name"].value),
        muscle=_plugin(muscle) if muscle.text("name") else None,
        brain=_plugin(node.map["brain"]) if has_brain(node) else None,
        objective=_plugin(node.map.get("objective")) or PluginPlan(OBJECTIVE, at=node.at),
        sensors=[str(item.value) for item in sensors],
        actuators=[str(item.value) for item in actuators],
        **_said(node, "rewards", "models", "topics"),
        filters=_plugins(node.entries("filters")),
        load=_load(node.map.get("load")),
        sensors_at=[item.at for item in sensors],
        actuators_at=[item.at for item in actuators],
        rewards_at=[item.at for item in rewards],
        load_at=node.map.get("load", node).at,
        replay=[_said(item, *item.map) for item in replay],
        replay_at=[item.at for item in replay],
        models_at=node.map.get("models", node).at,
        recovery=own,
        program=_program(muscle, **_said(muscle, "params")),
    )


def _load(node: Node | None) -> Any:
    """Return None to continue, False to begin fresh, else the plan of the map."""
    if node is None or not isinstance(node.value, dict):
        return None if node is None else node.value
    return False if "agent" in node.map and node.get("agent") is None else _said(node, *node.map) or None


def resolved(plan: Plan) -> str:
    """Return a document with every phase and default of a plan written out, in Ganglion's spelling.

    The document gives the same plan except for places.
    """
    document = {
        "uid": plan.uid,
        "experiment_uid": plan.experiment,
        "seed": int(plan.seed),
        "version": __version__,
        "cascade": "replace",
        "run_config": {"conditions": outlines(plan.phases[0].phase_conditions)},
        "schedule": [{phase.name: phase.outline()} for phase in plan.phases],
        "recovery": plan.recovery.outline_recovery(),
    }
    return written(document)


def written(tree: Any) -> str:
    """Return plain maps, lists and scalars as YAML that means the same by YAML 1.1 and 1.2."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # chosen at run time
    """Write YAML that means the same by YAML 1.1 and 1.2, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return true: no value is written as an alias."""
        return True


for _tag, (_pattern, _) in CORE.items():  # besides those of YAML 1.1
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"({_pattern})\Z"), None)
