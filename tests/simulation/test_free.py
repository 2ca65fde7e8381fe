"""Phases whose environments wait for nobody: their rows are those of common ticks, whoever comes first or is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from simulation import Act, Disturbance, Outcome, Simulation, read, simulate

from ganglion.peer import renewal

DOCUMENT = """
uid: free
seed: 1
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {{uid: lake, name: counting, params: {{length: [4, 2, 7, 3]}}}}
          clock: {{period: 2}}
          budget: {{episodes: {lake}}}
          episode_end: {rule}
        - environment: {{uid: moor, name: counting, params: {{length: 9}}}}
          budget: {{steps: {moor}}}
          episode_end: {end}
          max_steps: 5
        - environment: {{uid: fen, name: counting, params: {{length: 6, truncate_at: 4, verify: true}}}}
          clock: {{period: 3, phase: 1}}
          budget: {{episodes: 3}}
      agents:
        - {{name: ada, brain: {brain}, muscle: echo}}
        - {{name: bob, brain: none, muscle: random}}
        - {{name: cyd, brain: none, muscle: echo}}
      bodies:
        product: custom
        num: {{ada: {{lake: 2, moor: 1}}, bob: {{lake: 2, moor: 2}}, cyd: {{moor: 1, fen: 1}}}}
        rules: {rules}
      phase_config: {{mode: train, worker: {workers}, conditions: {conditions}, sync: {sync}}}
      simulation: {{name: aeb, params: {{{params}}}}}
"""
GIVEN = {"lake": 6, "moor": 30, "rule": "all", "end": "each", "brain": "none", "rules": "[]", "workers": 1}
GIVEN |= {"conditions": "[]", "params": "mode: free", "sync": "async"}
BARRIER = {"params": "mode: barrier", "sync": "lockstep"}
LATE = (
    "[{match: {agent: bob}, decision: {period: 3, phase: 1, between: noop}}, "
    "{match: {agent: cyd, environment: moor}, decision: {period: 4, phase: 3}}, {match: {body: 1}, learn: false}]"
)
TABLES = ("episodes", "steps", "actions", "bodies")


def text_of(**given: Any) -> str:
    """Return the document with what is given in place of what is usual."""
    return DOCUMENT.format(**{**GIVEN, **given})


def sets(outcome: Outcome) -> dict[str, list[str]]:
    """Return the rows of a run that finished, of each table in an order of their own."""
    assert ("finished", 0, []) == (outcome.status, outcome.exit_status, outcome.defects), outcome.reason
    return {name: sorted(map(repr, outcome.tables[name])) for name in TABLES}


SLOW: dict[str, Any] = {"suppress_health_check": [HealthCheck.too_slow], "phases": [Phase.explicit, Phase.generate]}
DRAWN = {
    "workers": st.integers(1, 2),
    "brain": st.sampled_from(["none", "log"]),
    "rule": st.sampled_from(["all", "any", "each", "{body: bob/0}"]),
    "end": st.sampled_from(["all", "each"]),
    "rules": st.sampled_from(["[]", LATE]),
    "params": st.sampled_from(["mode: free", "mode: free, lead: 1", "mode: free, lead: 5"]),
    "seed": st.integers(0, 2**32),
}


def is_common(results: Path, seed: int, **given: Any) -> None:
    """Assert that free environments make the rows of common ticks."""
    barrier = simulate(text_of(**{**given, **BARRIER}), 1, results)

    assert sets(barrier) == sets(simulate(text_of(**given), seed, results))


@settings(max_examples=6, **SLOW)
@given(**DRAWN)
def test_free_environments_make_the_rows_of_common_ticks(results: Path, **drawn: Any) -> None:
    """Whoever comes first: the rows of environments that do not interact are those of `barrier`, as sets."""
    is_common(results, **drawn)


@pytest.mark.long
@settings(max_examples=300, **SLOW)
@given(**DRAWN)
def test_many_free_environments_make_the_rows_of_common_ticks(results: Path, **drawn: Any) -> None:
    """The same for more runs."""
    is_common(results, **drawn)


# -- losses -----------------------------------------------------------------------------------------------------------
ROLES = ["environment", "muscle", "brain", "controller", "governor", "store"]


def kill(role: str, simulation: Simulation) -> None:
    """Kill a process of this role, by the schedule's own dice."""
    names = sorted(p.name for p in simulation.processes[1:] if p.lives and p.name.split("/")[1] == role)
    if names:
        simulation.kill(simulation.schedule.random.choice(names))


def survives(results: Path, seed: int, role: str, share: float, **given: Any) -> None:
    """Assert that a run from which one process is killed makes the rows of common ticks."""
    text = text_of(**given)
    barrier = simulate(text_of(**{**given, **BARRIER}), 1, results)
    length = Simulation(read(text), seed, results, stored=False).carry_out().events
    lossy = Simulation(read(text), seed, results, Disturbance([(int(share * length), partial(kill, role))])).carry_out()

    assert sets(barrier) == sets(lossy)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Have journals begun anew wherever they can be; yield how many calls were under way where who went on."""
    for name, value in (("JOURNAL_BEGIN_BYTES", 0), ("JOURNAL_BEGIN_S", 0.0), ("_TIMES_SIZE", 0), ("_TIMES_COST", 0.0)):
        monkeypatch.setattr(renewal, name, value)
    yield Counter()


@pytest.mark.parametrize("role", ROLES)
def test_a_loss_does_not_show(role: str, results: Path, often: Counter[str]) -> None:
    """Whoever is killed: its successor goes on from what it heard, in whatever order, and no row is lost or double."""
    survives(results, 11, role, 0.6, workers=2, brain="log", rules=LATE)


@pytest.mark.long
@settings(max_examples=300, suppress_health_check=[*HealthCheck], phases=SLOW["phases"])
@given(role=st.sampled_from(ROLES), share=st.floats(0.0, 1.0), **DRAWN)
def test_many_losses_do_not_show(results: Path, often: Counter[str], **drawn: Any) -> None:
    """The same at other moments."""
    survives(results, **drawn)
