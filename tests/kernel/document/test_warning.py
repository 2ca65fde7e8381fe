# ruff: noqa: E501 - a row of a table of cases is easier to compare on one line
from __future__ import annotations

from typing import Any

import pytest

from ganglion.document.cascade import cascade
from ganglion.document.check import warnings
from ganglion.document.fault import Fault, gathered
from ganglion.document.marks import Source, compose
from ganglion.document.spelling import normalise, phases_of


def warned(
    config: str = "",
    simulation: str = "",
    run: str = "max_episodes",
    head: str = 'version: "0.1"',
    versions: tuple[str, ...] = (),
    agents: str = "{name: ada}, {name: bob}",
) -> list[str]:
    """Return the warnings about a document of one phase, also of what is refused elsewhere."""
    text = f"""uid: u
{head}
run_config: {{conditions: [{run}]}}
schedule:
  - one:
      agents: [{agents}]
      phase_config: {{{config}}}
      simulation: {{{simulation}}}
"""
    root, faults = compose(Source("a.yml", text), text)
    assert root is not None
    assert [] == faults
    root, _ = normalise(root)
    phases = cascade(phases_of(root), replace=False)
    return [fault.message for fault in warnings(root, phases, frozenset(versions))]


CASES = [
    ({"config": "episodes: 2"}, []),
    ({"config": "episodes: three"}, []),
    ({"config": "episodes: 2, store_raw_actuators: true"},
     ["`store_raw_actuators` has no effect: a muscle's proposals are always stored"]),
    ({"config": "episodes: 2, sync: async"}, ["`sync: async` is not reproducible: updates come in order of arrival"]),
    ({"config": "episodes: 2, evaluate_every: 3"}, ["there is never an evaluation: this phase has at most 2 episodes"]),
    ({"config": "episodes: 2, worker: 2, evaluate_every: 3"}, []),
    ({"config": "episodes: 2, evaluate_every: 1, mode: test"}, ["this phase does not train: there is never an evaluation"]),
    ({"config": "mode: testing", "agents": "{name: ada, replay: [{}]}"}, ["no brain learns in a phase of mode `test`: `replay` has no effect"]),
    ({"agents": "{name: ada, brain: dummy, sensors: [e.0], replay: [{}]}"}, []),
    ({"agents": "{name: ada, brain: dummy}"}, ["agent `ada` has neither `sensors` nor `actuators`: it sees and sets nothing"]),
    ({"agents": "{name: ada, actuators: [e.0, e.1, e.2, f.0]}, {name: bob, actuators: [e.2, e.0]}"},
     ["agents `ada` and `bob` both set `e.2` and 1 more in each step: the later one, `bob`, wins"]),
    ({"agents": "{name: ada, actuators: [e.*, f.0]}, {name: bob, actuators: [e.0]}"},
     ["agents `ada` and `bob` both set `e.0` in each step: the later one, `bob`, wins"]),
    ({"agents": "{name: ada, actuators: [e.0]}, {name: bob, actuators: [e.*]}"},
     ["agents `ada` and `bob` both set `e.*` in each step: the later one, `bob`, wins"]),
    ({"agents": "{name: ada, actuators: [e.0]}, {name: bob, actuators: [e.1, f.*]}"}, []),
    ({"agents": "{name: ada, actuators: [e.0]}, {name: bob, actuators: [e.0]}", "simulation": "name: taking_turns"}, []),
    ({"agents": "{name: ada, load: {agent: ~, base: kept}}"}, ["`agent: ~` starts fresh: `base` has no effect"]),
    ({"agents": "{name: ada, load: {}}"}, ["no earlier phase has the agent `ada`: it starts fresh"]),
    ({"config": "episodes: 1", "head": "x-a: 1"}, ["no `version`: expected the version of Ganglion it was written for, such as '0.1.0'"]),
    ({"config": "episodes: 1", "head": "version: 0.1"}, ["expected the version as text, found the number 0.1; write it in quotes"]),
    ({"config": "episodes: 1", "head": 'version: "0.2.0"'}, ["written for version 0.2.0, this is 0.1.0"]),
    ({"config": "episodes: 1", "head": 'version: "0.1.9"'}, []),
    ({"config": "episodes: 1", "head": 'version: "3.5.1"'}, ["written for version 3.5.1, this is 0.1.0"]),
    ({"config": "episodes: 1", "head": 'version: "3.5.1"', "versions": ("3.4", "3.5")}, []),
    ({"config": "episodes: 1", "head": "version: 3.4", "versions": ("3.4", "3.5")}, []),
    ({"config": "episodes: 1", "head": 'version: "3.3.1"', "versions": ("3.4", "3.5")}, ["written for version 3.3.1, this is 0.1.0"]),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "messages"), CASES)
def test_warnings(parts: dict[str, Any], messages: list[str]) -> None:
    """What is allowed and looks like a mistake is told, and nothing else."""
    assert messages == warned(**parts)


def test_notes_are_gathered_into_one() -> None:
    """Notes of a document are one text with a line for each, none is none; a note alone says that it is one."""
    notes = [Fault("note", "run.yml", line, 7, "x", f"`a{line}` is `b\x1b`") for line in (3, 5)]

    assert "run.yml:3:7: note: `a3` is `b�`" == str(notes[0])
    assert gathered(notes).splitlines() == [
        "run.yml: note: 2 names and keys of another project:",
        "  run.yml:3:7: `a3` is `b�`",
        "  run.yml:5:7: `a5` is `b�`",
    ]
    assert "" == gathered([])
