from __future__ import annotations

import pytest

from ganglion.document.marks import Node, Source, compose
from ganglion.document.spelling import component, normalise, phases_of


def read(text: str) -> Node:
    """Return the tree of a sound text."""
    root, faults = compose(Source.of("a.yml", text), text)
    assert root is not None
    assert [] == faults
    return root


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("experiment: e", "experiment_uid: e"),
        ("x-anchors: {a: 1}\nuid: u", "uid: u"),
        ("run_config: {condition: vanilla}", "run_config: {conditions: [{name: vanilla}]}"),
        (
            "run_config: {conditions: [{name: c, parameters: {a: 1}}, d]}",
            "run_config: {conditions: [{name: c, params: {a: 1}}, {name: d}]}",
        ),
        ("schedule: {a: {}, b: {}}", "schedule: [{a: {}}, {b: {}}]"),
        (
            "schedule: [a: {phase_config: {workers: 2, mode: Training}}]",
            "schedule: [a: {phase_config: {worker: 2, mode: train}}]",
        ),
        (
            "schedule: [a: {phase_config: {mode: EVALUATION}, simulation: vanilla}]",
            "schedule: [a: {phase_config: {mode: evaluate}, simulation: {name: vanilla}}]",
        ),
        (
            "schedule: [a: {environments: [{environment: {uid: e, parameters: {x: 1}}, reward: r}]}]",
            "schedule: [a: {environments: [{environment: {uid: e, params: {x: 1}}, reward: {name: r}}]}]",
        ),
        (
            "schedule: [a: {agents: [{load: {agent_name: x, experiment_id: y, phase_name: z}}]}]",
            "schedule: [a: {agents: [{load: {agent: x, experiment_run: y, phase: z}}]}]",
        ),
        (
            "schedule: [a: {agents: [{brain: b, filters: [norm]}]}]",
            "schedule: [a: {agents: [{brain: {name: b}, filters: [{name: norm}]}]}]",
        ),
        ("schedule: 3\nrun_config: [x]", "schedule: 3\nrun_config: [x]"),
    ],
)
def test_accepted_spellings(theirs: str, ours: str) -> None:
    """Every accepted spelling becomes ours; what has not the expected form stays for the model to refuse."""
    root, faults = normalise(read(theirs))

    assert (read(ours).plain(), []) == (root.plain(), faults)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("experiment: a\nexperiment_uid: b", "2:1: experiment_uid: `experiment_uid` and `experiment` mean the same"),
        ("run_config: {conditions: [], condition: x}", "1:30: run_config.condition: `condition` and `conditions`"),
    ],
)
def test_both_spellings_are_a_fault(text: str, fault: str) -> None:
    """Two spellings of one key in one map are a fault at the second one."""
    root = read(text)

    found = [str(one).removeprefix("a.yml:") for one in normalise(root)[1]]

    assert [fault] == [one[: len(fault)] for one in found]


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


def test_components_with_dots_are_quoted() -> None:
    """A component of a path with a dot stands in double quotes."""
    assert ["a", '"net.1"', '""'] == [component(name) for name in ("a", "net.1", "")]


def test_unsound_entries_are_no_phases() -> None:
    """An entry of the schedule with two names is no phase."""
    root = read("schedule: [{a: {}}, {b: {}, c: {}}, 3, {d: {}}]")

    assert ["a", "d"] == [name.value for name, _ in phases_of(normalise(root)[0])]
