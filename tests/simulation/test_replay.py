"""Recorded and played on the bus in memory: what was shown, paid and ended comes again, bit by bit, whoever is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from simulation import ROLES, Outcome, calm, searched, survives

BODIES = """
uid: tape
seed: 5
version: "0.1"
schedule:
  - record:
      environments:
        - environment:
            uid: lake
            name: counting
            params: {length: [4, 1, 7, 4], events: [{after: 1, spawn: bob}, {after: 3, retire: bob, spawn: bob}]}
          budget: {episodes: 2}
        - {environment: {uid: moor, name: cartpole, params: {longest: 7}}, episode_end: each, budget: {steps: 11}}
      agents:
        - {name: ada, brain: log, muscle: random, objective: aggregate_rewards}
        - {name: bob, brain: log, muscle: random}
      bodies:
        num: [2, 1]
        rules:
          - {match: {agent: ada, body: 1}, decision: {period: 3, phase: 1, between: noop}}
          - {match: {agent: bob, body: 0}, decision: {period: 2}}
        dynamic: [{agent: bob, environment: lake, max: 2}]
      simulation: {name: aeb}
  - play:
      environments:
        - {environment: {uid: lake, name: replay, params: {source: {phase: record}, map: MAP}}}
        - environment: {uid: moor, name: replay, params: {source: {phase: record}}}
          episode_end: each
          budget: {steps: 11}
"""
ORDINARY = """
uid: tape
seed: 5
version: "0.1"
schedule:
  - record:
      environments: [{environment: {uid: cart, name: cartpole}}]
      agents: [{name: ada, brain: log, muscle: random, sensors: [cart.*], actuators: [cart.*]}]
      simulation: {name: vanilla, conditions: [{name: max_steps, params: {steps: 9}}]}
      phase_config: {worker: 2, episodes: 3}
  - play:
      environments: [{environment: {uid: cart, name: replay, params: {source: {phase: record}}}}]
run_config: {condition: max_episodes}
"""
OTHERS = ("phase", "proposed", "statistics", "reason", "policy_version")


def relabelled(outcome: Outcome, phase: int) -> Any:
    """Return what gives bodies that came and went, whose numbers are never used again, numbers of their phase."""
    known: dict[Any, int] = {}
    for row in outcome.tables["bodies"]:
        if row["phase"] == phase and row["dynamic"]:
            known.setdefault((row["agent"], row["body"]), 100 + len(known))

    def name(value: Any) -> Any:
        if isinstance(value, dict):
            return {name(key): one for key, one in value.items()}
        head, _, whose = str(value).removesuffix("]").rpartition("[")
        agent, _, number = whose.rpartition("/")
        return f"{head}[{agent}/{known.get((agent, int(number)), number)}]" if head else value

    def row(given: dict[str, Any]) -> dict[str, Any]:
        found = {key: name(value) for key, value in given.items() if key not in OTHERS}
        if "body" in found:
            found["body"] = known.get((found["agent"], found["body"]), found["body"])
        return found

    return row


def told(outcome: Outcome, phase: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield each table of a phase, in an order of its own: readings, rewards, flags, applied setpoints, ends."""
    plain = relabelled(outcome, phase)
    for one in ("resets", "steps", "actions", "episodes", "returns"):
        yield one, sorted(repr(plain(row)) for row in outcome.tables[one] if row["phase"] == phase)


def played(outcome: Outcome) -> dict[str, list[Any]]:
    """Return the tables of the record, which are those of the phase that plays it."""
    first, again = dict(told(outcome, 0)), dict(told(outcome, 1))
    assert first == again
    assert all(first.values())
    proposed = [[row["proposed"] for row in outcome.tables["actions"] if row["phase"] == phase] for phase in range(2)]
    assert proposed[0] != proposed[1]  # the muscle is asked, and does not decide
    return first


CASES = {"bodies": BODIES.replace("MAP", "null"), "dealt": BODIES.replace("MAP", "any"), "ordinary": ORDINARY}


@pytest.mark.parametrize(
    ("case", "seed"),
    [
        pytest.param(case, seed, marks=[pytest.mark.long] * ((case, seed) != ("ordinary", 1)))
        for case in CASES
        for seed in range(1, 6)
    ],
)
def test_what_was_recorded_is_played_as_it_was(case: str, seed: int, results: Path) -> None:
    """Bodies that end early, come and go, decide seldom or have episodes of their own; in any order of messages."""
    assert played(calm(CASES[case], 1, results)) == played(calm(CASES[case], seed, results))


DRAWN = {
    "case": st.sampled_from(sorted(CASES)),
    "victim": st.sampled_from([*ROLES, "broker", ""]),
    "shares": st.lists(st.floats(0.0, 1.0), min_size=1, max_size=3).map(sorted),
    "tight": st.booleans(),
}


@searched(60, DRAWN, case={"case": "bodies", "victim": "environment", "shares": [0.8], "tight": True})
def test_a_loss_does_not_show_in_what_is_played(
    results: Path, case: str, victim: str, shares: list[float], tight: bool
) -> None:
    """Whoever is killed at whatever moment of the recording or the playing: the rows are those of a run in peace."""
    survives(CASES[case], results, victim, shares=shares, tight=tight, view=played)
