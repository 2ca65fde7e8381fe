from __future__ import annotations

import json

import pytest

from ganglion.cli.run import plan_rows, print_plans
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, ProgramPlan
from ganglion.sdk.seed import integer_from_words, words

DUMMY = PluginPlan("dummy")
PLAN = Plan(
    "demo",
    "demo",
    "42",
    [
        PhasePlan(
            0,
            "train",
            [
                EnvironmentPlan("grid", PluginPlan("cartpole")),
                EnvironmentPlan("sim", command=["sim", "a b", "{connection}"]),
                EnvironmentPlan("far", attach=True),
            ],
            [
                AgentPlan("ada", PluginPlan("sarsa"), PluginPlan("learner"), DUMMY, [], []),
                AgentPlan("bob", None, None, DUMMY, [], [], program=ProgramPlan(["./act", "a b"])),
                AgentPlan("cyd", None, None, DUMMY, [], [], program=ProgramPlan()),
            ],
            PluginPlan("vanilla"),
            [],
            [],
        )
    ],
    source="demo.yml",
)


def test_plan_names_every_process_and_how_it_starts() -> None:
    """Each process stands there with its name and with what brings it to life, programs with their words."""
    [phase] = plan_rows(PLAN)["phases"]

    assert {
        "demo/brain/ada": "plugin: learner",
        "demo/controller/0": "plugin: vanilla",
        "demo/environment/grid/0": "plugin: cartpole",
        "demo/environment/sim/0": "command: sim 'a b' '{connection}'",
        "demo/environment/far/0": "attach: somebody else starts far",
        "demo/muscle/ada/0": "plugin: sarsa, objective dummy",
        "demo/muscle/bob/0": "command: ./act 'a b'",
        "demo/muscle/cyd/0": "attach: somebody else starts cyd",
    } == {process["name"]: process["starts"] for process in phase["processes"]}


def test_plan_names_the_seeds() -> None:
    """The number of each stream is that which the run gives to the process's object."""
    [phase] = plan_rows(PLAN)["phases"]
    seeds = {process["name"]: process["seed"] for process in phase["processes"]}

    assert len(seeds) == len(set(seeds.values()))
    for name, path in {
        "demo/brain/ada": ["phase", "train", "agent", "ada", "brain"],
        "demo/controller/0": ["phase", "train", "train", "controller", "worker", 0],
        "demo/environment/grid/0": ["phase", "train", "train", "environment", "grid", "worker", 0],
        "demo/muscle/ada/0": ["phase", "train", "train", "agent", "ada", "muscle", "worker", 0],
    }.items():
        assert str(integer_from_words(words(42, path))) == seeds[name]


def test_plan_is_printed_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    """For people with the seed first, for programs as one JSON value."""
    print_plans([PLAN], as_json=False)
    assert capsys.readouterr().out.startswith("demo · seed 42 · demo.yml\nphase 0 train: train, lockstep, 1 worker")
    print_plans([PLAN], as_json=True)

    assert [plan_rows(PLAN)] == json.loads(capsys.readouterr().out)
