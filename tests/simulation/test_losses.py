from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from simulation import Disturbance, Simulation, kill_one, read
from simulation.documents import Document, documents

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
SEEDS = st.integers(0, 2**32)
AS_DRAWN = [Phase.explicit, Phase.generate]  # to shrink a document takes minutes; the one that fails is printed
SHARES = st.floats(0.0, 1.0, allow_nan=False)


def survives_a_loss(document: Document, seed: int, share: float, results: Path) -> None:
    """Assert that a run from which one process is killed ends by itself, tells it, and shows whole episodes only."""
    plan = read(document.text)
    length = Simulation(plan, seed, results, stored=False).carry_out().events
    simulation = Simulation(plan, seed, results, Disturbance([(int(share * length), partial(kill_one, ""))]))
    outcome = simulation.carry_out()
    dead = simulation.killed

    assert (outcome.status, outcome.exit_status) in {("finished", 0), ("failed", 1)}, outcome.reason
    if outcome.status == "failed":
        (name,) = dead
        assert name.split("/")[1] in outcome.reason, f"{name} was killed, and the run says {outcome.reason}"
    outcome.check()
    if not any(name.endswith(("/store", "/governor")) for name in dead):
        assert {outcome.status} >= {run["status"] for run in outcome.tables["runs"]}


@settings(max_examples=3, suppress_health_check=SLOW, phases=AS_DRAWN)
@given(document=documents(), seed=SEEDS, share=SHARES)
def test_a_lost_process_ends_the_run_in_order(document: Document, seed: int, share: float, results: Path) -> None:
    """Whoever is killed at whatever moment: the run fails by name, and every episode that is shown is whole."""
    survives_a_loss(document, seed, share, results)


@pytest.mark.long
@settings(max_examples=400, suppress_health_check=SLOW, phases=AS_DRAWN)
@given(document=documents(), seed=SEEDS, share=SHARES)
def test_many_lost_processes_end_their_runs_in_order(
    document: Document, seed: int, share: float, results: Path
) -> None:
    """The same for more runs."""
    survives_a_loss(document, seed, share, results)
