"""Recorded and played on the bus in memory: what was shown, paid and ended comes again, bit by bit, whoever is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from simulation import ROLES, Outcome, calm, searched, survives
from simulation.asking import Lesson

BODIES = """
uid: played
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
uid: played
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


LESSON = """
uid: lesson
seed: 9
version: "0.1"
run_config: {condition: max_episodes}
schedule:
  - record:
      environments: [{environment: {uid: room, name: "simulation.asking:Lesson"}}]
      agents:
        - name: ada
          brain: log
          muscle: {name: "simulation.asking:Remembers"}
          sensors: [room.at]
          actuators: [room.answer]
      simulation: {name: vanilla, conditions: [environment]}
      phase_config: {episodes: 6}
"""
PHASE = """
  - {name}:
      environments:
        - environment: {{uid: room, name: replay, params: {{source: {{phase: record}}{params}}}}}
          reward: {reward}
      agents: [{{name: ada, muscle: {{name: "simulation.asking:Remembers", params: {{more: 50}}}}}}]
      phase_config: {{episodes: {episodes}, worker: {workers}}}
"""
PHASES: dict[str, dict[str, Any]] = {
    "once": {},
    "shuffled": {"params": ", order: shuffled", "episodes": 12},
    "sampled": {"params": ", order: sampled", "episodes": 12},
    "own": {"params": ", actions: own"},
    "dealt": {"params": ", map: any", "workers": 2, "episodes": 3},
    "recomputed": {"params": ", reward: recompute", "reward": "{name: 'simulation.judged:Pays', params: {factor: 2}}"},
}
SHOWN = {  # readings of one environment step after the other, of an episode that was recorded as that of this number
    number: [[number, t] for t in range(1, 4)] for number in range(6)
}


@pytest.fixture(scope="module")
def lesson(results: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the decisions of each phase of a run that records and plays in many ways, with what its steps showed."""
    before = Lesson.made
    few = {"params": "", "reward": "null", "episodes": 6, "workers": 1}
    text = LESSON + "".join(PHASE.format(name=name, **{**few, **given}) for name, given in PHASES.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GANGLION_ALLOW", "simulation")
        outcome = calm(text, 1, results)
    assert before + 1 == Lesson.made  # no simulator runs
    shown = {
        (row["phase"], row["worker"], row["episode"], row["step"]): row["sensors"]["room.at"]
        for row in outcome.tables["steps"]
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ("record", *PHASES)}
    for row in outcome.tables["actions"]:
        after = shown[row["phase"], row["worker"], row["episode"], row["step"] + 1]
        found[["record", *PHASES][row["phase"]]].append({**row, "shown": list(after)})
    return found


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    """Return which recorded episodes were played, one after the other; each is whole."""
    episodes = [rows[i : i + 3] for i in range(0, len(rows), 3)]
    found = [one[0]["shown"][0] for one in episodes]
    assert [SHOWN[number] for number in found] == [[row["shown"] for row in one] for one in episodes]
    return found


def test_episodes_are_played_in_the_order_asked_for(lesson: dict[str, list[dict[str, Any]]]) -> None:
    """As recorded; all of them before any comes again; or drawn with replacement. Workers are dealt them in turn."""
    turns = [numbers(lesson["shuffled"])[:6], numbers(lesson["shuffled"])[6:]]
    sampled = numbers(lesson["sampled"])
    by_worker = [numbers([row for row in lesson["dealt"] if row["worker"] == worker]) for worker in range(2)]

    assert [*range(6)] == numbers(lesson["once"])
    assert [[*range(6)]] * 2 == [sorted(turn) for turn in turns]
    assert turns[0] != turns[1]
    assert [*range(6)] not in turns
    assert 12 == len(sampled)
    assert len(set(sampled[:6])) < 6 or len(set(sampled[6:])) < 6
    assert [[0, 2, 4], [1, 3, 5]] == by_worker


@pytest.mark.parametrize("name", ["once", "shuffled", "dealt"])
def test_forced_setpoints_are_those_of_the_record(lesson: dict[str, list[dict[str, Any]]], name: str) -> None:
    """They are applied and stored; what the muscle proposes is its own, out of a memory that begins anew each time."""
    rows = lesson[name]

    assert [0, 1, 2] * 6 == [row["setpoints"]["room.answer"] for row in lesson["record"]]
    assert [row["step"] for row in rows] == [row["setpoints"]["room.answer"] for row in rows]
    assert [50 + row["step"] for row in rows] == [row["proposed"]["room.answer"] for row in rows]


def test_own_setpoints_change_nothing_of_what_is_seen(lesson: dict[str, list[dict[str, Any]]]) -> None:
    """With `own` the muscle's are applied and stored; readings, rewards and flags are the record's all the same."""
    rows, kept = lesson["own"], ("sensors", "shown", "rewards", "terminated", "truncated")

    assert [50 + row["step"] for row in rows] == [row["setpoints"]["room.answer"] for row in rows]
    assert [[row[name] for name in kept] for row in lesson["record"]] == [[row[name] for name in kept] for row in rows]


def test_rewards_are_computed_anew_where_a_document_says_so(lesson: dict[str, list[dict[str, Any]]]) -> None:
    """`recompute` asks the reward plugin of the document, which sees what was recorded; else rewards are read."""
    paid = {name: [row["rewards"]["room.pay"] for row in rows] for name, rows in lesson.items()}

    assert [1.0, 2.0, 3.0] * 6 == paid["record"] == paid["once"]
    assert [2 * t + t for t in (1.0, 2.0, 3.0)] * 6 == paid["recomputed"]
