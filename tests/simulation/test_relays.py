"""Runs whose workers live on two nodes, each behind a relay: equal results, whatever befalls them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from simulation.bus import Simulation
from simulation.campaign import carry_out, case_of
from simulation.cases import plan_of
from simulation.fault import Fault, drawn
from simulation.outcome import read_rows


def faults_of(seed: int, length: int) -> list[Fault]:
    """Return what is drawn for a seed, and the loss of a relay, sometimes soon after another loss."""
    found, draw = drawn(seed, length), random.Random(f"relay {seed}")
    at = draw.choice([draw.randrange(length), *(fault.at + draw.randint(0, 60) for fault in found)])
    return sorted([*found, replace(found[0], kind="relay", at=at, pick=draw.randrange(2))], key=lambda it: it.at)


def failures(seeds: range, folder: Path) -> list[str]:
    """Carry out the runs of seeds behind relays; return what is wrong."""
    wrong = []
    for seed in seeds:
        faults = faults_of(seed, case_of(seed, folder).length)
        verdict = carry_out(seed, faults, folder, nodes=2)
        if verdict.wrong:
            wrong.append("\n".join([f"seed {seed}", *map(str, faults), verdict.wrong]))
    return wrong


def test_a_run_behind_relays_is_the_run_without(results: Path) -> None:
    """Rows are equal with relays, whose messages to the broker are fewer than those that stay."""
    plain = Simulation(plan_of(40), 3, results, tables=read_rows).carry_out()
    simulation = Simulation(plan_of(40), 3, results, tables=read_rows, nodes=2)
    relayed = simulation.carry_out()

    assert ("finished", [], plain.tables) == (relayed.status, relayed.defects, relayed.tables)
    assert all(node.crossed for node in simulation.nodes)


@pytest.mark.long
def test_whatever_befalls_a_run_behind_relays(results: Path) -> None:
    """Relays are among what is lost: the rows are those of the run that nothing disturbs, or the cause is named."""
    wrong = failures(range(1000, 1300), results)

    assert not wrong, f"{len(wrong)} of 300\n" + "\n\n".join(wrong[:3])
