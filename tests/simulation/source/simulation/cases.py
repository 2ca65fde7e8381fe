"""Small runs for campaigns: every kind of phase, one to three steps long, so that many schedules fit into a second."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ganglion import registry
from ganglion.document import load_document
from ganglion.run.plan import Plan
from simulation.bus import Simulation
from simulation.outcome import read_rows

CASES = 41
_CROWD = 40
"""The run in which rows of several workers reach a brain in one round."""
DICE = "dice"
"""The run in which an environment throws dice."""

_DEADLINES_S = {"update": 2, "act": 2, "think": 2, "start": 2, "setup": 2, "reset": 2, "join": 20, "record": 10}


@dataclass(frozen=True)
class Case:
    """Be a run: its plan, how many events it takes when nothing disturbs it, and what comes of it then."""

    name: str
    plan: Plan
    length: int
    rows: dict[str, list[Any]]


@cache
def plan_of(name: int | str) -> Plan:
    """Return the plan of one of the runs, `range(CASES)` and DICE."""
    text = yaml.safe_dump(_document(name), sort_keys=False)
    plan, _ = load_document("document.yml", plugins=registry, text=text, allow=("simulation",))
    faults = registry.deep_check(plan.to_map())
    assert not faults, faults
    return plan


@cache
def case(name: int | str, folder: Path) -> Case:
    """Return one of the runs; the folder is for its undisturbed results."""
    plan = plan_of(name)
    outcome = Simulation(plan, 0, folder, tables=read_rows).carry_out()
    assert ("finished", []) == (outcome.status, outcome.defects), (_document(name), outcome.reason)
    return Case(str(name), plan, outcome.events, outcome.tables)


def _document(name: int | str) -> dict[str, Any]:
    """Return a document, drawn by its name."""
    draw = random.Random(f"case {name}")
    kind = "DiceEnvironment" if name == DICE else "ChainEnvironment"
    if name == _CROWD:
        phases = [_crowd(draw, kind)]
    elif name == DICE or int(name) % 4:  # three of four are as small as a run can be
        phases = [_small_phase(draw, kind, draw.random() < 0.7)]
    else:
        phases = [_phase(draw, kind, draw.random() < 0.75)]
        if draw.random() < 0.6:
            phases.append(_phase(draw, kind, draw.random() < 0.5))
    schedule = [{f"phase {index}": phase} for index, phase in enumerate(phases)]
    recovery = {"on_loss": "recover", "deadlines_s": _DEADLINES_S}
    return {
        "uid": f"case {name}",
        "seed": draw.randrange(2**40),
        "version": "0.1",
        "schedule": schedule,
        "run_config": {"condition": "vanilla"},
        "recovery": recovery,
    }


def _small_phase(draw: random.Random, kind: str, learns: bool) -> dict[str, Any]:
    config = _config(draw, learns, 1, draw.choice([1, 1, 2]))
    return _phase_of(draw, kind, ["hill"], ["ada"], config, 2)


def _phase(draw: random.Random, kind: str, learns: bool) -> dict[str, Any]:
    workers = draw.choice([1, 2, 2, 3])
    uids = draw.sample(["hill", "lake"], draw.choice([1, 1, 2]))
    names = draw.sample(["ada", "bob"], draw.choice([1, 2]))
    config = _config(draw, learns, workers, draw.randint(1, 2))
    if learns and draw.random() < 0.4:
        config["evaluate_every"] = 2
    return _phase_of(draw, kind, uids, names, config, 3)


def _crowd(draw: random.Random, kind: str) -> dict[str, Any]:
    config = {"mode": "train", "worker": 2, "episodes": 2, "sync": "lockstep"}
    phase = _phase_of(draw, kind, ["hill"], ["ada"], config, 3)
    phase["environments"][0]["environment"]["per_worker"] = [{"length": 3}] * 2
    phase["agents"][0]["brain"] = {"name": "simulation.chain:ChainBrain"}
    phase["simulation"] = {"name": "vanilla"}
    return phase


def _config(draw: random.Random, learns: bool, workers: int, episodes: int) -> dict[str, Any]:
    mode = "train" if learns else "test"
    sync = draw.choice(["lockstep", "lockstep", "pipelined"])
    return {"mode": mode, "worker": workers, "episodes": episodes, "sync": sync}


def _phase_of(
    draw: random.Random, kind: str, uids: list[str], names: list[str], config: dict[str, Any], longest: int
) -> dict[str, Any]:
    return {
        "environments": [
            {
                "environment": {
                    "uid": uid,
                    "name": f"simulation.chain:{kind}",
                    "per_worker": [{"length": draw.randint(1, longest)} for _ in range(config["worker"])],
                }
            }
            for uid in uids
        ],
        "agents": [_agent(draw, name, uids) for name in names],
        "simulation": {"name": draw.choice(["vanilla", "vanilla", "taking_turns"])},
        "phase_config": config,
    }


def _agent(draw: random.Random, name: str, uids: list[str]) -> dict[str, Any]:
    seen = [f"{uid}.link" for uid in uids]
    return {
        "name": name,
        "brain": draw.choice([{"name": "simulation.chain:ChainBrain"}] * 3 + [None]),
        "muscle": {"name": "simulation.chain:ChainMuscle"},
        "objective": "dummy",
        "sensors": seen,
        "actuators": [f"{draw.choice(uids)}.move"],
    }
