"""Phases whose environments wait for nobody: their rows are those of common ticks, whoever comes first or is lost."""

from __future__ import annotations

from collections import Counter
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from simulation import (
    ROLES,
    Disturbance,
    Outcome,
    Simulation,
    calm,
    kill_one,
    orders,
    read,
    searched,
    simulate,
    survives,
)

from ganglion.peer.journal import compaction
from ganglion.peer.worker.free import FreeTicks

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
        - environment: {{uid: fen, name: counting, params: {{length: 6, truncate_at: 4, verify: true{events}}}}}
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
        dynamic: {dynamic}
      phase_config: {{mode: train, worker: {workers}, conditions: {conditions}, sync: {sync}{evaluate}}}
      simulation: {{name: aeb, params: {{{params}}}}}
"""
GIVEN = {"lake": 6, "moor": 30, "rule": "all", "end": "each", "brain": "none", "rules": "[]", "workers": 1}
GIVEN |= {"events": "", "dynamic": "[]", "evaluate": ""}
GIVEN |= {"conditions": "[]", "params": "mode: free", "sync": "async"}
BARRIER = {"params": "mode: barrier", "sync": "lockstep"}
LATE = (
    "[{match: {agent: bob}, decision: {period: 3, phase: 1, between: noop}}, "
    "{match: {agent: cyd, environment: moor}, decision: {period: 4, phase: 3}}, {match: {body: 1}, learn: false}]"
)
SPAWNING = {
    "events": ", events: [{after: 1, spawn: cyd}, {after: 2, retire: cyd, spawn: cyd, group: herd, reward: 0.5}, "
    "{after: 3, group: herd, reward: 2}]",
    "dynamic": "[{agent: cyd, environment: fen, max: 2}]",
}
TABLES = ("episodes", "resets", "steps", "actions", "bodies")
MODES = ("train", "evaluate")


def text_of(**given: Any) -> str:
    """Return the document with what is given in place of what is usual."""
    more = SPAWNING if given.pop("spawns", False) else {}
    found = {**GIVEN, **more, **given}
    if more:
        found["rules"] = f"[{{match: {{environment: fen}}, group: herd}}, {found['rules'][1:]}"
    return DOCUMENT.format(**found)


def every(outcome: Outcome) -> dict[str, list[str]]:
    """Return the rows of a run that finished, but for evaluations, of each table in an order of their own.

    How many evaluations there are depends on who comes first, and so does which bodies they spawn.
    """
    assert ("finished", 0, []) == (outcome.status, outcome.exit_status, outcome.defects), outcome.reason
    body = itemgetter("agent", "environment", "body")
    modes = {mode: {body(row) for row in outcome.tables["actions"] if row["mode"] == mode} for mode in MODES}
    theirs = modes["evaluate"] - modes["train"]
    rows = {name: [row for row in outcome.tables[name] if row.get("mode") != "evaluate"] for name in TABLES}
    rows["bodies"] = [row for row in rows["bodies"] if body(row) not in theirs]
    return {name: sorted(map(repr, found)) for name, found in rows.items()}


DRAWN = {
    "workers": st.integers(1, 2),
    "brain": st.sampled_from(["none", "log"]),
    "rule": st.sampled_from(["all", "any", "each", "{body: bob/0}"]),
    "end": st.sampled_from(["all", "each"]),
    "rules": st.sampled_from(["[]", LATE]),
    "params": st.sampled_from(["mode: free", "mode: free, lead: 1", "mode: free, lead: 5"]),
    "spawns": st.booleans(),
    "evaluate": st.sampled_from(["", ", evaluate_every: 4"]),
    "seed": st.integers(0, 2**32),
}


# There is one more evaluation than with common ticks, which spawns bodies of its own.
CASE = {"workers": 1, "brain": "log", "rule": "each", "end": "each", "rules": LATE, "spawns": True, "seed": 7}
CASE |= {"params": "mode: free, lead: 5", "evaluate": ", evaluate_every: 2", "lake": 2, "moor": 5}


@searched(300, DRAWN, case=CASE)
def test_free_environments_make_the_rows_of_common_ticks(results: Path, seed: int, **given: Any) -> None:
    """Whoever comes first: the rows of environments that do not interact are those of `barrier`, as sets."""
    barrier = calm(text_of(**{**given, **BARRIER}), 1, results)

    assert every(barrier) == every(simulate(text_of(**given), seed, results))


@pytest.mark.parametrize(("mode", "sync", "least", "most"), [("barrier", "lockstep", 17, 18), ("free", "async", 0, 6)])
def test_a_slow_muscle_delays_who_waits_for_it(mode: str, sync: str, least: int, most: int, results: Path) -> None:
    """While fen makes its 12 steps, lake, whose ada is slow, makes as many as its clock says, or few if fen is free."""
    text = text_of(params=f"mode: {mode}, end: {{environment: fen}}", sync=sync, lake=99, moor=999)
    slow = Disturbance(delay=lambda _, name: 0.2 if "/muscle/ada/" in name else 0.0)
    steps = Counter(row["environment"] for row in simulate(text, 1, results, slow).tables["steps"])

    assert 12 == steps["fen"]
    assert least <= steps["lake"] <= most


# -- losses -----------------------------------------------------------------------------------------------------------
def does_not_show(results: Path, seed: int, role: str, share: float, **given: Any) -> None:
    """Assert that a run from which one process is killed makes the rows of common ticks."""
    barrier = calm(text_of(**{**given, **BARRIER}), 1, results)
    lossy = survives(text_of(**given), results, role, seed=seed, shares=[share], view=every)

    assert every(barrier) == every(lossy)


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have journals begun anew wherever they can be; return how many calls were under way where one went on."""
    for name, value in (("JOURNAL_BEGIN_BYTES", 0), ("JOURNAL_BEGIN_S", 0.0), ("_TIMES_SIZE", 0), ("_TIMES_COST", 0.0)):
        monkeypatch.setattr(compaction, name, value)
    found: list[int] = []
    restore = FreeTicks.restore

    def counted(self: FreeTicks, state: Any) -> None:
        restore(self, state)
        found.append(len(state["flights"]))

    monkeypatch.setattr(FreeTicks, "restore", counted)
    return found


