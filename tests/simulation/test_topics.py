"""Topics on the bus in memory: what is set, drawn, said and gathered, with and without bodies, and after losses."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from simulation import ROLES, Disturbance, Outcome, Simulation, calm, kill_one, read, survives
from simulation import rows as tables

ORDINARY = """
uid: ponds
seed: 5
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {{uid: lake, name: "simulation.talking:{cls}"}}
          topics: {{parameters: {{rate: {rate}}}}}
      agents:
        - name: ada
          brain: log
          muscle: "simulation.talking:Talker"
          sensors: [lake.level]
          actuators: [lake.open]
          topics: {{parameters: {{pace: {{gaussian: [0, 0.01]}}}}}}
      phase_config: {{mode: train, worker: {workers}, episodes: {episodes}}}
      simulation: {{name: vanilla, conditions: [{{name: max_steps, params: {{steps: 5}}}}]}}
run_config: {{condition: {{name: vanilla}}}}
"""
BODIES = """
uid: ponds
seed: 5
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {{uid: lake, name: "simulation.talking:Pond", params: {{deep: 9}}}}
          topics: {{parameters: {{rate: {{uniform: [0.5, 1.5]}}}}}}
          max_steps: 8
          budget: {{episodes: {episodes}}}
          episode_end: {end}
        - {{environment: {{uid: moor, name: "simulation.talking:Pond"}}, budget: {{steps: 30}}, max_steps: 7}}
      agents: [{{name: ada, brain: log, muscle: "simulation.talking:Talker"}}]
      bodies: {{num: 2}}
      phase_config: {{mode: train, worker: 2}}
      simulation: {{name: aeb}}
"""
DRAWN = "{uniform: [1, 2]}"
FEW = {"cls": "Pond", "rate": DRAWN, "workers": 1, "episodes": 3, "end": "all"}


def run(text: str, results: Path, **given: Any) -> Outcome:
    """Run a document to its good end."""
    return calm(text.format(**{**FEW, **given}), 1, results)


def rows(outcome: Outcome, topic: str, peer: str = "lake", worker: int = 0) -> list[tuple[Any, ...]]:
    """Return tick, key and value of the rows of a topic."""
    found = [row for row in outcome.tables["topics"] if (row["topic"], row["peer"]) == (topic, peer)]
    return [(row["tick"], row["key"], row["value"]) for row in found if row["worker"] == worker]


def test_parameters_are_drawn_for_each_episode_and_each_worker(results: Path) -> None:
    """The draw is within its bounds, there when the object is made and when an episode begins, and recorded."""
    outcome = run(ORDINARY, results, workers=2)
    drawn = [[value for _, _, value in rows(outcome, "parameters", worker=worker)] for worker in (0, 1)]
    told = [[value for _, _, value in rows(outcome, "log", worker=worker)] for worker in (0, 1)]

    assert [(0, "rate"), (5, "rate"), (10, "rate")] == [row[:2] for row in rows(outcome, "parameters")]
    assert 6 == len({*drawn[0], *drawn[1]})
    assert all(1 <= value <= 2 for value in (*drawn[0], *drawn[1]))
    assert [[f"begins at {value:.3f}" for value in values] for values in drawn] == told
    assert 3 == len(rows(outcome, "parameters", "ada"))


@pytest.mark.parametrize(
    ("rate", "values"), [("[1, 2]", [[1, 2]]), ("deep", ["deep"]), ("{multirange: [[1, 1], [1, 1]]}", [1.0])]
)
def test_constant_is_recorded_once(rate: str, values: list[Any], results: Path) -> None:
    """What does not change from episode to episode gives one row."""
    if rate.startswith("{"):
        assert values == [row[2] for row in rows(run(ORDINARY, results, rate=rate), "parameters")]
        return
    text = ORDINARY.replace("rate: {rate}", "rate: 1, other: {rate}")
    assert values == [row[2] for row in rows(run(text, results, rate=rate), "parameters") if row[1] == "other"]


def test_statistics_give_a_row_per_key_and_episode(results: Path) -> None:
    """Mean, sum, last and histogram are those of the readings of the episode."""
    outcome = run(ORDINARY, results)
    levels = [row["sensors"]["lake.level"] for row in outcome.tables["steps"]]
    found = {(tick, key): value for tick, key, value in rows(outcome, "stats")}

    assert 12 == len(found)
    for last in (5, 10, 15):
        part = levels[last - 5 : last]
        assert pytest.approx(sum(part)) == found[last, "sum"]
        assert pytest.approx(sum(part) / 5) == found[last, "mean"]
        assert part[-1] == found[last, "last"]
        assert sorted(float(f"{it:.1e}") for it in part) == [
            number for number, count in found[last, "histogram"] for _ in range(count)
        ]


def test_messages_reach_the_others(results: Path) -> None:
    """A word of the environment is there in the next decision, one of the muscle in the step that this decides."""
    outcome = run(ORDINARY, results, rate="1", episodes=1)
    levels = [row["sensors"]["lake.level"] for row in outcome.tables["steps"]]
    heard = [value for _, key, value in rows(outcome, "stats", "ada") if key == "heard"]

    assert [(2, "word", 3)] == rows(outcome, "chat", "ada")
    assert [round(level, 3) for level in levels] == [value for _, _, value in rows(outcome, "chat")]
    assert [1.0, 1.03, 1.0, 1.0] == [round(b - a, 6) for a, b in pairwise(levels)]
    assert [4.0] == heard  # five decisions, before the first of which nothing was said


def test_setting_holds_until_it_is_set_anew(results: Path) -> None:
    """One muscle sets the speed of the lake at its seventh decision; it holds in all later episodes."""
    outcome = run(ORDINARY, results, rate="1")

    assert [(6, "speed", 2)] == rows(outcome, "engine")
    levels = [row["sensors"]["lake.level"] for row in outcome.tables["steps"]]
    assert [2] * 4 == [round(b - a) for a, b in pairwise(levels[10:])]


def test_what_an_environment_sets_itself_is_drawn_no_more(results: Path) -> None:
    """A draw of the document ends where somebody has set the key."""
    outcome = run(ORDINARY, results, cls="Plain", episodes=4)
    drawn = rows(outcome, "parameters")
    readings = [row["sensors"]["lake.level"] for row in outcome.tables["steps"]]

    assert [0, 5, 7] == [row[0] for row in drawn]
    assert [row[2] for row in drawn for _ in range({0: 5, 5: 2, 7: 13}[row[0]])] == readings


@pytest.mark.parametrize("end", ["all", "each"])
def test_topics_beside_bodies(end: str, results: Path) -> None:
    """Draws, messages and statistics are there with bodies; with `each` the document's draw is that of the phase."""
    outcome = run(BODIES, results, end=end)
    drawn = rows(outcome, "parameters")
    ends = [row for row in outcome.tables["episodes"] if row["worker"] == 0 and row["environment"].startswith("lake")]
    stats = [row for row in rows(outcome, "stats") if row[1] == "mean"]

    assert (3 if end == "all" else 1) == len(drawn)
    assert rows(outcome, "chat", "ada")
    assert rows(outcome, "stats", "ada")
    assert (len(ends) if end == "all" else len({row[0] for row in stats})) == len(stats)
    assert 5 == len([row for row in rows(outcome, "stats", "moor") if row[1] == "mean"])


