"""Which bodies a phase has, and what is refused: the golden tables, as a function and as documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ganglion.document.bodies import resolve
from ganglion.run.plan import Plan, PolicyPlan, processes_of
from ganglion.wire.name import label

THREE, TWO, FEN = ["ada", "bob", "cyd"], ["lake", "moor"], ["lake", "moor", "fen"]
BY_MAP = {"ada": {"lake": 2}, "bob": {"moor": 1}, "cyd": {"lake": 1, "moor": 3}}


def triples(text: str) -> list[list[Any]]:
    """Return the bodies of numbers such as `211 000` as a document lists them."""
    return [[THREE[int(a)], TWO[int(e)], int(b)] for a, e, b in text.split()]


GOLDEN = [
    (THREE, TWO, "outer", 1, "000 010 100 110 200 210"),
    (THREE, TWO, "outer", 2, "000 001 010 011 100 101 110 111 200 201 210 211"),
    (THREE, TWO, "outer", [2, 1], "000 001 010 100 101 110 200 201 210"),
    (THREE, TWO, "custom", BY_MAP, "000 001 110 200 210 211 212"),
    (THREE, TWO, "custom", triples("211 000 110 210 010 200"), "000 010 110 200 210 211"),
    (THREE[:2], TWO, "inner", 3, "000 001 002 110 111 112"),
    (THREE, FEN, "inner", [2, 1, 3], "000 001 110 220 221 222"),
]


@pytest.mark.parametrize(("agents", "environments", "product", "num", "expected"), GOLDEN)
def test_bodies_are_those_of_the_golden_table(
    agents: list[str], environments: list[str], product: str, num: Any, expected: str
) -> None:
    """Product and counts give the bodies, sorted, whatever the order of writing."""
    found, wrong = resolve(agents, environments, product, num)

    assert (expected, []) == (" ".join(f"{a}{e}{b}" for a, e, b in found), wrong)


CUSTOM = "custom: expected a map agent -> environment -> count, or a list of [agent, environment, b]"


@pytest.mark.parametrize(
    ("product", "num", "expected"),
    [
        ("outer", [2], ["no count for `moor`"]),
        ("outer", [2, 1, 4], ["surplus count 4: there are 2 environments"]),
        ("outer", [2, 0], ["a count is at least 1 (`moor`): leave a pair out by `custom`"]),
        ("outer", 0, ["a count is at least 1: leave a pair out by `custom`"]),
        ("inner", 2, ["inner: 3 agents, 2 environments"]),
        ("custom", [["adda", "lake", 0]], ["there is no agent `adda`; did you mean `ada`?"]),
        ("custom", [], [f"{CUSTOM}, found []"]),
        ("custom", 2, [f"{CUSTOM}, found 2"]),
        ("custom", triples("000 100 211"), ["gap: `cyd/moor/0` is missing"]),
        ("custom", triples("000 110 210 110"), ["`bob/moor/0` is listed twice"]),
        ("custom", triples("000 100 200"), ["environment `moor` has no body: name it in `idle` if that is meant"]),
        ("custom", triples("000 110"), ["agent `cyd` has no body: name it in `idle` if that is meant"]),
    ],
)
def test_what_is_no_list_of_bodies_is_refused(product: str, num: Any, expected: list[str]) -> None:
    """Each refusal names its coordinate by uids."""
    found, wrong = resolve(THREE, TWO, product, num)

    assert ([], expected) == (found, [text for _, text in wrong])


@pytest.mark.parametrize(
    ("product", "num", "count"),
    [
        ("outer", 2**50, 6 * 2**50),
        ("custom", {"ada": {"lake": 2**50}}, 2**50),
        ("custom", [["ada", "lake", 2**50]], 2**50 + 1),
    ],
)
def test_however_many_bodies_are_counted_before_they_are_made(product: str, num: Any, count: int) -> None:
    """Numbers that no machine could hold are refused like those just above the limit."""
    found, wrong = resolve(THREE, TWO, product, num)

    assert ([], [f"expected at most 4096 bodies, found {count} (limit bodies_per_phase)"]) == (
        found,
        [text for _, text in wrong],
    )


def test_who_is_idle_needs_no_body() -> None:
    """An agent and an environment that are named idle may have no body."""
    found, wrong = resolve(THREE, TWO, "custom", [["ada", "lake", 0]], ["moor", "bob", "cyd"])

    assert ([(0, 0, 0)], []) == (found, wrong)


def test_a_gap_is_found_among_pairs_that_read_alike() -> None:
    """Pair (11, 1) that holds b = 1 alone is a gap beside pair (1, 11), which holds b = 0."""
    agents, environments = ([f"{kind}{i}" for i in range(12)] for kind in "ae")
    listed = [[agents[i], environments[i], 0] for i in range(12)] + [["a11", "e1", 1], ["a1", "e11", 0]]
    _, wrong = resolve(agents, environments, "custom", listed)

    assert ["gap: `a11/e1/0` is missing"] == [text for _, text in wrong]


@pytest.mark.parametrize(
    ("num", "ada", "bob", "cyd", "lake", "moor"),
    [
        ([2, 1], "0 1 10", "100 101 110", "200 201 210", "0 1 100 101 200 201", "10 110 210"),
        (BY_MAP, "0 1", "110", "200 210 211 212", "0 1 200", "110 210 211 212"),
        (triples("211 000 110 210 010 200"), "0 10", "110", "200 210 211", "0 200", "10 110 210 211"),
    ],
)
def test_views_are_those_of_the_golden_table(num: Any, ada: str, bob: str, cyd: str, lake: str, moor: str) -> None:
    """An agent's bodies are in the order of environments and b, those of an environment in that of agents and b."""
    bodies, _ = resolve(THREE, TWO, "outer" if num == [2, 1] else "custom", num)
    agents = [" ".join(str(100 * a + 10 * e + b) for a, e, b in bodies if a == agent) for agent in range(3)]
    worlds = [" ".join(str(100 * a + 10 * e + b) for a, e, b in bodies if e == world) for world in range(2)]

    assert ([ada, bob, cyd], [lake, moor]) == (agents, worlds)