@pytest.mark.parametrize("role", ["muscle", *(pytest.param(r, marks=pytest.mark.long) for r in ROLES if r != "muscle")])
def test_a_loss_does_not_show(role: str, results: Path, carried: list[int]) -> None:
    """Whoever is killed: its successor goes on from what it heard, in whatever order, and no row is lost or double."""
    does_not_show(results, 11, role, 0.6, workers=2, brain="log", rules=LATE, lake=2, moor=8)

    assert (role == "controller") == (sum(carried) > 0), "a journal begins anew while calls are under way"


@searched(300, DRAWN | {"role": st.sampled_from(ROLES), "share": st.floats(0.0, 1.0)}, few=1)
def test_many_losses_do_not_show(results: Path, **drawn: Any) -> None:
    """The same at other moments."""
    does_not_show(results, **drawn)


LOSABLE = {"environment": ["lake", "moor", "fen"], "muscle": ["ada", "bob", "cyd"]}
OF = {"ada": {"lake", "moor"}, "bob": {"lake", "moor"}, "cyd": {"moor", "fen"}} | {
    uid: {uid} for uid in ("lake", "moor", "fen")
}
GIVEN_UP = DRAWN | {"role": st.sampled_from([*LOSABLE]), "share": st.floats(0.0, 1.0), "tight": st.booleans()}
# The muscle is lost while it is idle: who asks it next meets a successor that knows nothing.
GIVEN_UP_CASE = {"workers": 1, "brain": "none", "rule": "{body: bob/0}", "end": "each", "rules": "[]", "spawns": False}
GIVEN_UP_CASE |= {"params": "mode: free, lead: 5", "seed": 2785313879, "role": "muscle", "share": 0.6749025775182691}
GIVEN_UP_CASE |= {"tight": False, "evaluate": "", "lake": 2, "moor": 8}