def test_topics_where_nobody_waits(results: Path) -> None:
    """With `mode: free` each row has the tick of the environment that it came with; draws are those of `barrier`."""
    text = BODIES.replace("{{name: aeb}}", "{{name: aeb, params: {{mode: free}}}}").replace("worker: 2", "sync: async")
    outcome, barrier = run(text, results, end="all"), run(BODIES, results, end="all")
    drawn = [[row[2] for row in rows(it, "parameters")] for it in (outcome, barrier)]

    assert drawn[0] == drawn[1]
    assert rows(outcome, "chat", "ada")
    ends = [row for row in outcome.tables["episodes"] if row["environment"] == "moor"]
    assert len(ends) == len([row for row in rows(outcome, "stats", "moor") if row[1] == "mean"])


def order(simulation: Simulation) -> None:
    """Set the rate of the lake in all workers, and say a word to the muscles."""
    topics = [["lake", "parameters", "rate", 100], ["ada", "chat", "word", 1]]
    simulation.keeper.signal("CONTINUE", data={"topics": topics})


EARLY = 400  # events after which it is said
SAID = [("bodies", "controller")]  # in every run


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        pytest.param(kind, role, marks=[pytest.mark.long] * ((kind, role) not in SAID))
        for kind in ("pond", "bodies")
        for role in ("", "environment", "muscle", "controller", "governor")
    ],
)
def test_operator_sets_what_a_run_is_told(kind: str, role: str, results: Path) -> None:
    """It acts at the next boundary, holds in the episodes that follow, and is there again after a loss."""
    plan = read((BODIES if kind == "bodies" else ORDINARY).format(**{**FEW, "workers": 2, "episodes": 6}))

    def play(*acts: Any) -> Outcome:
        simulation = Simulation(plan, 11, results, Disturbance([(EARLY, order), *acts]))
        simulation.tight = True
        return simulation.carry_out()

    peace = play()
    outcome = play((int(0.6 * peace.events), partial(kill_one, role))) if role else peace
    assert ("finished", []) == (outcome.status, outcome.defects), outcome.reason
    assert peace.tables["topics"] == outcome.tables["topics"]
    for worker in (0, 1):
        rates = rows(outcome, "parameters", worker=worker)
        (tick,) = [tick for tick, _, value in rates if value == 100]
        assert 100 == rates[-1][2]
        assert [(tick, "word", 1)] == [row for row in rows(outcome, "chat", "ada", worker) if row[2] == 1]
    assert 1 == len([row for row in outcome.tables["signals"] if row["signal"] == "SET"])


TABLES = ("topics", "steps", "actions")
LOST = [("pond", "environment", True), ("bodies", "muscle", False)]  # in every run


@pytest.mark.parametrize(
    ("kind", "role", "tight"),
    [
        pytest.param(kind, role, tight, marks=[pytest.mark.long] * ((kind, role, tight) not in LOST))
        for kind in ("pond", "plain", "bodies")
        for role in ROLES
        for tight in (False, True)
    ],
)
def test_loss_leaves_the_undisturbed_topics(kind: str, role: str, tight: bool, results: Path) -> None:
    """Whoever is killed, the rows of topics are those of a run in peace; `tight` has journals begin anew."""
    text = BODIES if kind == "bodies" else ORDINARY.replace("{cls}", "Plain" if kind == "plain" else "Pond")
    text = text.format(**{**FEW, "workers": 2, "episodes": 6})
    survives(text, results, role, shares=(0.4, 0.7), tight=tight, view=partial(tables, tables=TABLES))
