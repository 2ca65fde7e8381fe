from __future__ import annotations

import pytest

from ganglion.document.cascade import Nowhere, override, put
from ganglion.document.marks import Node, Source, compose
from ganglion.document.spelling import normalise

TEXT = """
uid: u
schedule:
  - warm: &warm
      environments:
        - environment: {uid: net.1, name: dummy, params: &p {max_iter: 8}}
        - environment: {uid: b, params: *p}
      agents: [{name: ada, brain: dummy, sensors: [b.1, b.2]}]
  - "2": *warm
run_config: {condition: vanilla}
"""
ENTRIES = "schedule 0 warm environments"
NO_PATHS = ["", ".", "a.", "a..b", 'a."b', 'a"b"', '"a"b']
NOWHERE = "the path leads nowhere"


def document() -> Node:
    """Return the document above in our spelling."""
    root, faults = compose(Source("a.yml", TEXT), TEXT)
    assert root is not None
    assert [] == faults
    return normalise(root)[0]


@pytest.mark.parametrize(
    ("setting", "where", "value"),
    [
        ("uid=v", "uid", "v"),
        ("seed=1e3", "seed", 1000.0),
        ("schedule.warm.phase_config.workers=3", "schedule 0 warm phase_config worker", 3),
        ('schedule.warm.environments."net.1".params.max_iter=9', f"{ENTRIES} 0 environment params max_iter", 9),
        ("schedule.0.environments.b.environment.name=x", f"{ENTRIES} 1 environment name", "x"),
        ("schedule.warm.environments.1.reward={name: r}", f"{ENTRIES} 1 reward", {"name": "r"}),
        ("schedule.warm.agents.ada.sensors.1=b.3", "schedule 0 warm agents 0 sensors 1", "b.3"),
        ("schedule.2.agents.ada.brain.params.lr=0.1", 'schedule 1 "2" agents 0 brain params lr', 0.1),
        ("run_config.conditions.vanilla.params={a: 1}", "run_config conditions 0 params", {"a": 1}),
        ("schedule.warm.agents.ada.sensors=", "schedule 0 warm agents 0 sensors", None),
    ],
)
def test_sets_one_value(setting: str, where: str, value: object) -> None:
    """A setting changes the one value at its path, also where the document's value stands at several places."""
    before = document()

    after, faults = override(before, [setting])

    assert [] == faults
    assert document().plain() == before.plain()
    expected = before.plain()
    place = expected
    parts = [int(part) if part.isdecimal() else part.strip('"') for part in where.split()]
    for part in parts[:-1]:
        place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
    place[parts[-1]] = value
    assert expected == after.plain()


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("uid", "expected PATH=VALUE"),
        *[(f"{path}=1", f"expected components divided by dots, found {path!r}") for path in NO_PATHS],
        ("schedule.wram.x=1", f"{NOWHERE}: there is no phase `wram`; did you mean `warm`?"),
        ("schedule.warm.agents.adda.x=1", f"{NOWHERE}: there is no entry `adda`; did you mean `ada`?"),
        ("schedule.warm.agent.ada.x=1", f"{NOWHERE}: there is no `agent`; did you mean `agents`?"),
        ("uid.x=1", f"{NOWHERE}: before `x` there is the text 'u'"),
        ("uid=[1", "not YAML: while parsing a flow sequence"),
        ("uid=!!python/none x", "the tag !!python/none is refused"),
    ],
)
def test_leads_nowhere(setting: str, fault: str) -> None:
    """A path that leads nowhere is a fault at the option, with the nearest right name; nothing is changed."""
    after, faults = override(document(), [setting])

    fault = f"--set {setting}: {fault}"
    assert [fault] == [str(one)[: len(fault)] for one in faults]
    assert document().plain() == after.plain()


def test_a_value_is_put_into_any_tree() -> None:
    """Beside run documents, any map takes values; the tree that was given stays as it is."""
    tree, value = (compose(Source("x"), text)[0] for text in ("a: {b: [1, 2]}", "c: 3"))
    assert tree is not None
    assert value is not None

    assert {"a": {"b": [1, {"c": 3}]}} == put(tree, ["a", "b", "1"], value, None).plain()
    assert {"a": {"b": [1, 2]}} == tree.plain()
    with pytest.raises(Nowhere, match="there is no `x`"):
        put(tree, ["x", "y"], value, None)
