from __future__ import annotations

from ganglion.document.marks import Node, Source, compose
from ganglion.document.spelling import normalise, phases_of


def read(text: str) -> Node:
    """Return the tree of a sound text."""
    root, faults = compose(Source("a.yml", text), text)
    assert root is not None
    assert [] == faults
    return root


def test_again_changes_nothing() -> None:
    """A document in our spelling stays as it is, paths included."""
    text = "schedule: {a: {agents: [{name: n.1, brain: b, sensors: [e.1]}], phase_config: {workers: 2}}}"
    root = read(text)

    once, _ = normalise(root)
    twice, _ = normalise(once)

    assert once.plain() == twice.plain()
    for document in (once, twice):
        ((_, phase),) = phases_of(document)
        agent = phase.map["agents"].items[0]
        assert 'schedule.a.agents."n.1".sensors.0' == agent.map["sensors"].items[0].path
        assert 'schedule.a.agents."n.1".brain' == agent.map["brain"].map["name"].path
        assert "schedule.a.phase_config.workers" == phase.map["phase_config"].keys["worker"].path
