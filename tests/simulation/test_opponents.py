"""Bodies that decide by stored and by drawn models: who plays by what, who learns, who is rated, and losses."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from numpy.random import default_rng
from simulation import ROLES, Outcome, calm, searched, sets, simulate, survives

from ganglion.peer.step.opponents import rated
from ganglion.sdk.seed import stream

DOCUMENT = """
uid: duel
seed: {seed}
version: "0.1"
schedule:
  - warm:
      environments: [{{environment: {{uid: lake, name: counting, params: {{length: 5}}}}, budget: {{episodes: 3}}}}]
      agents: [{{name: ada, brain: {{name: log, params: {{update_every: 2}}}}, muscle: "simulation.talking:Telling"}}]
      simulation: {{name: aeb}}
  - duel:
      environments:
        - {{environment: {{uid: lake, name: counting, params: {{length: {lengths}}}}}, budget: {{steps: {steps}}}}}
      bodies: {{num: {num}, rules: {rules}}}
      phase_config: {{worker: {workers}}}
      simulation: {{name: aeb}}
"""
RED = "{{match: {{body: 1}}, team: red, policy: {{source: pool, window: 4, latest: 0.25, snapshot_every: 30, {more}}}}}"
BLUE = "{match: {body: 2}, team: blue, policy: pool}, {match: {body: 3}, policy: frozen}"
RULES = f"[{RED.format(more='swap_every: 15')}, {BLUE}]"
FEW = {"seed": 5, "lengths": 6, "steps": 120, "num": 4, "rules": RULES, "workers": 1}


def run(results: Path, **given: Any) -> Outcome:
    """Run the document, which must end well."""
    return calm(DOCUMENT.format(**{**FEW, **given}), 1, results)


def drawn(outcome: Outcome, worker: int, body: int) -> list[tuple[int, int]]:
    """Return tick and version of each draw for a body."""
    rows = [row for row in outcome.tables["opponents"] if (row["worker"], row["body"]) == (worker, body)]
    return [(row["tick"], row["version"]) for row in rows]


def acted(outcome: Outcome) -> dict[tuple[int, int], list[tuple[int, Any, Any]]]:
    """Return tick, version and what was set of all decisions of a body of a worker in the second phase."""
    found: dict[tuple[int, int], list[tuple[int, Any, Any]]] = defaultdict(list)
    for row in outcome.tables["actions"]:
        if row["phase"] == 1:
            [told] = row["setpoints"].values()
            found[row["worker"], row["body"]].append((row["tick"], row["policy_version"], told))
    return {key: sorted(rows) for key, rows in found.items()}


# -- draws ------------------------------------------------------------------------------------------------------------
def test_opponents_are_those_of_the_stream_and_bodies_act_by_them(results: Path) -> None:
    """Every 15 decisions u is drawn; below 0.25 it is the current model, else one of the four newest snapshots.

    The current model is followed, a drawn one stays until the next draw, a stored one for ever.
    """
    duel = run(results, workers=2)
    learned = 8  # decisions of both workers in each tick but the first
    for worker in (0, 1):
        path = ("phase", "duel", "agent", "ada", "opponents", "worker", worker, "team", "red")
        rng, expected = default_rng(stream(5, path)), []
        for tick in range(0, 120, 15):
            pool = []
            for call in range(1, tick):  # of the brain, before this tick
                if call * learned // 30 > (call - 1) * learned // 30 and call // 2:
                    pool.append(call // 2)
            pool = pool[-4:]
            current = rng.random() < 0.25 or not pool
            expected.append((tick, max(tick - 1, 0) // 2 if current else pool[rng.integers(len(pool))]))
        assert expected == drawn(duel, worker, 1)

    rows = acted(duel)
    [stored] = {told for (_, body), found in rows.items() if body == 3 for _, _, told in found}

    assert stored == (5 * 3 - 1) // 2
    assert {(None, stored)} == {row[1:] for row in rows[0, 3]}
    for worker in (0, 1):
        draws = dict(drawn(duel, worker, 1))
        assert [(tick, tick // 2, tick // 2) for tick in range(120)] == rows[worker, 0]
        assert [(tick, draws[tick - tick % 15]) for tick in range(120)] == [row[:2] for row in rows[worker, 1]]
        # The first is the model with which the phase began: of this phase it is no update.
        assert {stored} == {told for _, _, told in rows[worker, 1][:15]}
        assert all(version == told for _, version, told in rows[worker, 1][15:])
    assert ["latest", "pool", "pool", "frozen"] == [r["policy"] for r in duel.tables["bodies"] if r["phase"] == 1]


# -- turns ------------------------------------------------------------------------------------------------------------
TURNS = """[{{match: {{body: [0, 1]}}, team: red, policy: &p {{source: pool, latest: 0, snapshot_every: 8, {keys}}}}},
                {{match: {{body: 2}}, team: blue, policy: *p}}]"""


def test_teams_take_turns(results: Path) -> None:
    """One learns by the current model for so many decisions; the others play by snapshots, and nobody hears of it."""
    rules = TURNS.format(keys="swap_every: 7, rotate_every: 20")
    outcome = run(results, num=3, rules=rules, steps=90)
    rows = acted(outcome)
    # Red has two bodies: 20 decisions are 10 ticks, of blue they are 20.
    turns = ["red" if tick % 30 < 10 else "blue" for tick in range(90)]
    for tick, team in enumerate(turns):
        mine, others = ([0, 1], [2]) if team == "red" else ([2], [0, 1])
        for body in mine:
            assert tick < 2 or rows[0, body][tick] == (tick, tick // 2, tick // 2), (tick, body)
        for body in others:
            assert rows[0, body][tick][1] <= tick // 2
    swaps = {body: [tick for tick, _ in drawn(outcome, 0, body)] for body in range(3)}
    assert [0, 10, 14, 18, 22, 26, 30] == swaps[0][:7] == swaps[1][:7]
    assert [0, 7, 10, 30, 37, 40] == swaps[2][:6]


# -- ratings ----------------------------------------------------------------------------------------------------------
RACE = """
uid: race
seed: 5
version: "0.1"
schedule:
  - race:
      environments: [{environment: {uid: track, name: race, params: {length: 2}}, budget: {episodes: 20}}]
      agents: [{name: ada, brain: {name: log, params: {update_every: 9}}, muscle: random}]
      bodies:
        num: 4
        rules:
          - {match: {body: [1, 2]}, team: red}
          - {match: {body: 2}, policy: {source: pool, snapshot_every: 9, swap_every: 9, rating: {k: 8}}}
      simulation: {name: aeb}
