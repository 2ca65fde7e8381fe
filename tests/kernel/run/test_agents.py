from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import DocumentError
from ganglion.run.agents import declaration_rows, misfits, resolve
from ganglion.run.plan import BodyPlan, EnvironmentPlan, PluginPlan

SPACE = {"type": "discrete", "n": 2, "start": 0}


def rows(*ids: str) -> list[dict[str, Any]]:
    """Return declarations."""
    return [{"id": uid, "space": SPACE} for uid in ids]


DECLARED = {
    "hill": {"sensors": rows("0", "1", "sun"), "actuators": rows("0"), "rewards": None},
    "lake": {"sensors": rows("0"), "actuators": rows("0", "1"), "rewards": rows("r")},
}


FAULTS = [
    (
        ["hill.7"],
        [],
        ["f.yml:3:1: agent ada: sensors: 'hill.7' was not declared by its environment; did you mean `hill.1`?"],
    ),
    (["moor.0"], [], ["f.yml:3:1: agent ada: sensors: 'moor.0' was not declared by its environment"]),
    (["moor.*"], [], ["f.yml:3:1: agent ada: sensors: 'moor.*' was not declared by its environment"]),
    (["hill.0", "hill.0"], [], ["agent ada: sensors: 'hill.0' comes twice"]),
    (["hill.sun", "hill.*"], [], ["agent ada: sensors: 'hill.sun' comes twice"]),
    ([], ["hill.sun"], ["agent ada: actuators: 'hill.sun' was not declared"]),
    (["x"], ["y"], ["f.yml:3:1: agent ada: sensors: 'x'", "agent ada: actuators: 'y'"]),
]


@pytest.mark.parametrize(("sensors", "actuators", "texts"), FAULTS)
def test_faults_come_all_at_once(kit: Any, sensors: list[str], actuators: list[str], texts: list[str]) -> None:
    """Every id that cannot be found is a fault with the agent, the list, and the nearest right one."""
    agent = kit.agent(sensors=sensors, actuators=actuators, sensors_at=["f.yml:3:1"])
    with pytest.raises(DocumentError) as caught:
        resolve(kit.phase(agents=[agent]), DECLARED)

    assert len(texts) == len(caught.value.faults)
    assert all(fault.startswith(text) for fault, text in zip(caught.value.faults, texts, strict=True))


def test_id_of_two_environments_is_a_fault(kit: Any) -> None:
    """`a` with `b.0` and `a.b` with `0` would be one id: nobody may guess whose."""
    declared = {"a": {"sensors": rows("b.0"), "actuators": []}, "a.b": {"sensors": rows("0"), "actuators": []}}
    with pytest.raises(DocumentError, match=r"the sensor 'a\.b\.0' can belong to environment 'a' and to 'a\.b'"):
        resolve(kit.phase(agents=[]), declared)


def test_rewards_are_looked_up_once_they_are_known(kit: Any) -> None:
    """A reward that is not declared is a fault at its line, unless its environment declares rewards later."""
    rewards = ["lake", "lake.r", "lake.x", "hill.any", "hill"]
    agent = kit.agent(actuators=[], rewards=rewards, rewards_at=[f"f.yml:1:{place}" for place in range(1, 6)])

    assert [
        ("f.yml:1:3", "agent ada: rewards: 'lake.x' was not declared by its environment; did you mean `lake.r`?")
    ] == misfits(kit.phase(agents=[agent]), DECLARED)


def test_what_an_environment_tells_of_itself_is_declared() -> None:
    """It has a row of its own behind what the environment declares; without it there is none."""
    declared = {"sensors": [], "actuators": [], "rewards": None}
    told = {"a": {**declared, "static_model": {"width": 3}}, "b": {**declared, "static_model": None}}

    assert [
        ("sensor", "a", None, []),
        ("actuator", "a", None, []),
        ("static_world_model", "a", None, [{"id": "static_world_model", "model": {"width": 3}}]),
        ("sensor", "b", None, []),
        ("actuator", "b", None, []),
    ] == declaration_rows(told, [])


# -- bodies -----------------------------------------------------------------------------------------------------------
FLAT = {"type": "box", "low": 0, "high": 1, "shape": [2]}


