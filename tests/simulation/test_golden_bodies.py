"""Phases with bodies on the bus in memory: the golden tables, whatever the schedule, and after losses."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from simulation import ROLES, Outcome, simulate, survives
from simulation import rows as every

AGENTS = "[{name: ada, brain: log, muscle: echo}]"
THREE = (
    "[{name: ada, brain: log, muscle: echo}, {name: bob, brain: log, muscle: echo}, "
    "{name: cyd, brain: log, muscle: echo}]"
)


def document(
    environments: list[str], agents: str = AGENTS, bodies: str = "", params: str = "", config: str = ""
) -> str:
    """Return a document of one phase; each environment is `uid: params ; keys of its entry`."""
    entries = []
    for text in environments:
        uid, _, rest = text.partition(": ")
        given, _, keys = rest.partition("; ")
        entries.append(f"{{environment: {{uid: {uid}, name: counting, params: {{{given}}}}}, {keys}}}")
    lines = [
        "uid: bodies",
        "seed: 7",
        'version: "0.1"',
        "schedule:",
        "  - train:",
        f"      environments: [{', '.join(entries)}]",
        f"      agents: {agents}",
        f"      simulation: {{name: aeb, params: {{{params}}}}}",
        *([f"      bodies: {bodies}"] if bodies else []),
        *([f"      phase_config: {config}"] if config else []),
    ]
    return "\n".join(lines) + "\n"


def rows(outcome: Outcome, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table of a run that has finished."""
    assert ("finished", []) == (outcome.status, outcome.defects), outcome.reason
    found: list[dict[str, Any]] = outcome.tables[table]
    return found


def log_to(folder: Path) -> str:
    """Return a brain that writes down what it hears of."""
    return f"brain: {{name: log, params: {{path: {folder / 'log.jsonl'}}}}}"


def logged(folder: Path) -> list[dict[str, Any]]:
    """Return what it has written, one map for each call, and forget it."""
    lines = (folder / "log.jsonl").read_text().splitlines()
    (folder / "log.jsonl").unlink()
    return [json.loads(line) for line in lines]


VERIFIED = "length: 4, verify: true; budget: {episodes: 1}"


TRIPLES = (
    "{product: custom, num: [[cyd, moor, 1], [ada, lake, 0], [bob, moor, 0], [cyd, moor, 0], [ada, moor, 0], "
    "[cyd, lake, 0]]}"
)


@pytest.mark.parametrize(
    ("bodies", "count", "view"),
    [
        ("{num: [2, 1]}", 36, "lake 0 lake 1 moor 0"),
        ("{product: custom, num: {ada: {lake: 2}, bob: {moor: 1}, cyd: {lake: 1, moor: 3}}}", 28, "lake 0 lake 1"),
        (TRIPLES, 24, "lake 0 moor 0"),
    ],
)  # fmt: skip
def test_every_body_decides_in_every_step(bodies: str, count: int, view: str, results: Path, tmp_path: Path) -> None:
    """Each body has an action per step, every answer reaches the body that gave it, and a brain hears of its own."""
    agents = THREE.replace("ada, brain: log", f"ada, {log_to(tmp_path)}")
    outcome = simulate(document([f"lake: {VERIFIED}", f"moor: {VERIFIED}"], agents, bodies), 1, results)
    heard = logged(tmp_path)

    assert (count, 8) == (len(rows(outcome, "actions")), len(rows(outcome, "steps")))
    assert [view] * 4 == [" ".join(f"{e} {b}" for e, b in zip(h["environment"], h["body"], strict=True)) for h in heard]
    assert {"ada"} == {one["agent"] for one in heard}


CLOCKS = [
    "north: length: 3, verify: true; clock: {period: 2, phase: 0}, budget: {episodes: 3}",
    "east: length: 4, verify: true; clock: {period: 3, phase: 1}, budget: {episodes: 2}",
    "west: length: 2, verify: true; clock: {period: 4, phase: 2}, budget: {episodes: 4}",
]
OPEN = ("east", 1, 2, False, "truncated: phase end")


@pytest.mark.parametrize(
    ("end", "steps", "episodes"), [("all", [9, 8, 8], 9), ("any", [9, 6, 4], 7), ("{environment: east}", [9, 8, 6], 8)]
)
def test_timelines_step_end_and_begin_by_themselves(end: str, steps: list[int], episodes: int, results: Path) -> None:
    """Three environments with clocks and budgets of their own make the golden steps and episodes."""
    outcome = simulate(document(CLOCKS, params=f"end: {end}"), 2, results)
    ticks = Counter(row["environment"] for row in rows(outcome, "steps"))
    ended = [
        (row["environment"], row["episode"], row["steps"], row["terminated"], row["reason"])
        for row in rows(outcome, "episodes")
    ]

    assert (steps, episodes) == ([ticks[uid] for uid in ("north", "east", "west")], len(ended))
    assert (OPEN in ended) == (end == "any")


