"""Documents with bodies: what ends their phases, in one worker and in two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from simulation import (
    Disturbance,
    Outcome,
    Simulation,
    forms,
    kill_one,
    orders,
    read,
    searched,
    sets,
    simulate,
    survives,
)

DOCUMENT = """
uid: two
seed: 1
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {{uid: lake, name: counting, params: {{length: 4}}}}
          clock: {{period: 2}}
          budget: {{episodes: {lake}}}
        - environment: {{uid: moor, name: counting, params: {{length: 6}}}}
          budget: {{episodes: {moor}}}
          episode_end: {end}
      agents:
        - {{name: ada, brain: {brain}, muscle: echo, objective: aggregate_rewards, filters: {filters}}}
        - {{name: bob, brain: none, muscle: echo, objective: aggregate_rewards}}
      bodies: {{num: [2, 1]}}
      recovery: {{on_loss: {on_loss}}}
      phase_config: {{mode: train, worker: {workers}, conditions: {conditions}{evaluate}}}
      simulation: {{name: aeb}}
"""
AVERAGE = "[{{name: agent_objective, params: {{ada: {{phase_avg{n}: {least}}}}}}}]"
EVALUATES = ", evaluate_every: {every}, evaluate_episodes: 2"
FEW = {"brain": "none", "workers": 1, "lake": 60, "moor": 90, "end": "all", "conditions": "[]", "evaluate": ""}
FEW |= {"on_loss": "recover", "filters": "[]"}


def run(tmp_path: Path, **given: Any) -> Outcome:
    """Run the document and check that it finished as it should."""
    tmp_path.mkdir(exist_ok=True)
    outcome = simulate(DOCUMENT.format(**{**FEW, **given}), 1, tmp_path)
    assert ("finished", "completed", 0, []) == (outcome.status, outcome.reason, outcome.exit_status, outcome.defects)
    keys = ("worker", "environment", "episode")
    found = [tuple(row[key] for key in keys) for row in outcome.tables["episodes"] if row["mode"] == "train"]
    counts = Counter(place[:2] for place in found)
    assert sorted(found) == sorted((*place, number) for place, count in counts.items() for number in range(count))
    return outcome


def episodes(outcome: Outcome, worker: int) -> list[tuple[Any, ...]]:
    """Return environment, number, steps and reason of a worker's episodes, in the order of their ends."""
    keys = ("environment", "episode", "steps", "reason")
    rows = outcome.tables["episodes"]
    return [tuple(row[key] for key in keys) for row in rows if (row["worker"], row["mode"]) == (worker, "train")]


ENDED = "terminated"
CUT = "truncated: phase end"
# moor's episodes of 6 steps end at ticks 5, 11, 17; lake's of 4 at ticks 6, 14.
FIRST = [("moor", 0, 6, ENDED), ("lake", 0, 4, ENDED), ("moor", 1, 6, ENDED)]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("count", "least", "rows"),
    [
        (1, 9, [("moor", 0, 6, ENDED), ("lake", 0, 3, CUT)]),
        (2, 5, [*FIRST[:2], ("moor", 1, 1, CUT)]),
        (3, 6, [*FIRST, ("lake", 1, 2, CUT)]),
    ],
)
def test_mean_of_episodes_ends_a_phase_where_they_ended(
    tmp_path: Path, workers: int, count: int, least: float, rows: list[Any]
) -> None:
    """One mean per ended episode of an environment counts; in no worker a tick more is made."""
    outcome = run(tmp_path, workers=workers, conditions=AVERAGE.format(n=count, least=least))
    [signal] = outcome.tables["signals"]

    assert [sorted(rows)] * workers == [sorted(episodes(outcome, worker)) for worker in range(workers)]
    assert ("STOP_PHASE", "condition:agent_objective", None) == tuple(signal[k] for k in ("signal", "issuer", "worker"))
    assert signal["reason"] == outcome.tables["phases"][0]["reason"]


def test_a_brain_alone_changes_nothing(tmp_path: Path) -> None:
    """A single worker whose brain learns ends at the same tick."""
    given = {"conditions": AVERAGE.format(n=3, least=6)}
    plain, learning = (run(tmp_path / brain, brain=brain, **given) for brain in ("none", "log"))

    assert episodes(plain, 0) == episodes(learning, 0)


