from __future__ import annotations

from functools import partial
from pathlib import Path

from hypothesis import strategies as st
from simulation import Disturbance, Simulation, kill_one, read, searched
from simulation.documents import Document, documents


@searched(400, {"document": documents(), "seed": st.integers(0, 2**32), "share": st.floats(0.0, 1.0)})
def test_a_lost_process_ends_the_run_in_order(results: Path, document: Document, seed: int, share: float) -> None:
    """Whoever is killed at whatever moment: the run fails by name, and every episode that is shown is whole."""
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
