from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import DocumentError
from ganglion.run.agents import declaration_rows, full_ids, misfits, resolve
from ganglion.run.plan import EnvironmentPlan, PluginPlan

SPACE = {"type": "discrete", "n": 2, "start": 0}


def rows(*ids: str) -> list[dict[str, Any]]:
    """Return declarations."""
    return [{"id": uid, "space": SPACE} for uid in ids]


DECLARED = {
    "hill": {"sensors": rows("0", "1", "sun"), "actuators": rows("0"), "rewards": None},
    "lake": {"sensors": rows("0"), "actuators": rows("0", "1"), "rewards": rows("r")},
}


def one(kit: Any, sensors: list[str], actuators: list[str], **more: Any) -> Any:
    """Return the only agent of a phase, resolved."""
    phase = kit.phase(agents=[kit.agent(sensors=sensors, actuators=actuators, **more)])
    return resolve(phase, DECLARED)[0]


def test_ids_keep_the_order_of_the_document(kit: Any) -> None:
    """Sensors and actuators come in the order in which the document names them, under full ids."""
    agent = one(kit, ["lake.0", "hill.sun", "hill.0"], ["lake.1", "hill.0"])

    assert ["lake.0", "hill.sun", "hill.0"] == [row["id"] for row in agent.sensors]
    assert ["lake.1", "hill.0"] == [row["id"] for row in agent.actuators]
    assert ["lake", "hill"] == agent.environments
    assert all(row["space"] == SPACE for row in agent.sensors)


def test_star_is_all_of_one_environment(kit: Any) -> None:
    """`<uid>.*` is everything that this environment declares, in its order."""
    agent = one(kit, ["hill.*"], ["lake.*", "hill.0"])

    assert ["hill.0", "hill.1", "hill.sun"] == [row["id"] for row in agent.sensors]
    assert ["lake.0", "lake.1", "hill.0"] == [row["id"] for row in agent.actuators]


def test_agent_without_ids_touches_nothing(kit: Any) -> None:
    """An agent may have neither sensors nor actuators."""
    agent = one(kit, [], [])

    assert ([], [], []) == (agent.sensors, agent.actuators, agent.environments)


def test_full_ids_leave_declarations_alone() -> None:
    """Full ids are made beside what was declared."""
    declared = rows("0")

    assert ["hill.0"] == [row["id"] for row in full_ids("hill", declared)]
    assert rows("0") == declared


FAULTS = [
    (["hill.7"], [], ["agent ada: sensors: 'hill.7' was not declared by its environment; did you mean 'hill.1'?"]),
    (["moor.0"], [], ["agent ada: sensors: 'moor.0' was not declared by its environment"]),
    (["moor.*"], [], ["agent ada: sensors: 'moor.*' was not declared by its environment"]),
    (["hill.0", "hill.0"], [], ["agent ada: sensors: 'hill.0' comes twice"]),
    (["hill.sun", "hill.*"], [], ["agent ada: sensors: 'hill.sun' comes twice"]),
    ([], ["hill.sun"], ["agent ada: actuators: 'hill.sun' was not declared"]),
    (["x"], ["y"], ["agent ada: sensors: 'x'", "agent ada: actuators: 'y'"]),
]


@pytest.mark.parametrize(("sensors", "actuators", "texts"), FAULTS)
def test_faults_come_all_at_once(kit: Any, sensors: list[str], actuators: list[str], texts: list[str]) -> None:
    """Every id that cannot be found is a fault with the agent, the list, and the nearest right one."""
    with pytest.raises(DocumentError) as caught:
        one(kit, sensors, actuators)

    assert len(texts) == len(caught.value.faults)
    assert all(fault.startswith(text) for fault, text in zip(caught.value.faults, texts, strict=True))


def test_fault_has_its_place(kit: Any) -> None:
    """A fault begins with the line of the document that names the id."""
    with pytest.raises(DocumentError, match=r"^f\.yml:3:5: agent ada: sensors: 'hill\.7'"):
        one(kit, ["hill.0", "hill.7"], [], sensors_at=["f.yml:3:1", "f.yml:3:5"])


def test_id_of_two_environments_is_a_fault(kit: Any) -> None:
    """`a` with `b.0` and `a.b` with `0` would be one id: nobody may guess whose."""
    declared = {"a": {"sensors": rows("b.0"), "actuators": []}, "a.b": {"sensors": rows("0"), "actuators": []}}
    with pytest.raises(DocumentError, match=r"the sensor 'a\.b\.0' can belong to environment 'a' and to 'a\.b'"):
        resolve(kit.phase(agents=[]), declared)


def test_uids_may_go_on_behind_a_dot(kit: Any) -> None:
    """`a.*` has nothing of `a.b`; a local id may end as a wildcard does, and environments come first."""
    declared = {"a": {"sensors": rows("b.1", "c.*"), "actuators": []}, "a.b": {"sensors": rows("0"), "actuators": []}}
    agent = kit.agent(sensors=["a.b.*", "a.c.*", "a.b.1"], actuators=[])

    [found] = resolve(kit.phase(agents=[agent]), declared)

    assert ["a.b.0", "a.c.*", "a.b.1"] == [row["id"] for row in found.sensors]
    assert ["a.b", "a"] == found.environments
    twice = kit.agent(sensors=["a.*", "a.b.*", "a.b.1"], actuators=[])
    assert ["agent ada: sensors: 'a.b.1' comes twice"] == [
        text for _, text in misfits(kit.phase(agents=[twice]), declared)
    ]


def test_rewards_are_looked_up_once_they_are_known(kit: Any) -> None:
    """A reward that is not declared is a fault at its line, unless its environment declares rewards later."""
    agent = kit.agent(
        sensors=["hill.0"],
        actuators=[],
        rewards=["lake", "lake.r", "lake.x", "hill.any", "hill"],
        rewards_at=["f.yml:1:1", "f.yml:1:2", "f.yml:1:3", "f.yml:1:4", "f.yml:1:5"],
    )

    assert [
        ("f.yml:1:3", "agent ada: rewards: 'lake.x' was not declared by its environment; did you mean 'lake.r'?")
    ] == misfits(kit.phase(agents=[agent]), DECLARED)


def test_ids_of_unknown_environments_pass(kit: Any) -> None:
    """Of an environment that somebody else starts nobody knows the ids before it runs."""
    agent = kit.agent(sensors=["wind.0", "wind.*", "hill.9"], actuators=["wind.1"], rewards=["wind", "wind.r"])
    phase = kit.phase(agents=[agent])

    assert ["agent ada: sensors: 'hill.9' was not declared by its environment"] == [
        message.partition(";")[0] for _, message in misfits(phase, DECLARED, ["wind"])
    ]
    assert 6 == len(misfits(phase, DECLARED))


def test_doubtful_ids_have_the_place_of_the_second_environment(kit: Any) -> None:
    """An id of two environments is told where the second of them is defined, whatever it is an id of."""
    plugin = PluginPlan("dummy", at="f.yml:9:9")
    phase = kit.phase(agents=[], environments=[EnvironmentPlan("a"), EnvironmentPlan("a.b", plugin)])
    declared = {
        "a": {"sensors": [], "actuators": [], "rewards": rows("b.0")},
        "a.b": {"sensors": [], "actuators": [], "rewards": rows("0")},
    }

    assert [("f.yml:9:9", "the reward 'a.b.0' can belong to environment 'a' and to 'a.b'")] == misfits(phase, declared)


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