def test_conditions_that_are_never_met_leave_it_to_the_budgets(tmp_path: Path) -> None:
    """Then the phase's reason is `budget`, and each worker's end is recorded once."""
    outcome = run(tmp_path, workers=2, lake=2, moor=3, conditions=AVERAGE.format(n=2, least=10**6))
    keys = ("worker", "signal", "issuer", "reason")

    assert "budget" == outcome.tables["phases"][0]["reason"]
    assert [(worker, "STOP_SIMULATION", "controller", "budget") for worker in (0, 1)] == [
        tuple(row[key] for key in keys) for row in outcome.tables["signals"]
    ]
    assert {ENDED} == {row["reason"] for row in outcome.tables["episodes"]}


def test_end_of_an_environment_ends_a_phase(tmp_path: Path) -> None:
    """The condition `environment` of a phase is not about single episodes: it is asked beside budgets."""
    outcome = run(tmp_path, conditions="[{name: environment, params: {when: [lake]}}]")

    assert "environment" == outcome.tables["phases"][0]["reason"]
    assert sorted([*FIRST[:2], ("moor", 1, 1, CUT)]) == sorted(episodes(outcome, 0))


@pytest.mark.parametrize("conditions", ["[max_episodes]", "[vanilla]", "[{name: max_steps, params: {steps: 99}}]"])
def test_limits_add_nothing_to_budgets(tmp_path: Path, conditions: str) -> None:
    """Of conditions that budgets replace, nobody is asked."""
    outcome = run(tmp_path, lake=1, moor=2, conditions=conditions)

    assert "budget" == outcome.tables["phases"][0]["reason"]
    assert sorted(FIRST) == sorted(episodes(outcome, 0))


def test_episodes_of_bodies_count_each(tmp_path: Path) -> None:
    """With `each` two agents' bodies in moor end at one tick, in two episodes."""
    outcome = run(tmp_path, end="each", conditions=AVERAGE.format(n=1, least=9))
    rows = [("lake", 0, 3, CUT), ("moor[ada/0]", 0, 6, ENDED), ("moor[bob/0]", 0, 6, ENDED)]

    assert rows == sorted(episodes(outcome, 0))


# -- evaluations ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("end", "workers"), [("all", 1), pytest.param("each", 2, marks=pytest.mark.long)])
def test_an_evaluation_makes_its_episodes_of_every_environment(tmp_path: Path, workers: int, end: str) -> None:
    """It is due by the episodes of all environments and workers; it is on copies, and its numbers count on."""
    given = {"workers": workers, "lake": 3, "moor": 4, "end": end, "evaluate": EVALUATES.format(every=3)}
    plain, outcome = run(tmp_path / "plain", **{**given, "evaluate": ""}), run(tmp_path / "evaluated", **given)
    kept = ("mode", "worker", "environment", "episode", "steps", "reason")
    rows = [[tuple(row[key] for key in kept) for row in it.tables["episodes"]] for it in (plain, outcome)]
    evaluated = [row for row in rows[1] if row[0] == "evaluate"]
    names = ["lake", "moor"] if end == "all" else ["lake", "moor[ada/0]", "moor[bob/0]"]
    told = [(row["agent"], row["number"]) for row in outcome.tables["evaluations"]]
    count = len(told) // 2

    assert sorted(rows[0]) == sorted(row for row in rows[1] if row not in evaluated)
    assert [(agent, number) for number in range(count) for agent in ("ada", "bob")] == told
    assert len(rows[0]) // 3 >= count > 1
    assert {ENDED} == {row[5] for row in evaluated}
    assert sorted(row[1:4] for row in evaluated) == [
        (worker, name, number) for worker in range(workers) for name in names for number in range(2 * count)
    ]


def test_a_mean_of_an_evaluation_ends_a_phase(tmp_path: Path) -> None:
    """The metrics of an agent are means over episodes; a condition that reads them is asked when they have come."""
    conditions = "[{name: evaluation_objective, params: {agents: {ada: {success: {metric: steps, threshold: 5}}}}}]"
    outcome = run(tmp_path, brain="log", conditions=conditions, evaluate=EVALUATES.format(every=2))
    ada, bob = (row["metrics"] for row in outcome.tables["evaluations"])

    assert sorted([*FIRST[:2], ("moor", 1, 1, CUT)]) == sorted(episodes(outcome, 0))
    assert "success: ada steps 5 >= 5" == outcome.tables["phases"][0]["reason"]
    assert 5.0 == ada["steps"] == bob["steps"]


