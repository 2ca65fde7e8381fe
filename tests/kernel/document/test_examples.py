# ruff: noqa: E501 - rows of tables are easier to compare on one line
"""Worked examples: a cascade with its table, a document with a fault of every kind, pairs of spellings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ganglion.document import load_document
from ganglion.document.fault import Fault
from ganglion.document.marks import Source, compose
from ganglion.document.spelling import normalise
from ganglion.errors import DocumentError, PluginInvalid
from ganglion.run.plan import PhasePlan, Plan

KNOWN = {
    "environment": ["dummy", "cartpole"],
    "muscle": ["dummy", "random"],
    "brain": ["dummy", "none"],
    "objective": ["dummy", "aggregate_rewards"],
    "controller": ["vanilla", "taking_turns"],
    "condition": ["environment", "max_steps", "max_episodes", "vanilla", "agent_objective", "evaluation_objective"],
    "reward": ["my:Slope"],
    "transformer": ["counting"],
}  # fmt: skip


class Known:
    """Know the plugins of the examples, and which name was meant."""

    def locate(self, kind: str, name: str, folder: str = "", allow: Sequence[str] = (), local: bool = True) -> str:
        """Return the name if there is such a plugin."""
        if name not in KNOWN.get(kind, []):
            raise PluginInvalid(f"there is no {kind} `{name}`", plugin=name)
        return name

    def alias(self, kind: str, name: str) -> None:
        """Know no names of other projects."""


def load(text: str) -> tuple[Plan, list[Fault]]:
    """Return the plan of a text and its warnings."""
    return load_document("run.yml", plugins=Known(), text=text)


def faults_of(text: str) -> list[Fault]:
    """Return all that is said of a text."""
    try:
        return load(text)[1]
    except DocumentError as error:
        return list(error.faults)


# -- the cascade ------------------------------------------------------------------------------------------------------
HEAD = """\
uid: walk
seed: 42
version: "0.1"
run_config: {condition: vanilla}
"""
CASCADE = """\
schedule:
  - warm-up:
      environments: [{environment: {uid: hill, name: dummy, params: {max_iter: 8}}, reward: {name: my:Slope}}]
      agents: [{name: walker, muscle: dummy, brain: dummy, sensors: [hill.0, hill.1], actuators: [hill.0]}]
      phase_config: {mode: train, worker: 2, episodes: 5}
  - duet:
      environments: [{environment: {uid: lake, name: dummy}}, {environment: {uid: hill, params: {discrete: false}}}]
      agents: [{name: swimmer, muscle: dummy, sensors: [lake.0], actuators: [lake.0]}, {name: walker, sensors: [hill.1]}]
  - solo:
      environments: [{environment: {uid: hill}, remove: true}]
      agents: [{name: walker, remove: true}]
      phase_config: {mode: test, episodes: 1}