@searched(300, GIVEN_UP | {"evaluate": st.just("")}, case=GIVEN_UP_CASE)
def test_a_loss_costs_open_episodes(
    results: Path, seed: int, role: str, share: float, tight: bool, **given: Any
) -> None:
    """With `on_loss: restart` budgets of episodes are made all the same, and whom it does not concern has its rows."""
    text = text_of(**given).replace("      simulation:", "      recovery: {on_loss: restart}\n      simulation:")
    plain = simulate(text, seed, results)
    moment = int(share * plain.events)
    simulation = Simulation(read(text), seed, results, Disturbance([(moment, partial(kill_one, role))]))
    simulation.tight = tight
    lossy = simulation.carry_out()
    every(lossy)
    whole(lossy)
    reasons = {row["reason"] for row in lossy.tables["episodes"] if row["reason"].startswith("lost")}
    names = {f"lost: {kind} {uid}": uid for kind, uids in LOSABLE.items() for uid in uids}

    assert len(reasons) <= 1
    assert reasons <= names.keys()
    touched = {uid for reason in reasons for uid in OF[names[reason]]}
    if role == "environment" and not reasons:  # one was lost between episodes: a new object counts its own
        touched = {"lake", "moor", "fen"}
    counts, found = (
        Counter((row["worker"], row["environment"]) for row in it.tables["episodes"] if row["reason"] not in reasons)
        for it in (plain, lossy)
    )
    for place, count in counts.items():
        assert place[1].startswith("moor") or found[place] == count  # moor's budget is of steps
    for uid in {"lake", "moor", "fen"} - touched:
        rows = [sorted(repr(row) for row in it.tables["steps"] if row["environment"] == uid) for it in (plain, lossy)]
        assert rows[0] == rows[1]


# -- ends -------------------------------------------------------------------------------------------------------------
AVERAGE = "[{name: agent_objective, params: {ada: {phase_avg2: 5}}}]"


def whole(outcome: Outcome) -> list[Any]:
    """Return worker, environment, episode and reason of episodes; those of environments have all their steps."""
    key = itemgetter("mode", "worker", "environment", "episode")
    episodes = outcome.tables["episodes"]
    own = {row["environment"] for row in episodes if "[" not in row["environment"]}
    counted = Counter(key(row) for row in outcome.tables["steps"] if row["environment"] in own)
    assert counted == Counter({key(row): row["steps"] for row in episodes if row["environment"] in own})
    assert all(row["terminated"] != row["truncated"] for row in episodes)
    return [(*key(row)[1:], row["reason"]) for row in episodes]


@pytest.mark.parametrize("end", ["any", "{environment: moor}"])
def test_an_end_is_noticed_while_others_step(end: str, results: Path) -> None:
    """All environments finish the steps that they are in; who has a budget left is closed as truncated."""
    outcome = simulate(text_of(params=f"mode: free, end: {end}", lake=2, moor=3, workers=2), 3, results)
    every(outcome)
    reasons = {(worker, uid): reason for worker, uid, _, reason in whole(outcome) if uid.startswith("fen")}

    assert "budget" == outcome.tables["phases"][0]["reason"]
    assert {"truncated: phase end"} == set(reasons.values())


@pytest.mark.parametrize("workers", [1, 2])
def test_a_condition_of_the_phase_ends_it_in_all_workers(workers: int, results: Path) -> None:
    """The governor hears of episodes as they end, and whoever runs on is told to stop; the signal is recorded once."""
    given = {"lake": 999, "moor": 9999, "end": "all", "conditions": AVERAGE, "workers": workers}
    outcome = simulate(text_of(**given), 5, results)
    every(outcome)
    [signal] = outcome.tables["signals"]

    assert ("STOP_PHASE", "condition:agent_objective", None) == tuple(signal[k] for k in ("signal", "issuer", "worker"))
    assert "truncated: phase end" in {reason for _, _, _, reason in whole(outcome)}
    assert set(range(workers)) == {row["worker"] for row in outcome.tables["episodes"]}


LATER = 300  # events that a pause lasts, at least
SIGNALS = ["RESET", "RESTART", "PAUSE", "STOP_SIMULATION", "STOP_PHASE", "SHUTDOWN"]
ORDERS = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.sampled_from(SIGNALS), st.sampled_from([None, None, 0, 1])),
    min_size=1,
    max_size=3,
)


@searched(300, DRAWN | {"given_orders": ORDERS, "conditions": st.sampled_from(["[]", AVERAGE])})
def test_any_signal_leaves_whole_episodes(results: Path, seed: int, given_orders: Any, **given: Any) -> None:
    """Whatever operators signal at whatever moment, all environments stand, begin anew or end in order."""
    plan = read(text_of(**given))
    length = Simulation(plan, seed, results, stored=False).carry_out().events
    acts = sorted(orders(given_orders, length, LATER), key=lambda act: act[0])
    outcome = Simulation(plan, seed, results, Disturbance(acts)).carry_out()
    every(outcome)
    whole(outcome)
