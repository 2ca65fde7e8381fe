from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ganglion.limits import DEADLINE_OTHER_S, DEADLINES_S
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, Recovery, processes_of, span_s
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


@pytest.mark.parametrize(
    ("worker", "params"),
    [(0, {"a": 1, "b": 3}), (1, {"a": 1, "b": 2, "c": 4}), (2, {"a": 1, "b": 3}), (5, {"a": 1, "b": 2, "c": 4})],
)
def test_params_of_a_worker(worker: int, params: dict[str, int]) -> None:
    """Worker w gets entry `w mod length` of `per_worker` over `params`, key by key."""
    assert params == FULL.phases[0].environments[0].params_of(worker)


def test_params_are_a_copy() -> None:
    """What one worker does with its parameters is no other worker's business."""
    environment = EnvironmentPlan("hill", params={"a": 1})
    environment.params_of(0)["a"] = 2

    assert {"a": 1} == environment.params_of(1)


@pytest.mark.parametrize(
    ("call", "span_s"),
    [
        ("act", 3.0),
        ("join", 30.0),
        ("attach", None),
        ("brain.think", 60.0),
        ("environment.update", 30.0),
        ("kernel.need", DEADLINE_OTHER_S),
    ],
)
def test_deadline(call: str, span_s: float | None) -> None:
    """A call's deadline is that of its last word: the document's, else the table's, else the general one."""
    assert span_s == FULL.phases[0].deadline_s(call)


@pytest.mark.parametrize(("call", "inner"), [("muscle.act", "think"), ("controller.setup", "start")])
def test_deadline_leaves_time_for_what_is_inside(call: str, inner: str) -> None:
    """Who waits for somebody that waits in turn waits longer, so that the failure is named where it happens."""
    word = call.rpartition(".")[2]
    deadlines_s = {word: 5.0, inner: 7.0}

    span = span_s(call, deadlines_s)
    assert span is not None
    assert 12.0 < span < 20.0
    assert span_s(call, {**deadlines_s, inner: None}) is None
    assert span_s(call, {**deadlines_s, word: None}) is None


def test_processes_of_a_phase() -> None:
    """A phase needs its brains, and per worker a controller, environments and muscles, in document order."""
    rows: list[Any] = [(p.name, p.label, p.attached) for p in processes_of("farm-1", FULL.phases[0])]

    assert ("farm-1/brain/ada", "brain ada", False) == rows[0]
    for worker in (0, 1):
        assert rows[1 + 6 * worker : 7 + 6 * worker] == [
            (f"farm-1/controller/{worker}", f"controller (worker {worker})", False),
            (f"farm-1/environment/hill/{worker}", f"environment hill (worker {worker})", False),
            (f"farm-1/environment/lake/{worker}", f"environment lake (worker {worker})", False),
            (f"farm-1/environment/moor/{worker}", f"environment moor (worker {worker})", True),
            (f"farm-1/muscle/ada/{worker}", f"muscle ada (worker {worker})", False),
            (f"farm-1/muscle/bob/{worker}", f"muscle bob (worker {worker})", False),
        ]
    assert 13 == len(rows)
    assert [True, False] == [p.is_controller for p in processes_of("farm-1", FULL.phases[0])[1:3]]


def test_deadlines_are_those_of_who_is_asked() -> None:
    """An entry's numbers are for its own processes; who asks a controller waits as long as the slowest of all."""
    slow, quick = Recovery(deadlines_s={"start": 90.0, "join": 2.0}), Recovery(deadlines_s={"start": 1.0})
    hill, lake = EnvironmentPlan("hill", recovery=slow), EnvironmentPlan("lake", recovery=quick)
    phase = replace(FULL.phases[0], environments=[hill, lake], workers=1, deadlines_s={"start": 5.0})
    spans_s = {p.label: phase.deadline_s("x.start", p) for p in processes_of("r", phase)}

    assert (90.0, 1.0) == (spans_s["environment hill (worker 0)"], spans_s["environment lake (worker 0)"])
    assert {5.0} == {span for label, span in spans_s.items() if not label.startswith("environment")}
    assert phase.deadline_s("controller.setup") == DEADLINES_S["setup"] + 90.0 + 1.0  # type: ignore[operator]
    assert DEADLINES_S["join"] == phase.deadline_s("join")


def test_who_needs_tcp() -> None:
    """Programs may not know a socket file, and another user may not open ours; all others do without."""
    hill, agent = (
        EnvironmentPlan("hill", PluginPlan("dummy")),
        AgentPlan("a", PluginPlan("m"), None, PluginPlan("o"), [], []),
    )
    own = replace(agent, recovery=Recovery(run_as="bob"))
    phase = replace(FULL.phases[0], environments=[hill], agents=[agent])

    def needs(**changes: Any) -> bool:
        return Plan("u", "u", "1", [phase, replace(phase, **changes)]).needs_tcp

    assert not needs()
    assert needs(environments=[hill, EnvironmentPlan("lake", command=["lake"])])
    assert needs(environments=[EnvironmentPlan("moor", attach=True)])
    assert needs(agents=[agent, own])
    assert needs(run_as="bob")