"""

Row = tuple[str, dict[str, Any], dict[str, Any], tuple[str, int, int | None]]


def row_of(phase: PhasePlan) -> Row:
    """Return a phase as a row of the table: environments, agents, mode with workers and episodes."""
    environments = {e.uid: (e.params, None if e.reward is None else e.reward.name) for e in phase.environments}
    agents = {a.name: (a.sensors, a.actuators) for a in phase.agents}
    return phase.name, environments, agents, (phase.mode, phase.workers, phase.episodes)


def test_the_table_of_the_cascade() -> None:
    """Three phases: parameters join, the reward stays, lists replace, new ones follow, who is removed is gone."""
    plan, warnings = load(HEAD + CASCADE)
    hill = {"max_iter": 8}, "my:Slope"
    hill_of_two = {"max_iter": 8, "discrete": False}, "my:Slope"
    swimmer = ["lake.0"], ["lake.0"]

    assert [] == warnings
    assert [
        ("warm-up", {"hill": hill}, {"walker": (["hill.0", "hill.1"], ["hill.0"])}, ("train", 2, 5)),
        ("duet", {"hill": hill_of_two, "lake": ({}, None)}, {"walker": (["hill.1"], ["hill.0"]), "swimmer": swimmer}, ("train", 2, 5)),
        ("solo", {"lake": ({}, None)}, {"swimmer": swimmer}, ("test", 2, 1)),
    ] == [row_of(phase) for phase in plan.phases]  # fmt: skip
    assert [["hill", "lake"], ["walker", "swimmer"]] == [
        list(part) for part in row_of(plan.phases[1])[1:3]
    ]  # a map does not tell: the inherited ones stand first


def test_had_the_second_phase_defined_the_hill_anew() -> None:
    """With a name in `duet` the hill has no parameters and no reward; that a reward is dropped is warned of."""
    text = CASCADE.replace("{uid: hill, params: {discrete: false}}", "{uid: hill, name: dummy}")
    plan, warnings = load(HEAD + text)

    assert ({}, None) == row_of(plan.phases[1])[1]["hill"]
    assert [("warning", 11, "this full definition of `hill` drops its reward of an earlier phase")] == [
        (fault.severity, fault.line, fault.message) for fault in warnings
    ]


def test_had_the_last_phase_kept_the_walker() -> None:
    """Its ids would be faults where they were given: the hill is unknown in `solo`."""
    text = CASCADE.replace("      agents: [{name: walker, remove: true}]\n", "")

    unknown = "there is no environment `hill` in phase `solo`"
    assert [(8, "actuators", unknown), (12, "sensors", unknown)] == [
        (fault.line, fault.path.split(".")[-2], fault.message) for fault in faults_of(HEAD + text)
    ]


# -- spellings --------------------------------------------------------------------------------------------------------
PLUGIN_PLACES = [
    "run_config: {conditions: [{name: c, KEYS}]}",
    "schedule: [a: {simulation: {name: c, KEYS}}]",
    "schedule: [a: {simulation: {conditions: [{name: c, KEYS}]}}]",
    "schedule: [a: {phase_config: {conditions: [{name: c, KEYS}]}}]",
    "schedule: [a: {environments: [{environment: {uid: e, KEYS}}]}]",
    "schedule: [a: {environments: [{environment: {uid: e}, reward: {name: r, KEYS}}]}]",
    "schedule: [a: {environments: [{environment: {uid: e}, state_transformer: {name: r, KEYS}}]}]",
    "schedule: [a: {agents: [{name: a, muscle: {name: m, KEYS}}]}]",
    "schedule: [a: {agents: [{name: a, brain: {name: m, KEYS}}]}]",
    "schedule: [a: {agents: [{name: a, objective: {name: m, KEYS}}]}]",
    "schedule: [a: {agents: [{name: a, filters: [{name: m, KEYS}]}]}]",
]
PAIRS = [
    ("KEYS", "experiment", "experiment_uid", "e", "e"),
    *((place, "parameters", "params", "{x: 1}", "{x: 1}") for place in PLUGIN_PLACES),
    ("schedule: [a: {phase_config: {KEYS}}]", "workers", "worker", "2", "2"),
    ("run_config: {KEYS}", "condition", "conditions", "c", "[{name: c}]"),
    ("run_config: {KEYS}", "condition", "conditions", "{name: c, params: {x: 1}}", "[{name: c, params: {x: 1}}]"),
    ("schedule: [a: {simulation: {KEYS}}]", "condition", "conditions", "c", "[{name: c}]"),
    ("schedule: [a: {phase_config: {KEYS}}]", "condition", "conditions", "c", "[{name: c}]"),
    ("schedule: [a: {agents: [{name: a, load: {KEYS}}]}]", "agent_name", "agent", "b", "b"),
    ("schedule: [a: {agents: [{name: a, load: {KEYS}}]}]", "experiment_id", "experiment_run", "r", "r"),
    ("schedule: [a: {agents: [{name: a, load: {KEYS}}]}]", "phase_name", "phase", "p", "p"),
]  # fmt: skip


def normalised(text: str) -> tuple[Any, list[str]]:
    """Return a text in our spelling, and the messages of what is wrong with its spelling."""
    root, faults = compose(Source.of("run.yml", text), text)
    assert root is not None
    assert [] == faults
    root, found = normalise(root)
    return root.plain(), [fault.message for fault in found]


@pytest.mark.parametrize(("place", "theirs", "ours", "their_value", "our_value"), PAIRS)
def test_a_spelling_means_ours(place: str, theirs: str, ours: str, their_value: str, our_value: str) -> None:
    """At every place each accepted spelling gives the document that our own gives."""
    expected = normalised(place.replace("KEYS", f"{ours}: {our_value}"))

    assert expected == normalised(place.replace("KEYS", f"{theirs}: {their_value}"))
    assert [] == expected[1]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("place", "theirs", "ours", "their_value", "our_value"), PAIRS)
def test_both_of_a_pair_are_a_fault(
    place: str, theirs: str, ours: str, their_value: str, our_value: str, swapped: bool
) -> None:
    """Whichever stands first: the second one is refused, by both names."""
    pair = [f"{theirs}: {their_value}", f"{ours}: {our_value}"]
    keys = [theirs, ours]
    if swapped:
        pair, keys = pair[::-1], keys[::-1]
    joint = "\n" if place == "KEYS" else ", "

    _, faults = normalised(place.replace("KEYS", joint.join(pair)))

    assert [f"`{keys[1]}` and `{keys[0]}` mean the same: give one of them"] == faults


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        ("train", "train"), ("Train", "train"), ("TRAIN", "train"), ("training", "train"), ("TRAINING", "train"),
        ("test", "test"), ("TEST", "test"), ("testing", "test"), ("Testing", "test"),
        ("evaluate", "evaluate"), ("Evaluate", "evaluate"), ("evaluation", "evaluate"), ("EVALUATION", "evaluate"),
    ],
)  # fmt: skip
def test_modes_in_any_case(written: str, mode: str) -> None:
    """Each mode has two words, in capitals or not."""
    plain, _ = normalised(f"schedule: [a: {{phase_config: {{mode: {written}}}}}]")

    assert mode == plain["schedule"][0]["a"]["phase_config"]["mode"]


# -- a document in which nearly all is wrong --------------------------------------------------------------------------
WRONG = """\
uid: a/b
experiment: e
experiment_uid: e
seed: -1
seed: 2
sead: 3
version: "0.1"
run_config:
  conditions:
    - {name: agent_objective, params: {adda: {brain_avg5: 1}}}
    - {name: max_episode}