@pytest.mark.parametrize("end", ["all", "each"])
def test_first_readings_are_recorded(tmp_path: Path, end: str) -> None:
    """Each episode has one observation more than steps: the first, at step 0, where the one before has ended."""
    outcome = run(tmp_path, lake=2, moor=3, end=end)
    first = {(row["environment"], row["episode"], *row["sensors"]): row for row in outcome.tables["resets"]}
    moor = [("moor.observation[ada/0]",), ("moor.observation[bob/0]",)] if end == "each" else [("moor",)]

    assert len(first) == len(outcome.tables["resets"]) == 2 + 3 * len(moor) == len(outcome.tables["episodes"])
    for (_, episode, *_), row in first.items():
        at = {"lake": 8, "moor": 6}[row["environment"]] * episode
        assert (0, max(0, at - (row["environment"] == "lake"))) == (row["step"], row["tick"])
        assert {(episode, 0)} == {tuple(values[1:3]) for values in row["sensors"].values()}


# -- filters -----------------------------------------------------------------------------------------------------------
ALONE = """
uid: alone
seed: 3
version: "0.1"
schedule:
  - train:
      environments: [{{environment: {{uid: lake, name: counting, params: {{length: 6, anonymous: true}}}}{budget}}}]
      agents:
        - {{name: ada, brain: {brain}, muscle: {muscle}, objective: aggregate_rewards, filters: {filters},
           sensors: [lake.observation], actuators: [lake.answer]}}
      phase_config: {{mode: train, worker: 1, episodes: 4}}
      simulation: {simulation}
      {bodies}
run_config: {{condition: vanilla}}
"""
VANILLA = {"budget": "", "simulation": "{name: vanilla}", "bodies": ""}
BODIES = {"budget": ", budget: {episodes: 4}", "simulation": "{name: aeb}"}
STACK = (
    "[{name: merge_steps, params: {steps: 3, merge_actuators: true}}, delta_action, "
    "{name: norm, params: {batch_size: 2, norm_objective_after: 3}}]"
)


def decisions(tmp_path: Path, **given: Any) -> list[list[Any]]:
    """Return what each body read, set, proposed and earned in its decisions, without the names of bodies."""
    tmp_path.mkdir()
    outcome = simulate(ALONE.format(**given), 1, tmp_path)
    assert ("finished", []) == (outcome.status, outcome.defects), outcome.reason
    keys = ("sensors", "setpoints", "proposed", "rewards")
    also = ("episode", "step", "objective", "terminated", "truncated")
    found: list[list[Any]] = [[] for _ in range(1 + max(row["body"] for row in outcome.tables["actions"]))]
    for row in outcome.tables["actions"]:
        values = [list(row[key].values()) for key in keys]
        found[row["body"]].append([*values, *(row[key] for key in also)])
    return found


@pytest.mark.parametrize("filters", ["[delta_obs, {name: action_time_shift, params: {steps: 2}}, delta_action]", STACK])
def test_filters_of_a_body_are_those_of_an_agent(tmp_path: Path, filters: str) -> None:
    """One body is filtered as an agent is whose phase has none, both halves, what they publish included."""
    given = {"filters": filters, "brain": "log", "muscle": "echo"}
    bodies = decisions(tmp_path / "bodies", **given, **BODIES, bodies="bodies: {num: 1}")

    assert decisions(tmp_path / "plain", **given, **VANILLA) == bodies


@pytest.mark.parametrize("filters", ["[delta_obs, merge_steps, delta_action]", "[delta_obs]"])
def test_each_body_has_filters_of_its_own(tmp_path: Path, filters: str) -> None:
    """Histories are per body: bodies that do not interact are filtered as if each was alone."""
    given = {"filters": filters, "brain": "log", "muscle": "echo"} | BODIES
    alone = decisions(tmp_path / "one", **given, bodies="bodies: {num: 1}")

    assert alone * 3 == decisions(tmp_path / "three", **given, bodies="bodies: {num: 3}")


def test_a_filter_of_all_bodies_shows_what_one_of_each_shows(tmp_path: Path) -> None:
    """Where all filters take arrays each is one object, which is asked once; beside one that does not, one per body."""
    whole = "delta_obs, {name: norm, params: {batch_size: 2}}, 'simulation.forms:Witness'"
    given = {"brain": "log", "muscle": "echo", **BODIES, "bodies": "bodies: {num: 3}"}
    found, asked = [], []
    for filters in (whole, f"{whole}, 'simulation.forms:Plain'"):
        forms.Witness.asked.clear()
        found.append(decisions(tmp_path / str(len(filters)), filters=f"[{filters}]", **given))
        asked.append({*forms.Witness.asked})

    assert [{3}, {1}] == asked
    assert found[0] == found[1]


