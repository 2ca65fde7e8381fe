from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import DocumentError
from ganglion.run.agents import declaration_rows, misfits, resolve

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
        ["f.yml:3:1: agent ada: sensors: 'hill.7' was not declared by its environment; did you mean 'hill.1'?"],
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
        ("f.yml:1:3", "agent ada: rewards: 'lake.x' was not declared by its environment; did you mean 'lake.r'?")
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