HEAD = """\
uid: u
seed: 1
version: "0.1"
schedule:
  - train:
      environments:
        - {environment: {uid: lake, name: counting}, clock: {period: 2, phase: 1}, budget: {episodes: 3}}
        - {environment: {uid: moor, name: counting}, budget: {steps: 90}, max_steps: 25, episode_end: {body: ada/1}}
      agents: [{name: ada, brain: log, muscle: echo}, {name: bob, brain: log, muscle: echo}]
"""
READ = Callable[..., tuple[Plan | None, list[Any]]]


def test_a_document_becomes_a_plan(read: READ) -> None:
    """Rules meet bodies in order, a later one overrides key by key; environments have their clocks and budgets."""
    rules = """\
      bodies:
        num: [1, 2]
        rules:
          - {match: {environment: moor}, reward: {scale: -1, clip: [0, 1]}, decision: {period: 4, phase: 2}, team: red}
          - {match: {agent: [ada], body: 1}, reward: {offset: 2}, decision: {between: zero}, learn: false}
      simulation: {name: aeb, params: {end: any}}
"""
    plan, faults = read(HEAD + rules)
    assert plan is not None, faults
    phase = plan.phases[0]
    bodies = {(body.agent, body.environment, body.b): body for body in phase.bodies or ()}
    one, other = bodies["ada", "moor", 1], bodies["bob", "moor", 0]
    lake, moor = phase.environments

    assert (6, "any") == (len(bodies), phase.end)
    assert (-1.0, 2.0, 0.0, 1.0, 4, 2, "zero", False, "red") == (
        one.scale, one.shift, one.low, one.high, one.period, one.offset, one.between, one.learn, one.team
    )  # fmt: skip
    assert ("repeat", True, 0.0) == (other.between, other.learn, other.shift)
    assert (2, 1, 3, None, "all") == (
        lake.period, lake.offset, lake.budget_episodes, lake.budget_steps, lake.episode_end
    )  # fmt: skip
    assert (90, 25, "ada/1") == (moor.budget_steps, moor.max_steps, moor.episode_end)


AEB = "      simulation: {name: aeb}\n"
PAIRS = "product: custom, num: [[ada, moor, 0], [bob, lake, 0]]"


