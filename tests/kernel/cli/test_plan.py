from __future__ import annotations

import json

import pytest

from ganglion.cli.run import plan_rows, print_plans
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, ProgramPlan

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


def test_plan_is_printed_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    """For people with the seed first, for programs as one JSON value."""
    print_plans([PLAN], as_json=False)
    assert capsys.readouterr().out.startswith("demo · seed 42 · demo.yml\nphase 0 train: train, lockstep, 1 worker")
    print_plans([PLAN], as_json=True)

    assert [plan_rows(PLAN)] == json.loads(capsys.readouterr().out)