@pytest.mark.parametrize(
    ("rule", "batches", "truncated"), [("all", [4, 3, 3, 3, 1, 1, 1], []), ("any", [4], [0, 2, 3])]
)
def test_bodies_end_one_after_the_other(rule: str, batches: list[int], truncated: list[int], results: Path) -> None:
    """A body that has ended acts no more until the next reset; who lives when the episode ends is truncated."""
    world = f"lake: length: [4, 1, 7, 4], verify: true; budget: {{episodes: 1}}, episode_end: {rule}"
    outcome = simulate(document([world], bodies="{num: 4}"), 3, results)

    assert batches == [len(row["sensors"]) for row in rows(outcome, "steps")]
    assert truncated == [row["body"] for row in rows(outcome, "actions") if row["truncated"]]
    assert [(batches and len(batches), True)] == [(r["steps"], r["terminated"]) for r in rows(outcome, "episodes")]


RULES = (
    "{num: 4, rules: [{match: {body: 1}, decision: {period: 3, phase: 2, between: noop}}, "
    "{match: {body: 2}, decision: {period: 4}}, {match: {body: 3}, decision: {period: 4, phase: 1, between: zero}}]}"
)


def test_what_is_applied_between_decisions(results: Path) -> None:
    """Repeat, no-op and zero are applied between decisions, and a transition has the sum of its rewards."""
    outcome = simulate(document(["lake: length: 9; budget: {episodes: 1}"], bodies=RULES), 4, results)
    decided = {(row["body"], row["step"]): next(iter(row["setpoints"].values())) for row in rows(outcome, "actions")}
    sums = {(row["body"], row["step"]): round(row["objective"], 6) for row in rows(outcome, "actions")}
    applied = [[row["setpoints"][f"lake.answer[ada/{body}]"] for row in rows(outcome, "steps")] for body in range(4)]
    d = decided
    expected = [
        [d[0, step] for step in range(9)],
        [-1, -1, d[1, 0], -1, -1, d[1, 1], -1, -1, d[1, 2]],
        [d[2, 0]] * 4 + [d[2, 1]] * 4 + [d[2, 2]],
        [0, d[3, 0], 0, 0, 0, d[3, 1], 0, 0, 0],
    ]

    assert expected == applied
    golden = {(1, 0): 3.012, (1, 1): 3.021, (1, 2): 1.009, (2, 0): 8.010, (2, 1): 8.026, (2, 2): 2.009}
    assert golden | {(3, 0): 12.014, (3, 1): 12.030} == {key: sums[key] for key in sums if key[0]}


COORDINATES, FLAGS = ("episode", "body", "step", "tick"), ("terminated", "truncated")


def test_opposite_rewards_sum_to_nothing(results: Path, tmp_path: Path) -> None:
    """The rewards of two bodies with scales 1 and -1 cancel out in each step; of `learn: false` no brain hears."""
    bodies = "{num: 2, rules: [{match: {body: 1}, reward: {scale: -1}, learn: false}]}"
    world = "lake: length: 4, anonymous: true; budget: {episodes: 5}"
    outcome = simulate(document([world], AGENTS.replace("brain: log", log_to(tmp_path)), bodies), 5, results)
    sums = Counter[tuple[int, int]]()
    for row in rows(outcome, "actions"):
        sums[row["episode"], row["step"]] += row["objective"]

    assert ({0.0}, 20) == (set(sums.values()), len(sums))
    assert [[0]] * 20 == [one["body"] for one in logged(tmp_path)]


def test_bodies_in_one_environment_are_those_of_copies(results: Path, tmp_path: Path) -> None:
    """Three bodies in one environment decide, and are learned from, as one in each of three copies; so with `each`."""
    world = "length: 5, anonymous: true; budget: {episodes: 2}"
    found, batches = [], []
    for environments, bodies in (
        ([f"a: {world}"], "{num: 3}"),
        ([f"a: {world}, episode_end: each"], "{num: 3}"),
        ([f"{uid}: {world}" for uid in "abc"], "{num: 1}"),
    ):
        outcome = simulate(document(environments, AGENTS.replace("brain: log", log_to(tmp_path)), bodies), 6, results)
        batches.append(
            [[h[name] for name in (*COORDINATES[2:], "episode", "rewards", *FLAGS)] for h in logged(tmp_path)]
        )
        names = ("episode", "step", "objective", "terminated", "truncated")
        found.append(
            Counter(
                (*(row[name] for name in names), *next(iter(row["sensors"].values())), *row["setpoints"].values())
                for row in rows(outcome, "actions")
            )
        )

    assert found[0] == found[1] == found[2]
    assert batches[0] == batches[1] == batches[2]