RULES = "{match: {body: 1}, learn: false}, {match: {body: 2}, reward: {scale: 2}}"


@pytest.mark.parametrize("filters", ["[]", STACK])
def test_objects_and_arrays_are_filtered_alike(tmp_path: Path, filters: str) -> None:
    """Muscles and brains that take arrays see what those see that are one object per body."""
    objects, arrays = (
        decisions(
            tmp_path / form,
            filters=filters,
            muscle=f"'simulation.forms:{form}Muscle'",
            brain=f"'simulation.forms:{form}Brain'",
            **BODIES,
            bodies=f"bodies: {{num: 3, rules: [{RULES}]}}",
        )
        for form in ("Object", "Array")
    )

    assert objects == arrays
    assert objects[0] != objects[2]


# -- rewards and transformers of a document ---------------------------------------------------------------------------
JUDGED = """
uid: judged
seed: 3
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {{uid: lake, name: counting, params: {{length: [2, 4, 3], anonymous: true}}}}
          budget: {{episodes: 3}}
          episode_end: {end}
          reward: {reward}
          state_transformer: {transformer}
      agents: [{{name: ada, brain: log, muscle: echo, objective: aggregate_rewards}}]
      bodies: {{num: 3, rules: {rules}}}
      simulation: {{name: aeb}}
"""
FORMS = {"reward": ("Pays", "PaysAll"), "transformer": ("Shifts", "ShiftsAll")}


def judged(tmp_path: Path, **given: Any) -> Outcome:
    """Run the document with these parts, each a class of ours or null."""
    names = {key: given.get(key) or "null" for key in ("reward", "transformer")}
    names = {key: name if name == "null" else f"'simulation.judged:{name}'" for key, name in names.items()}
    text = JUDGED.format(**names, end=given.get("end", "all"), rules=given.get("rules", "[]"))
    tmp_path.mkdir(exist_ok=True)
    outcome = simulate(text, 1, tmp_path)
    assert ("finished", []) == (outcome.status, outcome.defects), outcome.reason
    return outcome


@pytest.mark.parametrize("end", ["all", "each"])
def test_rewards_and_transformers_judge_each_body(tmp_path: Path, end: str) -> None:
    """One object for each body and one for all give the same rows, in which rewards and readings are the document's."""
    objects, arrays = (
        judged(tmp_path / str(form), end=end, **{kind: names[form] for kind, names in FORMS.items()}) for form in (0, 1)
    )
    for name in ("episodes", "resets", "actions"):
        left_out = {"run"}
        rows = [[{k: v for k, v in r.items() if k not in left_out} for r in o.tables[name]] for o in (objects, arrays)]
        assert rows[0] == rows[1]

    for row in objects.tables["actions"]:
        assert [1000, 1000 + row["episode"], 1000 + row["step"], 1000] == row["sensors"]["lake.observation"]
        t = row["step"] + 1
        assert 2 * t / 1000 + t == pytest.approx(row["rewards"]["lake.reward"])
    assert {1000} == {values[2] for row in objects.tables["resets"] for values in row["sensors"].values()}
    left = [row["world_state"] for row in objects.tables["steps"] if row["world_state"]]
    assert {"ada/0", "ada/1", "ada/2"} == {name for state in left for name in state}


def test_a_body_may_have_a_reward_of_its_own(tmp_path: Path) -> None:
    """That of a rule takes the place of the environment's, before scale, offset and bounds; a later rule overrides."""
    rules = (
        "[{match: {body: [0, 1]}, reward: {name: 'simulation.judged:Pays', params: {factor: 0}}}, "
        "{match: {body: 1}, reward: {params: {factor: -1000}, scale: 2, clip: [-5, 5]}}]"
    )
    outcome = judged(tmp_path, rules=rules)
    earned = [
        [row["rewards"]["lake.reward"] for row in outcome.tables["actions"] if row["body"] == b] for b in range(3)
    ]

    assert [[1, 2] * 3, [0] * 12, [0.001, 0.002, 0.003] * 3] == earned
    raw = [row["rewards"].get("lake.reward[ada/1]") for row in outcome.tables["steps"]]
    assert [0] * 12 == raw


