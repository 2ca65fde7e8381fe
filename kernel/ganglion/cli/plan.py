"""`ganglion run --plan`: what a run would start, and from which seed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

import click

from ganglion.cli.seeds import path_of, seeds_of
from ganglion.run.plan import PhasePlan, Plan, Process, processes_of
from ganglion.supervisor.folder import run_id
from ganglion.supervisor.output import printable
from ganglion.wire.name import Role

__all__ = ["plan_rows", "print_plans"]


def plan_rows(plan: Plan) -> dict[str, Any]:
    """Return a plan's phases and processes, each with its seed, as plain values."""
    run = run_id(plan.uid)
    phases = []
    processes_by_phase = [(phase, processes_of(run, phase)) for phase in plan.phases]
    seeds = iter(
        seeds_of([(plan.seed, path_of(phase, p)) for phase, found in processes_by_phase for p in found])
    )
    for phase, found in processes_by_phase:
        processes = [
            {
                "name": p.name,
                "role": p.role.value,
                "uid": p.uid,
                "worker": p.worker,
                "evaluation": p.evaluation,
                "seed": next(seeds),
                "starts": _start(p, phase),
            }
            for p in found
        ]
        head = {"phase": phase.index, "name": phase.name, "mode": phase.mode, "workers": phase.workers}
        phases.append({**head, "episodes": phase.episodes, "sync": phase.sync, "processes": processes})
    return {"uid": plan.uid, "seed": plan.seed, "source": plan.source, "phases": phases}


def _start(process: Process, phase: PhasePlan) -> str:
    environment = process.environment
    agent = next((agent for agent in phase.agents if agent.name == process.uid), None)
    program = process.program
    if program is not None and program.command is not None:
        return f"command: {shlex.join(program.command)}"
    if program is not None:
        return f"attach: somebody else starts {process.uid}"
    if environment is not None and environment.plugin is not None:
        return f"plugin: {environment.plugin.name}"
    if process.role is Role.BRAIN and agent is not None and agent.brain is not None:
        return f"plugin: {agent.brain.name}"
    if process.role is Role.MUSCLE and agent is not None and agent.muscle is not None:
        return f"plugin: {agent.muscle.name}, objective {agent.objective.name}"
    return f"plugin: {phase.controller.name}"


def print_plans(plans: Sequence[Plan], as_json: bool) -> None:
    """Print what would be started; nothing is."""
    rows = [plan_rows(plan) for plan in plans]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        click.echo(f"{printable(row['uid'])} · seed {row['seed']} · {printable(row['source'])}")
        for phase in row["phases"]:
            click.echo(
                f"phase {phase['phase']} {printable(phase['name'])}: {phase['mode']}, {phase['sync']}, "
                f"{_count(phase['workers'], 'worker')}, episodes {phase['episodes'] or 'until a condition ends it'}"
            )
            click.echo("  broker, governor, store")
            for process in phase["processes"]:
                click.echo(
                    f"  {process['name']:<40} seed {process['seed']:>19}  {printable(process['starts'])}"
                )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