HERD = (
    "events: [{after: 1, group: herd, reward: 0.5}, {after: 3, group: herd, reward: 0.25}, "
    "{after: 4, group: herd, reward: 0.125}]"
)
HERD_RULES = "rules: [{match: {agent: ada}, group: herd, reward: {scale: 2}}, {match: {body: 2}, group: null}]"


def test_groups_earn_together_and_late(results: Path, tmp_path: Path) -> None:
    """A group's reward goes to each member that takes part; what falls due after its end is told once, by its row."""
    path = tmp_path / "log.jsonl"
    log = f"brain: {{name: log, params: {{path: {path}}}}}"
    agents = f"[{{name: ada, {log}, muscle: echo}}, {{name: bob, brain: log, muscle: echo}}]"
    world = f"lake: length: [2, 4, 3, 4], anonymous: true, {HERD}; budget: {{episodes: 2}}"
    bodies = f"{{num: {{ada: {{lake: 3}}, bob: {{lake: 1}}}}, {HERD_RULES}}}"
    outcome = simulate(document([world], agents, bodies), 1, results)
    actions = rows(outcome, "actions")
    found = [
        (row["episode"], row["body"], row["step"], row["rewards"]["lake.herd"], row["late_reward"])
        for row in actions
        if row["agent"] == "ada"
    ]
    whole = {0: [1.0, 0.0], 1: [1.0, 0.0, 0.5, 0.25], 2: [0.0, 0.0, 0.0]}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    last = next(row["rewards"] for row in rows(outcome, "steps") if row["step"] == 4)

    assert sorted(found, key=repr) == sorted(
        (
            (episode, body, step, value, 0.75 if (body, step) == (0, 1) else None)
            for episode in range(2)
            for body, values in whole.items()
            for step, value in enumerate(values)
        ),
        key=repr,
    )
    assert [[["lake", 0, episode, 1, "lake.herd", 0.75, 0.75]] for episode in (0, 1)] == [
        line["late"] for line in lines if "late" in line
    ]
    assert {(row["episode"], row["body"], row["step"], row["tick"]) for row in actions if row["agent"] == "ada"} == {
        one for line in lines if "tick" in line for one in zip(*map(line.get, COORDINATES), strict=True)
    }
    assert not [row for row in actions if row["agent"] == "bob" and "lake.herd" in row["rewards"]]
    assert {"lake.herd[ada/1]": 0.125, "lake.herd[bob/0]": 0.0} == {k: v for k, v in last.items() if "herd" in k}


GOLDEN = "events: [{after: 1, spawn: ada}, {after: 3, retire: ada, spawn: ada}, {after: 5, retire: ada}]"


def test_bodies_come_and_go_within_an_episode(results: Path) -> None:
    """Bodies take part from the step behind their begin on, have numbers of their own, and are gone with the reset."""
    world = f"lake: length: 7, verify: true, {GOLDEN}; budget: {{episodes: 2}}"
    bodies = "{num: 3, dynamic: [{agent: ada, environment: lake, max: 1}]}"
    outcome = simulate(document([world], bodies=bodies), 4, results)
    decided = Counter((row["episode"], row["body"]) for row in rows(outcome, "actions"))
    came = [(row["episode"], row["step"], *row["sensors"]) for row in rows(outcome, "resets") if row["step"]]

    assert 2 * [3, 4, 4, 4, 4, 3, 3] == [len(row["rewards"]) for row in rows(outcome, "steps")]
    assert {(0, 3): 2, (0, 4): 2, (1, 5): 2, (1, 6): 2} == {key: n for key, n in decided.items() if key[1] > 2}
    assert [(e, s, f"lake.observation[ada/{b}]") for e, s, b in [(0, 1, 3), (0, 3, 4), (1, 1, 5), (1, 3, 6)]] == came
    assert [(b, b > 2) for b in range(7)] == [(row["body"], row["dynamic"]) for row in rows(outcome, "bodies")]


