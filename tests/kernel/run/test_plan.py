from __future__ import annotations

import json

from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, Recovery
from ganglion.wire.codec import decode_map, encode_map

FULL = Plan(
    "farm",
    "farms",
    str(2**200),
    [
        PhasePlan(
            0,
            "warm-up",
            [
                EnvironmentPlan(
                    "hill",
                    PluginPlan("dummy", {"n": 1}, "continue", "f.yml:3:4"),
                    params={"a": 1, "b": 2},
                    per_worker=[{"b": 3}, {"c": 4}],
                    reward=PluginPlan("slope"),
                    transformer=PluginPlan("counting"),
                ),
                EnvironmentPlan("lake", command=["java", "Lake"], cwd="x", variables={"A": "1"}),
                EnvironmentPlan("moor", attach=True, recovery=Recovery(run_as="bob")),
            ],
            [
                AgentPlan(
                    "ada",
                    PluginPlan("m"),
                    PluginPlan("b"),
                    PluginPlan("o"),
                    ["hill.*"],
                    ["hill.0"],
                    ["hill"],
                    [PluginPlan("norm")],
                    "models",
                    {"phase": 0},
                    ["f.yml:9:1"],
                    ["f.yml:9:2"],
                ),
                AgentPlan("bob", PluginPlan("m"), None, PluginPlan("o"), [], [], load=False),
            ],
            PluginPlan("vanilla"),
            [PluginPlan("max_steps", {"steps": 3})],
            [PluginPlan("max_episodes")],
            workers=2,
            episodes=5,
            deadlines_s={"act": 3.0, "attach": None},
        )
    ],
    "f.yml",
    "/docs",
    "uid: farm",
    ["mine"],
)


def test_plan_travels() -> None:
    """A plan comes back from the map that it becomes, also over the wire and from a file."""
    tree = FULL.to_map()

    assert FULL == Plan.from_map(tree)
    assert FULL == Plan.from_map(decode_map(encode_map(tree)))
    assert FULL == Plan.from_map(json.loads(json.dumps(tree)))