def declared_of(sensors: list[str], actuators: list[str], rewards: list[str] | None, space: Any = SPACE) -> Any:
    """Return what one environment declares, for one body."""
    given = {"sensors": sensors, "actuators": actuators, "rewards": rewards}
    return {k: None if ids is None else [{"id": uid, "space": space} for uid in ids] for k, ids in given.items()}


ALIKE = {
    "lake": declared_of(["a", "b"], ["m"], ["r", "s"]),
    "moor": declared_of(["a", "b"], ["m"], ["r", "s"]),
    "fen": declared_of(["a"], ["m"], ["r"]),
}


def phase_of_bodies(kit: Any, agent: Any, *where: str) -> Any:
    """Return a phase with the environments of ALIKE, and two bodies of one agent in each of these."""
    bodies = [BodyPlan(agent.name, uid, b) for uid in where for b in (0, 1)]
    environments = [EnvironmentPlan(uid, PluginPlan("dummy")) for uid in ALIKE]
    return kit.phase(agents=[agent], environments=environments, bodies=bodies)


RESOLVED = [
    # environments, lists of the agent; ids of one body, local ids
    (["lake"], {}, (["lake.a", "lake.b"], ["lake.m"]), (["a", "b"], ["m"], None)),
    (["lake"], {"sensors": ["lake.b"]}, (["lake.b"], ["lake.m"]), (["b"], ["m"], None)),
    (["lake"], {"sensors": ["lake.b", "lake.a"]}, (["lake.b", "lake.a"], ["lake.m"]), (["b", "a"], ["m"], None)),
    (["lake"], {"rewards": ["lake.s"]}, (["lake.a", "lake.b"], ["lake.m"]), (["a", "b"], ["m"], ["s"])),
    (["lake"], {"rewards": ["lake"]}, (["lake.a", "lake.b"], ["lake.m"]), (["a", "b"], ["m"], ["r", "s"])),
    (["lake", "moor"], {}, (["a", "b"], ["m"]), (["a", "b"], ["m"], None)),
    (["lake", "moor"], {"sensors": ["moor.b", "lake.b"]}, (["b"], ["m"]), (["b"], ["m"], None)),
    (["lake", "moor"], {"rewards": ["moor.s", "lake.s"]}, (["a", "b"], ["m"]), (["a", "b"], ["m"], ["s"])),
    (
        ["lake", "fen"],
        {"sensors": ["lake.a", "fen.*"], "rewards": ["lake.r", "fen"]},
        (["a"], ["m"]),
        (["a"], ["m"], ["r"]),
    ),
    ([], {"sensors": ["lake.a"], "rewards": ["lake.r"]}, ([], []), ([], [], None)),
]


@pytest.mark.parametrize(("where", "lists", "ids", "local"), RESOLVED)
def test_declarations_of_one_body(kit: Any, where: list[str], lists: Any, ids: Any, local: Any) -> None:
    """They have full ids if all bodies are in one environment, else those that its environments share."""
    agent = kit.agent(**{"sensors": [], "actuators": [], **lists})
    [found] = resolve(phase_of_bodies(kit, agent, *where), ALIKE)

    assert ids == ([row["id"] for row in found.sensors], [row["id"] for row in found.actuators])
    assert [dict(zip(("sensors", "actuators", "rewards"), local, strict=True))] == found.locals
    assert found.groups is None
    assert where == found.environments


ALL = ["lake", "moor", "fen"]
GROUPS = [
    # environments, lists of the agent; groups of environments; ids of each group, local rewards of each
    (ALL, {}, {"lake": 0, "moor": 0, "fen": 1}, ([["a", "b"], ["fen.a"]], [["m"], ["fen.m"]]), [None, None]),
    (
        ["lake", "fen"],
        {"rewards": ["fen", "lake.s"]},
        {"lake": 0, "fen": 1},
        ([["lake.a", "lake.b"], ["fen.a"]], [["lake.m"], ["fen.m"]]),
        [["s"], ["r"]],
    ),
    (
        ["lake", "moor"],
        {"sensors": ["lake.a", "lake.b", "moor.b", "moor.a"]},
        {"lake": 0, "moor": 1},
        ([["lake.a", "lake.b"], ["moor.b", "moor.a"]], [["lake.m"], ["moor.m"]]),
        [None, None],
    ),
    (
        ["lake", "moor"],
        {"actuators": ["lake.m"]},
        {"lake": 0, "moor": 1},
        ([["lake.a", "lake.b"], ["moor.a", "moor.b"]], [["lake.m"], []]),
        [None, None],
    ),
    (
        ["lake", "moor"],
        {"rewards": ["lake", "moor.s"]},
        {"lake": 0, "moor": 1},
        ([["lake.a", "lake.b"], ["moor.a", "moor.b"]], [["lake.m"], ["moor.m"]]),
        [["r", "s"], ["s"]],
    ),
]