def spawning(agent: str, environment: str, most: Any, more: str = "") -> str:
    """Return a document in which an environment may spawn bodies."""
    entry = f"{{agent: {agent}, environment: {environment}, max: {most}}}"
    return f"{HEAD.replace('ada/1', 'ada/0')}      bodies: {{dynamic: [{entry}], {more}}}\n{AEB}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            HEAD + "      simulation: {name: taking_turns}\nrun_config: {condition: vanilla}\n",
            "7:54: schedule.train.environments.lake.clock",
        ),
        (HEAD.replace("ada/1", "ada/7") + AEB, "environment `moor` has no body `ada/7`"),
        (HEAD.replace("phase: 1}", "phase: 2}") + AEB, "expected a phase from 0 to 1, less than the period, found 2"),
        (HEAD.replace("{steps: 90}", "{steps: 90, episodes: 2}") + AEB, "expected one of `steps` and `episodes`"),
        (HEAD + "      bodies: {num: 2, rules: [{match: {agent: bobb}}]}\n" + AEB, "this rule matches no body"),
        (HEAD + "      bodies: {num: 2, rules: [{reward: {clip: [2, 1]}}]}\n" + AEB, "expected [low, high]"),
        (HEAD + "      bodies: {rules: [{reward: {params: {a: 1}}}]}\n" + AEB, "`params` needs the `name` of a reward"),
        (HEAD + "      bodies: {rules: [5, {match: 4}]}\n" + AEB, "bodies.rules.0: expected a map, found the number 5"),
        (
            HEAD + "      bodies: {rules: [{reward: {nme: x}}]}\n" + AEB,
            "10:34: schedule.train.bodies.rules.0.reward.nme: unknown key; did you",
        ),
        (
            HEAD.replace("{uid: moor, name: counting}", "{uid: moor, command: [x]}")
            + "      bodies: {rules: [{match: {agent: ada}, reward: {name: 'own:Pays'}}]}\n"
            + AEB,
            "a reward runs in Ganglion's process, and environment `moor` is a `command`",
        ),
        (HEAD + "      bodies: {num: 5000}\n" + AEB, "expected at most 4096 bodies, found 20000"),
        (HEAD + "      simulation: {name: aeb, params: {end: {environment: fen}}}\n", "no environment `fen`"),
        (HEAD.replace(", budget: {episodes: 3}", "") + AEB, "nothing can end phase `train`"),
        (HEAD.replace("{episodes: 3}", "{}") + AEB, "nothing can end phase `train`"),
        (
            HEAD.replace("brain: log, muscle: echo}, {", "brain: log, muscle: echo, sensors: [moor.observation]}, {")
            + "      bodies: {product: custom, num: {ada: {lake: 1}, bob: {moor: 1}}}\n"
            + AEB,
            "9:64: schedule.train.agents.ada.sensors.0: agent `ada` has no body in environment `moor`",
        ),
        (
            HEAD + "      simulation: {name: aeb, params: {mode: free}}\n",
            "10:46: schedule.train.simulation.params.mode: `mode: free` needs `sync: async` in `phase_config`, it is",
        ),
        (
            HEAD + "      phase_config: {sync: lockstep}\n      simulation: {name: aeb, params: {mode: free}}\n",
            "10:28: schedule.train.phase_config.sync: `mode: free` needs `sync: async` in `phase_config`, found",
        ),
        (HEAD + "      simulation: {name: aeb, params: {lead: 2}}\n", "`lead` needs `mode: free`"),
        (
            HEAD + "      simulation: {name: aeb, params: {mode: barier}}\n",
            "10:46: schedule.train.simulation.params.mode: ",
        ),
        (HEAD.replace("period: 2", "period: 0") + AEB, "7:70: schedule.train.environments.lake.clock.period: expected"),
        (
            HEAD + "      phase_config: {sync: async}\n      simulation: {name: aeb, params: {mode: free, lead: 0}}\n",
            "11:58: schedule.train.simulation.params.lead: expected a number of ticks of at least 1",
        ),
        (spawning("addy", "moor", 1), "10:34: schedule.train.bodies.dynamic.0.agent: there is no agent `addy`"),
        (spawning("ada", "mor", 1), "there is no environment `mor`; did you mean `moor`?"),
        (spawning("ada", "moor", 0), "max: expected an integer >= 1, found the number 0"),
        (spawning("ada", "moor", 4095), "with those that may be spawned, found 4099"),
        (spawning("ada", "moor", "1}, {agent: ada, environment: moor, max: 2"), "`ada` in `moor` are listed twice"),
        (spawning("ada", "lake", 1, PAIRS), "agent `ada` has no body in `lake` from the begin"),
        (spawning("ada", "moor", 1, "rules: [{match: {body: 1}, learn: false}]"), "this rule matches no body"),
        (
            spawning("ada", "moor", 1, "rules: [{match: {agent: ada}, policy: pool}]"),
            "not built yet: `policy: pool` of",
        ),
        (spawning("ada", "moor", 9).replace("ada/0", "ada/7"), "environment `moor` has no body `ada/7`"),
        (HEAD + "      bodies: {num: [2]}\n" + AEB, "10:21: schedule.train.bodies.num: no count for `moor`"),
    ],
)
def test_documents_with_bodies_are_refused_at_their_place(read: READ, text: str, expected: str) -> None:
    """What cannot be, or is not built, is told with its place before anything starts."""
    plan, faults = read(text.replace("episode_end: {body: ada/1}", "episode_end: any") if "ada/7" not in text else text)

    assert plan is None
    assert any(expected in str(fault) for fault in faults), [str(fault) for fault in faults]