"""


def test_sides_are_rated_by_their_returns(results: Path) -> None:
    """After each episode, by the returns of all: bodies of one team are one side, a body of none is one by itself."""
    outcome = simulate(RACE, 1, results)
    returns: dict[int, dict[int, float]] = defaultdict(dict)
    for row in outcome.tables["returns"]:
        returns[row["episode"]][row["body"]] = row["return"]
    ratings, expected, tick = [1200.0, 1200.0, 1200.0], [], -1
    steps = {row["episode"]: row["steps"] for row in outcome.tables["episodes"]}
    for episode, own in sorted(returns.items()):
        tick += steps[episode]
        ratings = rated(ratings, [own[0], own[1] + own[2], own[3]], 8)
        expected += [(tick, body, ratings[side]) for body, side in ((0, 0), (1, 1), (2, 1), (3, 2))]
    found = [(row["tick"], row["body"], row["rating"]) for row in outcome.tables["ratings"]]

    assert sorted(expected) == sorted(found)
    assert len(found) == 80


# -- what brains are told ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "batches"),
    [
        (
            {
                "rules": "[{match: {body: 1}, policy: pool}, {match: {body: 3}, policy: frozen, learn: false}]",
                "steps": 20,
                "num": 5,
            },
            [[0]] * 15 + [[0, 1, 2, 4]] * 20,
        ),
        (
            {"rules": TURNS.format(keys="swap_every: 7, rotate_every: 20"), "steps": 60, "num": 3},
            [[0]] * 15 + ([[0, 1]] * 10 + [[2]] * 20) * 2,
        ),
    ],
    ids=["agent", "turns"],
)
def test_brain_is_told_in_agent_view(given: Any, batches: list[Any], tmp_path: Path, results: Path) -> None:
    """One batch of a tick has all bodies, but for those that do not learn, and for teams whose turn it is not."""
    text = DOCUMENT.format(**{**FEW, **given})
    simulate(text.replace("update_every: 2", f"update_every: 2, path: {tmp_path / 'log'}"), 1, results)

    assert batches == [json.loads(line)["body"] for line in (tmp_path / "log").read_text().splitlines()]


# -- orders -----------------------------------------------------------------------------------------------------------
TWO = """
uid: two
seed: 5
version: "0.1"
schedule:
  - duel:
      environments:
        - {{environment: {{uid: lake, name: counting, params: {{length: 5}}}}, budget: {{steps: 60}}}}
        - {{environment: {{uid: moor, name: counting}}, clock: {{period: 2}}, budget: {{steps: 30}}, episode_end: each}}
      agents:
        - {{name: ada, brain: {{name: log, params: {{update_every: 2}}}}, muscle: random, filters: [{{name: norm}}]}}
        - {{name: bob, brain: {{name: log, params: {{update_every: 3}}}}, muscle: random, filters: [{{name: norm}}]}}
      bodies: {{num: 2, rules: [{rules}]}}
      phase_config: {{worker: 2, sync: {sync}, evaluate_every: 9}}
      simulation: {{name: aeb}}
