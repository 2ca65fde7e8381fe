"""Agents against declarations: full ids, `<uid>.*`, and the faults of both, with their places."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ganglion.errors import DocumentError
from ganglion.run.plan import AgentPlan, PhasePlan

__all__ = ["ResolvedAgent", "full_ids", "resolve"]

Declarations = Mapping[str, Mapping[str, Any]]
"""Environment -> {sensors, actuators, rewards, static_model}, as its controller reported."""


@dataclass(frozen=True, slots=True)
class ResolvedAgent:
    """An agent with its declarations under full ids, and the environments that it touches."""

    plan: AgentPlan
    sensors: list[dict[str, Any]]
    actuators: list[dict[str, Any]]
    environments: list[str]


def resolve(phase: PhasePlan, declarations: Declarations) -> list[ResolvedAgent]:
    """Return the agents of a phase with their declarations; DocumentError holds all faults at once."""
    faults: list[str] = []
    sensors = _full(declarations, "sensors", faults)
    actuators = _full(declarations, "actuators", faults)
    found = [_agent(agent, sensors, actuators, faults) for agent in phase.agents]
    if faults:
        raise DocumentError("\n".join(faults), faults)
    return found


def full_ids(uid: str, declarations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return an environment's declarations under full ids."""
    return [{**row, "id": f"{uid}.{row['id']}"} for row in declarations]


def _full(declarations: Declarations, what: str, faults: list[str]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return full id -> (environment, declaration); an id that two environments can claim is a fault."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for uid, declared in declarations.items():
        for row in full_ids(uid, declared[what]):
            full = row["id"]
            if full in found:
                faults.append(
                    f"the {what[:-1]} {full!r} can belong to environment {found[full][0]!r} and to {uid!r}"
                )
            found[full] = (uid, row)
    return found


def _agent(
    agent: AgentPlan,
    sensors: Mapping[str, tuple[str, dict[str, Any]]],
    actuators: Mapping[str, tuple[str, dict[str, Any]]],
    faults: list[str],
) -> ResolvedAgent:
    seen = _pick(agent.sensors, agent.sensors_at, sensors, f"agent {agent.name}: sensors", faults)
    moved = _pick(agent.actuators, agent.actuators_at, actuators, f"agent {agent.name}: actuators", faults)
    touched = list(dict.fromkeys(environment for environment, _ in (*seen, *moved)))
    return ResolvedAgent(agent, [row for _, row in seen], [row for _, row in moved], touched)


def _pick(
    ids: Sequence[str],
    places: Sequence[str],
    known: Mapping[str, tuple[str, dict[str, Any]]],
    what: str,
    faults: list[str],
) -> list[tuple[str, dict[str, Any]]]:
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for i, uid in enumerate(ids):
        at = f"{places[i]}: " if i < len(places) and places[i] else ""
        if uid.endswith(".*"):
            matches = {full: row for full, row in known.items() if row[0] == uid[:-2]}
        else:
            matches = {uid: known[uid]} if uid in known else {}
        if not matches:
            near = difflib.get_close_matches(uid, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            faults.append(f"{at}{what}: {uid!r} was not declared by its environment{hint}")
        twice = [full for full in matches if full in found]
        if twice:
            faults.append(f"{at}{what}: {twice[0]!r} comes twice")
        found.update(matches)
    return list(found.values())