@pytest.mark.parametrize(("end", "count"), [("all", 1), ("any", 2), ("{environment: lake}", 2)])
def test_it_is_told_that_last_steps_are_not_reproducible(read: READ, end: str, count: int) -> None:
    """Where free environments go on until an end is noticed, that is said beside what `sync: async` says."""
    text = HEAD.replace("ada/1", "ada/0") + "      phase_config: {sync: async}\n"
    plan, faults = read(text + f"      simulation: {{name: aeb, params: {{mode: free, lead: 2, end: {end}}}}}\n")
    assert plan is not None, faults

    assert (True, 2) == (plan.phases[0].free, plan.phases[0].lead)
    assert count == sum("not reproducible" in str(fault) for fault in faults)


RULES = "      bodies: {num: 2, rules: [{match: {agent: ada, body: 1}, policy: %s}%s]}\n" + AEB
NO_BRAIN = HEAD.replace("ada, brain: log", "ada, brain: none")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + RULES % ("{source: poll}", ""), "policy.source: expected one of latest, frozen, pool, found"),
        (
            HEAD + RULES % ("{source: pool, windw: 3}", ""),
            "10:86: schedule.train.bodies.rules.0.policy.windw: unknown key",
        ),
        (
            HEAD + RULES % ("{source: pool, window: 0}", ""),
            "policy.window: expected an integer >= 1, found the number 0",
        ),
        (HEAD + RULES % ("{source: pool, latest: 1.1}", ""), "policy.latest: expected a number from 0 to 1, found"),
        (HEAD + RULES % ("{source: pool, rating: {k: 0}}", ""), "policy.rating.k: expected a number > 0, found"),
        (HEAD + RULES % ("{window: 3}", ""), "policy.window: `window` is of `source: pool`"),
        (HEAD + RULES % ("{source: pool, load: {}}", ""), "policy.load: `load` is of `source: frozen`"),
        (HEAD + RULES % ("{source: pool, agent: bobb}", ""), "there is no agent `bobb`; did you mean `bob`?"),
        (
            HEAD.replace("bob, brain: log, muscle: echo", "bob, brain: log, muscle: random")
            + RULES % ("{source: pool, agent: bob}", ""),
            "policy.agent: pool: the models of `bob` are for its own `muscle` and `filters`, not `ada`'s",
        ),
        (
            NO_BRAIN + RULES % ("pool", ""),
            "10:71: schedule.train.bodies.rules.0.policy: pool: agent `ada` does not learn",
        ),
        (
            HEAD + "      phase_config: {mode: test}\n" + RULES % ("pool", ""),
            "pool: agent `ada` does not learn in this",
        ),
        (HEAD + RULES % ("frozen", ""), "frozen: agent `ada` begins this phase without a model: give `load`"),
        (HEAD + RULES % ("{source: frozen, load: {phase: 3}}", ""), "expected the index of a phase before this one"),
        (HEAD + RULES % ("{source: pool, rotate_every: 3}", ""), "body `ada/lake/1` is of no team"),
        (HEAD + RULES % ("{source: pool, rotate_every: 3}, team: red", ""), "and there is only `red`"),
        (
            HEAD + RULES % ("{source: pool, rating: {k: 4}}", ", {match: {agent: bob}, policy: pool}"),
            "the sides of environment `lake` are rated otherwise before",
        ),
    ],
)
def test_policies_that_cannot_be_are_refused_at_their_place(read: READ, text: str, expected: str) -> None:
    """Unknown keys, numbers out of bounds, pools of nobody who learns, models that are nowhere, turns of no teams."""
    plan, faults = read(text)

    assert plan is None
    assert any(expected in str(fault) for fault in faults), [str(fault) for fault in faults]