"""
OTHER = "{match: {agent: bob, body: 1}, policy: {source: pool, agent: ada, snapshot_every: 20, swap_every: 7}}"
APART = """{match: {agent: ada}, team: red,
            policy: &p {source: pool, snapshot_every: 9, swap_every: 7, rotate_every: 9}},
           {match: {agent: bob}, team: blue, policy: *p}"""
SOME = """{match: {body: 1}, policy: {source: pool, snapshot_every: 20, swap_every: 7}},
          {match: {body: 1, agent: bob}, learn: false}"""


@pytest.mark.long
@pytest.mark.parametrize("sync", ["lockstep", "pipelined"])
@pytest.mark.parametrize("rules", [OTHER, APART, SOME])
def test_who_is_faster_does_not_show(rules: str, sync: str, results: Path) -> None:
    """Whatever comes first: two workers, agents of one team each, filters, and evaluations give the same tables."""
    text = TWO.format(rules=rules, sync=sync)
    first, other = (calm(text, seed, results) for seed in (1, 2))

    assert sets(first, tuple(first.tables)) == sets(other, tuple(first.tables))
    assert first.tables["opponents"]


# -- losses -----------------------------------------------------------------------------------------------------------
TABLES = ("phases", "episodes", "resets", "steps", "actions", "bodies", "opponents", "ratings")
KINDS = {"plain": RULES, "turns": TURNS.format(keys="swap_every: 7, rotate_every: 20")}
DRAWN = {
    "workers": st.integers(1, 2),
    "rules": st.sampled_from([*KINDS.values()]),
    "seed": st.integers(0, 2**32),
    "share": st.floats(0.0, 1.0),
    "tight": st.booleans(),
    "victim": st.sampled_from(["", *ROLES]),
}
CASE = {"workers": 2, "rules": RULES, "seed": 3, "share": 0.6, "tight": False, "victim": "controller"}


def does_not_show(results: Path, share: float, tight: bool, victim: str, seed: int, **given: Any) -> None:
    """Assert that a run from which one process is killed gives the tables of the undisturbed run."""
    text = DOCUMENT.format(**{**FEW, "steps": 60, **given})
    survives(text, results, victim, seed=seed, shares=[share], tight=tight, view=partial(sets, tables=TABLES))


@pytest.mark.parametrize(
    "victim", ["controller", *(pytest.param(role, marks=pytest.mark.long) for role in ("brain", "muscle"))]
)
def test_a_loss_behind_a_new_begin_does_not_show(victim: str, results: Path) -> None:
    """Where journals have begun anew, successors go on with turns, draws, models and ratings."""
    does_not_show(results, seed=1, share=0.7, tight=True, victim=victim, rules=KINDS["turns"], steps=40)


@searched(200, DRAWN, case=CASE)
def test_a_loss_does_not_show_in_what_is_played(results: Path, **drawn: Any) -> None:
    """Whoever is killed at whatever moment: draws, turns, models and ratings are those of a run in peace."""
    does_not_show(results, **drawn)