@pytest.mark.parametrize(("where", "lists", "groups", "ids", "rewards"), GROUPS)
def test_bodies_of_unequal_declarations_are_groups(
    kit: Any, where: list[str], lists: Any, groups: Any, ids: Any, rewards: Any
) -> None:
    """Equal local ids and spaces in one order make a group, in the order of environments; all that counts is asked."""
    agent = kit.agent(**{"sensors": [], "actuators": [], **lists})
    [found] = resolve(phase_of_bodies(kit, agent, *where), ALIKE)

    assert groups == found.groups
    parts = [[[row["id"] for row in rows] for rows in part[1:]] for part in found.parts()]
    assert ids == tuple([part[i] for part in parts] for i in (0, 1))
    assert rewards == [local["rewards"] for local in found.locals or []]
    assert [uid for part in found.parts() for uid in part[0]] == sorted(
        where, key=lambda uid: (groups[uid], ALL.index(uid))
    )
    for_store = [row[:3] for row in declaration_rows({}, [found])]
    assert [
        (kind, uid, "ada") for part in found.parts() for uid in part[0] for kind in ("sensor", "actuator")
    ] == for_store


BODY_FAULTS = [
    (
        ["lake", "moor"],
        {"sensors": ["lake.a"], "actuators": ["lake.m"]},
        ["at s0: agent ada: it has a body in environment moor, of which it names neither sensors nor actuators"],
    ),
    (
        ["lake"],
        {"sensors": ["moor.a", "lake.a"]},
        ["at s0: agent ada: sensors: 'moor.a' is of an environment in which the agent has no body"],
    ),
    (
        ["lake"],
        {"sensors": ["lake.a", "lake.x"]},
        ["at s1: agent ada: sensors: 'lake.x' was not declared by its environment"],
    ),
    (
        ["lake"],
        {"rewards": ["lake.s", "moor.r", "lake.rr"]},
        [
            "at r1: agent ada: rewards: 'moor.r' is of no environment in which the agent has a body",
            "at r2: agent ada: rewards: 'lake.rr' was not declared by its environment; did you mean `lake.r`?",
        ],
    ),
]


@pytest.mark.parametrize(("where", "lists", "texts"), BODY_FAULTS)
def test_faults_of_bodies_name_agent_and_environments(kit: Any, where: list[str], lists: Any, texts: list[str]) -> None:
    """What an agent's bodies cannot share, or do not have, is refused with its place, all at once."""
    given = {"sensors": [], "actuators": [], **lists}
    places = {f"{what}_at": [f"at {what[0]}{i}" for i in range(len(ids))] for what, ids in given.items()}
    phase = phase_of_bodies(kit, kit.agent(**given, **places), *where)
    with pytest.raises(DocumentError) as caught:
        resolve(phase, ALIKE)

    assert len(texts) == len(caught.value.faults)
    assert all(fault.startswith(text) for fault, text in zip(caught.value.faults, texts, strict=True))
    assert len(texts) == len(misfits(phase, ALIKE))
    assert [] == misfits(phase, {}, list(ALIKE))  # nobody knows yet what they declare


def test_other_spaces_are_another_group(kit: Any) -> None:
    """Equal ids do not make a group where their spaces differ."""
    other = {**ALIKE, "moor": declared_of(["a", "b"], ["m"], ["r", "s"], FLAT)}
    [found] = resolve(phase_of_bodies(kit, kit.agent(sensors=[], actuators=[]), "lake", "moor"), other)

    assert {"lake": 0, "moor": 1} == found.groups
    assert [0, 0, 1, 1] == [row["group"] for row in found.sensors]