def test_policies_have_their_defaults_and_are_replaced_whole(read: READ) -> None:
    """Text alone stands for the source; a later rule says a policy anew; a muscle is named for each source."""
    later = ", {match: {environment: moor}, policy: {source: pool, agent: bob, rating: {initial: 0}}, team: red}"
    plan, faults = read(HEAD + RULES % ("{source: pool, window: 3}", later))
    assert plan is not None, faults
    found = {(b.agent, b.environment, b.b): replace(b.policy, at="") for b in plan.phases[0].bodies or ()}
    pool, latest = PolicyPlan("pool", agent="bob", initial=0.0), PolicyPlan()

    assert [latest, PolicyPlan("pool", window=3), pool, pool, latest, latest, pool, pool] == [*found.values()]
    muscles = [process for process in processes_of("r", plan.phases[0]) if process.role == "muscle"]
    assert ["ada", "ada[pool]", "ada[pool red]", "bob", "bob[pool red]"] == [m.part or m.uid for m in muscles]
    assert "muscle ada[pool red] (worker 0)" == label(muscles[2].name) == muscles[2].label


def test_an_empty_budget_is_that_of_the_phase(read: READ) -> None:
    """Without `steps` and `episodes` a budget says nothing: the episodes of the phase bound the environment."""
    text = HEAD.replace("ada/1", "ada/0").replace("{episodes: 3}", "{}")
    plan, faults = read(text + "      phase_config: {episodes: 7}\n" + AEB)
    assert plan is not None, faults

    assert [7, None] == [environment.budget_episodes for environment in plan.phases[0].environments]


def test_bodies_are_inherited_and_replaced_whole(read: READ) -> None:
    """A phase inherits bodies and timelines; one that states `bodies` replaces them, clocks merge with their entry."""
    text = HEAD + "      bodies: {num: 2}\n" + AEB
    text += "  - more: {environments: [{environment: {uid: lake}, clock: {period: 4}}]}\n"
    text += "  - other: {bodies: {num: 3}}\n"
    plan, faults = read(text)
    assert plan is not None, faults

    assert [8, 8, 12] == [len(phase.bodies or ()) for phase in plan.phases]
    assert [(2, 1), (4, 1), (4, 1)] == [(p.environments[0].period, p.environments[0].offset) for p in plan.phases]


def test_bodies_that_may_be_spawned_are_met_by_rules_without_a_number(read: READ) -> None:
    """A rule may mean them alone; they stand by agents and environments, and say how many there may be."""
    text = """\
      bodies:
        num: 2
        dynamic: [{agent: bob, environment: moor, max: 3}, {agent: ada, environment: lake, max: 1}]
        rules:
          - {match: {agent: bob}, reward: {scale: 2}, team: red}
          - {match: {dynamic: true}, learn: false}
          - {match: {body: 1}, role: other}
"""
    plan, faults = read(HEAD + text + AEB)
    assert plan is not None, faults
    phase = plan.phases[0]
    found = [(b.agent, b.environment, b.most, b.scale, b.learn, b.team, b.role) for b in phase.dynamic]

    assert [("ada", "lake", 1, 1.0, False, None, None), ("bob", "moor", 3, 2.0, False, "red", None)] == found
    assert {True} == {body.learn for body in phase.bodies or ()}
    assert Plan.from_map(plan.to_map()) == plan