cascade: both
recovery: {deadlines_s: {updat: 3}}
schedule:
  - one:
      environments:
        - {environment: {uid: hill, name: dumy}}
        - {environment: {uid: hill, name: dummy}}
        - {environment: {uid: lake}}
        - {environment: {uid: sea, name: dummy, attach: true}}
        - {environment: {uid: mill, command: [x]}, reward: my:Slope}
        - {environment: {uid: pond, attach: 1}}
        - {environment: {uid: gone}, remove: true}
      agents:
        - {name: ada, muscle: dummy, brian: dummy, sensors: [hil.0, hill.0, hill.0], actuators: [hill]}
        - {name: ada, muscle: dummy}
        - {name: bob}
        - {name: cyd, muscle: {params: {}}, sensors: hill.0}
      simulation: {name: vanila}
      phase_config: {mode: trian, worker: 0, workers: 2, episodes: many}
  - two:
      agents:
        - {name: ada, load: {phase: tow}}
      phase_config: {conditions: [{name: agent_objective, params: {ada: {brain_avg0: 1}}}]}
  - one:
      environments: []
  - three: {}
    four: {}
"""

SAID = [
    (1, 6, "uid", "expected text of 1 to 256 bytes without / [ ] and control characters, found the text 'a/b'"),
    (3, 1, "experiment_uid", "`experiment_uid` and `experiment` mean the same: give one of them"),
    (4, 7, "seed", "expected an integer >= 0, found the number -1"),
    (5, 1, "", "duplicate key `seed`, first given in line 4"),
    (6, 1, "sead", "unknown key; did you mean `seed`?"),
    (11, 14, "run_config.conditions.1.name", "there is no condition `max_episode`"),
    (12, 10, "cascade", "expected one of merge, replace, found the text 'both'"),
    (13, 26, "recovery.deadlines_s.updat", "unknown call `updat`; did you mean `update`?"),
    (17, 43, "schedule.one.environments.hill.environment.name", "there is no environment `dumy`"),
    (18, 31, "schedule.one.environments.hill.environment.uid", "duplicate uid `hill`: each stands once in the environments of a phase"),
    (19, 25, "schedule.one.environments.lake.environment", "environment `lake` is nowhere defined: expected one of `name`, `command`, `attach`"),
    (20, 49, "schedule.one.environments.sea.environment.attach", "expected one of `name`, `command`, `attach`, found `name` and `attach`"),
    (21, 52, "schedule.one.environments.mill.reward", "`reward` runs in a process of ours and cannot stand beside `command`"),
    (22, 45, "schedule.one.environments.pond.environment.attach", "expected true or false, found the number 1"),
    (23, 46, "schedule.one.environments.gone.remove", "there is no `gone` to remove in phase `one`"),
    (25, 38, "schedule.one.agents.ada.brian", "unknown key; did you mean `brain`?"),
    (25, 62, "schedule.one.agents.ada.sensors.0", "there is no environment `hil` in phase `one`; did you mean `hill`?"),
    (25, 77, "schedule.one.agents.ada.sensors.2", "`hill.0` stands twice in `sensors`"),
    (25, 98, "schedule.one.agents.ada.actuators.0", "expected a full id `<environment uid>.<id>`, found the text 'hill'; did you mean `hill`?"),
    (26, 18, "schedule.one.agents.ada.name", "duplicate name `ada`: each stands once in the agents of a phase"),
    (27, 11, "schedule.one.agents.bob", "missing key `muscle`: agent `bob` has no actor"),
    (28, 31, "schedule.one.agents.cyd.muscle", "missing key `name`: which muscle is it?"),
    (28, 54, "schedule.one.agents.cyd.sensors", "expected a list, found the text 'hill.0'"),
    (29, 26, "schedule.one.simulation.name", "there is no controller `vanila`"),
    (30, 28, "schedule.one.phase_config.mode", "expected one of train, test, evaluate, found the text 'trian'; did you mean `train`?"),
    (30, 43, "schedule.one.phase_config.worker", "expected an integer >= 1, found the number 0"),
    (30, 46, "schedule.one.phase_config.workers", "`workers` and `worker` mean the same: give one of them"),
    (30, 68, "schedule.one.phase_config.episodes", "expected an integer >= 1 or null, found the text 'many'"),
    (33, 37, "schedule.two.agents.ada.load.phase", "phase `tow` is unknown in phase `two`"),
    (34, 74, "schedule.two.phase_config.conditions.0.params.ada.brain_avg0", "expected `brain_avgN` or `phase_avgN` with N >= 1, found `brain_avg0`; did you mean `brain_avg10`?"),
    (35, 5, "schedule.one", "duplicate phase `one`: names of phases are unique"),
    (37, 5, "schedule.three", "expected the name of one phase in each entry, found `three`, `four`"),
]  # fmt: skip


def test_everything_that_is_wrong_is_said_at_once() -> None:
    """All kinds of faults of one document come together, each at its line, once, with no shadow of another."""
    found = [fault for fault in faults_of(WRONG) if not fault.message.startswith("not built yet")]

    assert SAID == [(fault.line, fault.column, fault.path, fault.message) for fault in found]