def test_numbers_go_on_over_phases(results: Path) -> None:
    """In the next phase, in which the document has a body more, spawned bodies have numbers that none has had."""
    world = "lake: length: 3, events: [{after: 1, spawn: ada}]; budget: {episodes: 2}"
    first, second = (
        document([world], bodies=f"{{num: {num}, dynamic: [{{agent: ada, environment: lake, max: 1}}]}}")
        for num in (1, 2)
    )
    outcome = simulate(first + second.split("schedule:\n")[1].replace("train:", "more:"), 1, results)
    found = [(row["phase"], row["body"]) for row in rows(outcome, "bodies") if row["dynamic"]]

    assert [(0, 1), (0, 2), (1, 3), (1, 4)] == found


def test_views_are_in_the_order_of_agents_environments_and_numbers(results: Path) -> None:
    """Agents see bodies of an environment together, whichever came first; so do the rows of its steps."""
    events = "events: [{after: 1, spawn: bob}, {after: 2, spawn: ada}, {after: 4, retire: bob, spawn: bob}]"
    worlds = [f"{uid}: length: 6, {events}; budget: {{episodes: 1}}" for uid in ("lake", "moor")]
    pairs = ", ".join(f"{{agent: {a}, environment: {e}, max: 2}}" for a in ("ada", "bob") for e in ("lake", "moor"))
    agents = "[{name: ada, brain: log, muscle: random}, {name: bob, brain: log, muscle: echo}]"
    outcome = simulate(document(worlds, agents, f"{{dynamic: [{pairs}]}}"), 1, results)
    steps = [[*row["rewards"]] for row in rows(outcome, "steps") if row["environment"] == "lake"]
    names = [" ".join(key.split("[")[1][:-1] for key in step) for step in steps]

    assert ["ada/0 bob/0", "ada/0 bob/0 bob/1", "ada/0 ada/1 bob/0 bob/1"] == names[:3]
    assert ["ada/0 ada/1 bob/0 bob/1", "ada/0 ada/1 bob/0 bob/2"] == names[3:5]


MANY = document(
    ["lake: length: [4, 2, 7, 3]; budget: {episodes: 4}, clock: {period: 2}",
     "moor: length: 9; budget: {steps: 20}, episode_end: each, max_steps: 5"],
    "[{name: ada, brain: log, muscle: echo}, {name: bob, brain: log, muscle: random}]",
    "{num: 2}",
    config="{worker: 2}",
)  # fmt: skip
TABLES = partial(every, tables=("episodes", "steps", "actions", "bodies", "returns"))
LAKE = "{after: 1, spawn: bob}, {after: 1, spawn: ada}, {after: 2, retire: bob, spawn: bob}, {after: 3, spawn: bob}"
SHARED = (
    "{after: 3, group: herd, reward: 0.5}, {after: 4, group: herd, reward: 0.25}, {after: 5, group: herd, reward: 2}"
)
MOOR = "{after: 1, spawn: bob}, {after: 2, spawn: bob}, {after: 3, retire: bob}, {after: 4, spawn: bob, retire: bob}"
ANEW = "budget: {steps: 15}, episode_end: each, max_steps: 5"
COMING = document(
    [
        f"lake: length: [4, 2, 5, 3], events: [{LAKE}, {SHARED}]; budget: {{episodes: 3}}, clock: {{period: 2}}",
        f"moor: length: [5, 9, 5, 5], events: [{MOOR}, {{after: 4, retire: bob}}, {SHARED}]; {ANEW}",
    ],
    "[{name: ada, brain: log, muscle: echo}, {name: bob, brain: log, muscle: random}]",
    "{num: 2, dynamic: [{agent: bob, environment: lake, max: 3}, {agent: ada, environment: lake, max: 1}, "
    "{agent: bob, environment: moor, max: 3}], rules: [{match: {agent: ada}, decision: {period: 2, phase: 1}}, "
    "{group: herd}]}",
    config="{worker: 2}",
)
TEXTS = {"many": MANY, "coming": COMING}
SOME = [*(("many", role, 0.6) for role in ("governor", "brain"))]  # in every run
SOME += [("coming", role, 0.6) for role in ("environment", "muscle", "controller", "store")]


@pytest.mark.parametrize(
    ("kind", "role", "share"),
    [
        pytest.param(kind, role, share, marks=[pytest.mark.long] * ((kind, role, share) not in SOME))
        for kind in TEXTS
        for role in ROLES
        for share in (0.1, 0.3, 0.45, 0.6, 0.75, 0.9)
    ],
)
def test_a_loss_leaves_the_undisturbed_tables(kind: str, role: str, share: float, results: Path) -> None:
    """Whoever of two workers with bodies is killed, also where bodies come and go: the tables are those of peace."""
    survives(TEXTS[kind], results, role, shares=[share], view=TABLES)