def test_a_reward_may_pay_what_the_environment_does_not(tmp_path: Path) -> None:
    """It says before the first step what that is, and sees the readings before a transformer does."""
    outcome = judged(tmp_path, reward="Level", transformer="Shifts")

    assert all({"lake.level": row["episode"] + row["step"] + 1} == row["rewards"] for row in outcome.tables["actions"])


def test_an_excused_reward_leaves_what_the_environment_pays(tmp_path: Path) -> None:
    """What it raises for one body is noted, and concerns no other."""
    rules = "[{match: {body: 1}, reward: {name: 'simulation.judged:Fails', params: {factor: 0}, on_error: continue}}]"
    outcome = judged(tmp_path, rules=rules)
    rows = [row for row in outcome.tables["actions"] if row["body"] == 1 and row["episode"] == 0]

    assert [1, 2, 0.003, 4] == [row["rewards"]["lake.reward"] for row in rows]
    assert {("CONTINUE", "reward:lake")} == {(row["signal"], row["issuer"]) for row in outcome.tables["signals"][:3]}


@pytest.mark.parametrize("seed", range(2))
def test_a_loss_does_not_show_where_rewards_have_a_state(results: Path, seed: int) -> None:
    """A successor of the environment has the rewards and transformers where they stood."""
    text = JUDGED.format(
        reward="'simulation.judged:Pays'",
        transformer="'simulation.judged:Shifts'",
        rules="[]",
        end="each" if seed % 2 else "all",
    )
    view = partial(sets, tables=TABLES)
    survives(text, results, "environment", seed=seed, shares=[(2 + seed) / 8], tight=True, view=view)


# -- what was applied --------------------------------------------------------------------------------------------------
APPLIED = """
uid: applied
seed: 3
version: "0.1"
schedule:
  - train:
      environments: [{{environment: {{uid: lake, name: counting, params: {{length: 9}}}}, budget: {{episodes: 1}}}}]
      agents: [{{name: ada, brain: 'simulation.judged:Hears', muscle: 'simulation.judged:{muscle}'}}]
      bodies: {{rules: [{{decision: {{period: 3, phase: 1, between: {between}}}}}]}}
      simulation: {{name: aeb}}
"""


@pytest.mark.parametrize("muscle", ["Notices", "NoticesAll"])
@pytest.mark.parametrize(("between", "last"), [("repeat", [10, 20]), ("noop", [-1, -1]), ("zero", [0, 0])])
def test_what_was_applied_comes_back_with_the_next_row(
    results: Path, muscle: str, between: str, last: list[int]
) -> None:
    """Muscle and brain are told what was applied in the last step, beside what was decided."""
    outcome = simulate(APPLIED.format(muscle=muscle, between=between), 1, results)
    assert ("finished", []) == (outcome.status, outcome.defects), outcome.reason
    noted = [row["statistics"] or {} for row in outcome.tables["actions"]]

    assert [None, *last] == [row.get("muscle") for row in noted]
    assert [(last[0], 10), (last[1], 20)] == [(row["brain.brain"], row["brain.decided"]) for row in noted][:2]


# -- losses -----------------------------------------------------------------------------------------------------------
TABLES = ("phases", "signals", "episodes", "resets", "steps", "actions", "bodies", "evaluations")
NORM = "[{name: merge_steps, params: {merge_actuators: true}}, {name: norm, params: {batch_size: 3}}]"
DRAWN = {
    "workers": st.integers(1, 2),
    "brain": st.sampled_from(["none", "log"]),
    "end": st.sampled_from(["all", "each"]),
    "filters": st.sampled_from(["[]", "[delta_obs, delta_action]", NORM]),
    "evaluate": st.sampled_from(["", EVALUATES.format(every=2)]),
    "seed": st.integers(0, 2**32),
    "share": st.floats(0.0, 1.0),
}
VICTIMS = st.sampled_from(["", "controller", "muscle", "environment"])


def untimed(row: Mapping[str, Any]) -> str:
    """Return a row but for the time of the clock on the wall."""
    return repr({key: value for key, value in row.items() if key != "completed"})


