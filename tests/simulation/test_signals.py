from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from simulation import Act, Disturbance, Outcome, Simulation, orders, read, searched
from simulation.documents import Document, documents

from ganglion.wire.messages import Signalled

SEEDS = st.integers(0, 2**32)
MILD = ("RESET", "RESTART", "PAUSE")
STOPS = ("STOP_SIMULATION", "STOP_PHASE", "SHUTDOWN")

Order = tuple[float, str, int | None]
"""When (as a share of the undisturbed run), which signal, for which worker."""


@st.composite
def drawn_orders(draw: Any, signals: tuple[str, ...]) -> list[Order]:
    """Draw one to four signals at any moments."""
    moments = st.floats(0.0, 1.0, allow_nan=False)
    one = st.tuples(moments, st.sampled_from(signals), st.sampled_from([None, None, 0, 1, 2]))
    return sorted(draw(st.lists(one, min_size=1, max_size=4)), key=lambda order: order[0])


def disturbed(document: Document, seed: int, given_orders: list[Order], results: Path) -> Outcome:
    """Return a run in which operators send these signals; each PAUSE is ended by a later CONTINUE."""
    plan = read(document.text)
    length = Simulation(plan, seed, results, stored=False).carry_out().events
    return Simulation(plan, seed, results, Disturbance(orders(given_orders, length))).carry_out()


def is_consistent(outcome: Outcome, document: Document) -> None:
    """Assert that a run has ended and that its tables hold together."""
    assert ("finished", 0, []) == (outcome.status, outcome.exit_status, outcome.defects), document.text
    outcome.check()
    assert {"finished"} == {phase["status"] for phase in outcome.tables["phases"]}
    modes = {(index, phase.mode) for index, phase in enumerate(document.phases)}
    phases = [phase for phase in outcome.tables["phases"] if (phase["phase"], phase["mode"]) in modes]
    assert [phase.name for phase in document.phases[: len(phases)]] == [phase["name"] for phase in phases]
    answers = [answer for answer in outcome.answers if isinstance(answer, Signalled)]
    assert len(answers) == len(outcome.answers), outcome.answers
    late = "no worker runs any more"  # the workers of a PAUSE have ended instead of standing
    acted = [a for a in answers if (a.accepted and a.text != "no worker is paused") or a.text == late]
    told = [row for row in outcome.tables["signals"] if row["issuer"] == "operator"]
    obeyed = [row for row in told if not row["reason"].startswith("refused")]
    assert len(acted) == len(obeyed), (outcome.answers, told)
    last = [row["phase"] for row in obeyed if row["signal"] == "SHUTDOWN"]
    if last:
        assert ("shutdown", len(phases)) == (outcome.reason, last[0] + 1), "a phase has followed SHUTDOWN"
    else:
        assert ("completed", len(document.phases)) == (outcome.reason, len(phases))


@searched(100, {"document": documents(), "seed": SEEDS, "given_orders": drawn_orders(MILD)})
def test_mild_signals_lose_no_worker(results: Path, document: Document, seed: int, given_orders: list[Order]) -> None:
    """RESET, RESTART and PAUSE at any moment: every worker of every phase has all its episodes all the same."""
    outcome = disturbed(document, seed, given_orders, results)

    is_consistent(outcome, document)
    modes = {(index, phase.mode) for index, phase in enumerate(document.phases)}
    trained = [row for row in outcome.tables["episodes"] if (row["phase"], row["mode"]) in modes]
    rows = Counter((row["phase"], row["worker"]) for row in trained)
    for index, phase in enumerate(document.phases):
        if all(name != "environment" for name, _ in phase.phase_conditions):
            expected = dict.fromkeys(range(phase.worker), phase.episodes)
            assert expected == {w: rows[index, w] for w in range(phase.worker)}, document.text


@searched(300, {"document": documents(), "seed": SEEDS, "given_orders": drawn_orders(MILD + STOPS)})
def test_any_signal_leaves_whole_tables(
    results: Path, document: Document, seed: int, given_orders: list[Order]
) -> None:
    """Whatever operators signal at whatever moment, the run ends, and every episode that is shown is whole."""
    is_consistent(disturbed(document, seed, given_orders, results), document)


@searched(100, {"document": documents(), "seed": SEEDS, "share": st.floats(0.0, 1.0), "now": st.booleans()})
def test_an_interruption_leaves_whole_tables(
    results: Path, document: Document, seed: int, share: float, now: bool
) -> None:
    """Ctrl-C at any moment: the run ends as interrupted unless it was over, with whole episodes."""
    plan = read(document.text)
    length = Simulation(plan, seed, results, stored=False).carry_out().events
    stop: Act = lambda simulation: simulation.keeper.stop(now)  # noqa: E731
    outcome = Simulation(plan, seed, results, Disturbance([(int(share * length), stop)])).carry_out()

    assert (outcome.status, outcome.exit_status) in {("finished", 0), ("interrupted", 130)}, document.text
    assert not outcome.defects
    outcome.check()
