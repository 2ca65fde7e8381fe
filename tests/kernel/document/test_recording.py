from __future__ import annotations

import pytest

from ganglion.document.check import reads, replay_faults, replays
from ganglion.document.marks import Node, Source, compose
from ganglion.document.spelling import normalise


def _agent(text: str) -> Node:
    root, _ = compose(Source.of("a.yml", text), text)
    assert root is not None
    return normalise(root)[0].map["schedule"].items[0].map["one"].map["agents"].items[0]


def _of(keys: str) -> Node:
    return _agent(f"schedule: [one: {{agents: [{{name: ada, {keys}}}]}}]")


@pytest.mark.parametrize(
    ("keys", "count", "all_"),
    [
        ("brain: dummy", 0, 0),
        ("replay: ~", 0, 0),
        ("replay: []", 0, 0),
        ("replay: nonsense", 0, 0),
        ("replay: [{}, 3, {phase: 0}]", 2, 2),
        ("load: {phase: 0}, replay: [{}]", 1, 2),
        ("load: false", 0, 1),
    ],
)
def test_what_names_runs_and_phases_is_found(keys: str, count: int, all_: int) -> None:
    """Entries that are maps are found, in order, behind `load`; whatever else stands there is the form's to refuse."""
    agent = _of(keys)

    assert (count, all_) == (len(replays(agent)), len(reads(agent)))


def test_other_spellings_are_those_of_load() -> None:
    """Words of other projects are read where they are read in `load`."""
    (entry,) = replays(_of("replay: [{agent_name: bob, experiment_id: far, phase_name: one}]"))

    assert {"agent": "bob", "experiment_run": "far", "phase": "one"} == entry.plain()


@pytest.mark.parametrize(
    ("keys", "faults"),
    [
        ("brain: dummy, replay: [{}]", 0),
        ("brain: ~, replay: []", 0),
        ("brain: ~, replay: [{}]", 1),
        ("replay: [{}]", 1),
        ("brain: {name: none}, filters: [norm], replay: [{}]", 1),
        ("brain: dummy, filters: [norm], replay: [{}]", 0),
    ],
)
def test_who_cannot_learn_from_recordings_is_refused(keys: str, faults: int) -> None:
    """An agent without a brain cannot."""
    assert faults == len(list(replay_faults(_of(keys))))