@searched(300, DRAWN | {"tight": st.booleans(), "victim": VICTIMS}, few=1)
def test_a_loss_does_not_show_where_a_condition_ends_the_phase(
    results: Path, seed: int, share: float, tight: bool, victim: str, **given: Any
) -> None:
    """Whoever is killed at whatever moment: the phase ends at the same tick, and its rows are equal."""
    text = DOCUMENT.format(**{**FEW, **given, "conditions": AVERAGE.format(n=3, least=6)})
    survives(text, results, victim, seed=seed, shares=[share], tight=tight, view=partial(sets, tables=TABLES))


LOSABLE = ("environment lake", "environment moor", "muscle ada", "muscle bob")
GIVEN_UP = {**DRAWN, "tight": st.booleans(), "victim": st.sampled_from(["muscle", "environment", "environment", ""])}


@searched(300, GIVEN_UP, few=1)
def test_a_loss_costs_the_open_episode(
    results: Path, seed: int, share: float, tight: bool, victim: str, **given: Any
) -> None:
    """With `on_loss: restart` it counts for no budget: all are made, and the others' rows are as without it."""
    text = DOCUMENT.format(**{**FEW, **given, "lake": 4, "moor": 5, "on_loss": "restart"})
    plain = simulate(text, seed, results)
    moment = int(share * plain.events)
    simulation = Simulation(read(text), seed, results, Disturbance([(moment, partial(kill_one, victim))]))
    simulation.tight = tight
    lossy = simulation.carry_out()

    assert ("finished", []) == (lossy.status, lossy.defects), lossy.reason
    whole, found = (
        Counter((row["mode"], row["worker"], row["environment"], row["steps"]) for row in it if row["reason"] == ENDED)
        for it in (plain.tables["episodes"], lossy.tables["episodes"])
    )
    made = {row["number"] for row in lossy.tables["evaluations"]}  # fewer may fall due where two do at once
    assert {place: 2 * len(made) if place[0] == "evaluate" else count for place, count in whole.items()} == found
    rows = lossy.tables["episodes"]
    lost = {row["environment"].partition("[")[0] for row in rows if row["reason"] != ENDED}
    assert {row["reason"] for row in rows} - {ENDED} <= {f"lost: {who}" for who in LOSABLE}
    steps = Counter(tuple(row[key] for key in PLACE) for row in lossy.tables["steps"])
    if given["end"] == "all":
        assert steps == Counter({tuple(row[key] for key in PLACE): row["steps"] for row in rows})
    if victim == "environment" and not given["evaluate"]:
        for name in ("lake", "moor"):
            each = [[untimed(row) for row in it.tables["steps"] if row["environment"] == name] for it in (plain, lossy)]
            assert name in lost or sorted(each[0]) == sorted(each[1])


# -- orders -----------------------------------------------------------------------------------------------------------
PLACE = ("mode", "worker", "environment", "episode")
LATER = 300  # events that a pause lasts, at least
ORDERS = st.lists(
    st.tuples(
        st.floats(0.0, 1.0),
        st.sampled_from(["RESET", "RESTART", "PAUSE", "STOP_SIMULATION", "STOP_PHASE", "SHUTDOWN"]),
        st.sampled_from([None, None, 0, 1]),
    ),
    min_size=1,
    max_size=3,
)


CONDITIONS = st.sampled_from(["[]", AVERAGE.format(n=3, least=6), AVERAGE.format(n=99, least=6)])
ORDERED = {key: value for key, value in DRAWN.items() if key != "share"}


@searched(300, ORDERED | {"conditions": CONDITIONS, "given_orders": ORDERS})
def test_any_signal_leaves_whole_episodes(results: Path, seed: int, given_orders: Any, **given: Any) -> None:
    """Whatever operators signal at whatever moment, the run ends in order, and its episodes are whole."""
    plan = read(DOCUMENT.format(**{**FEW, "lake": 4, "moor": 5, **given}))
    length = Simulation(plan, seed, results, stored=False).carry_out().events
    acts = sorted(orders(given_orders, length, LATER), key=lambda act: act[0])
    outcome = Simulation(plan, seed, results, Disturbance(acts)).carry_out()

    assert ("finished", 0, []) == (outcome.status, outcome.exit_status, outcome.defects), outcome.reason
    places = [tuple(row[key] for key in PLACE) for row in outcome.tables["steps"]]
    if given["end"] == "all":
        assert {tuple(row[key] for key in PLACE): row["steps"] for row in outcome.tables["episodes"]} == Counter(places)
    assert all(row["terminated"] != row["truncated"] for row in outcome.tables["episodes"])
