from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ganglion.document.fault import Fault
from ganglion.document.marks import Node, Source, compose
from ganglion.document.spelling import Translation, normalise, translate

CUSTOMS = {
    "versions": ("7.1",),
    "moves": (("brain", "keep", "models"),),
    "ignored": {"agent": {"badge": "nobody asks for it"}, "load": {"depth": "all is loaded"}},
}
OTHERS = {"versions": ("9.0",)}


@dataclass
class Meaning:
    """What a foreign name means."""

    name: str
    params: dict[str, str] = field(default_factory=dict)
    customs: dict[str, Any] = field(default_factory=lambda: CUSTOMS)


KNOWN = {
    ("environment", "old.World"): Meaning("dummy"),
    ("brain", "old:Head"): Meaning("thinker"),
    ("muscle", "old:Arm"): Meaning("mover"),
    ("objective", "old:Goal"): Meaning("goal", {"rewards": "[]", "gain": "factor"}),
    ("controller", "old:Turns"): Meaning("taking_turns"),
    ("condition", "old:End"): Meaning("vanilla"),
    ("reward", "old:Prize"): Meaning("slope"),
    ("transformer", "old:Lens"): Meaning("counting"),
    ("filter", "old:Sieve"): Meaning("norm"),
    ("brain", "new:Head"): Meaning("other", customs=OTHERS),
}


def translated(text: str) -> Translation:
    """Return a text in our names."""
    root, faults = compose(Source.of("run.yml", text), text)
    assert root is not None
    assert [] == faults
    root, more = normalise(root)
    assert [] == more
    return translate(root, lambda kind, name: KNOWN.get((kind, name)))  # type: ignore[return-value]


def said(faults: list[Fault]) -> list[str]:
    """Return faults on one line each."""
    return [str(fault).splitlines()[0].removeprefix("run.yml:") for fault in faults]


WHOLE = """\
run_config: {condition: old:End}
schedule:
  - one:
      environments:
        - environment: {uid: hill, name: old.World, params: {a: 1}}
          reward: old:Prize
          state_transformer: {name: old:Lens}
      agents:
        - {name: ada, brain: old:Head, muscle: {name: old:Arm}, objective: {name: old:Goal}, filters: [old:Sieve, norm]}
      simulation: {name: old:Turns, conditions: [{name: old:End}, {name: environment}]}
      phase_config: {conditions: [old:End]}
"""


def test_every_place_of_a_plugin_is_translated() -> None:
    """Each place where a document names a plugin is translated as a plugin of its kind; all else stays."""
    done = translated(WHOLE)

    assert {
        "run_config": {"conditions": [{"name": "vanilla"}]},
        "schedule": [
            {
                "one": {
                    "environments": [
                        {
                            "environment": {"uid": "hill", "name": "dummy", "params": {"a": 1}},
                            "reward": {"name": "slope"},
                            "state_transformer": {"name": "counting"},
                        }
                    ],
                    "agents": [
                        {
                            "name": "ada",
                            "brain": {"name": "thinker"},
                            "muscle": {"name": "mover"},
                            "objective": {"name": "goal"},
                            "filters": [{"name": "norm"}, {"name": "norm"}],
                        }
                    ],
                    "simulation": {
                        "name": "taking_turns",
                        "conditions": [{"name": "vanilla"}, {"name": "environment"}],
                    },
                    "phase_config": {"conditions": [{"name": "vanilla"}]},
                }
            }
        ],
    } == done.root.plain()
    assert [] == done.faults
    assert 11 == len(done.notes)


def test_each_name_leaves_a_note_at_its_place() -> None:
    """A note has the place of the name, the name as it was written, and ours."""
    done = translated("schedule:\n  - one:\n      agents:\n        - {name: a, brain: {name: old:Head}}")

    assert ["4:35: note: `old:Head` is the brain `thinker`"] == said(done.notes)
    assert "schedule.one.agents.a.brain.name" == done.notes[0].path


def test_a_document_without_foreign_names_stays_as_it_is() -> None:
    """Without a name that an alias plugin knows nothing is changed, moved, dropped or said."""
    text = """\
schedule:
  - one:
      agents: [{name: ada, badge: 1, brain: {name: "mine:Head", params: {keep: ./here}}, muscle: old:Head}]
"""
    done = translated(text)
    root, _ = normalise(compose(Source.of("run.yml", text), text)[0] or Node(None, Source.of("", "")))

    assert root.plain() == done.root.plain()
    assert ([], [], frozenset()) == (done.faults, done.notes, done.versions)


def objective(params: str) -> Translation:
    """Return the translation of an objective with these parameters."""
    return translated(
        f"schedule:\n  - one:\n      agents: [{{name: a, objective: {{name: old:Goal, params: {params}}}}}]"
    )


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        ("{rewards: speed}", {"rewards": ["speed"]}),
        ("{rewards: [speed, way]}", {"rewards": ["speed", "way"]}),
        ("{gain: 2, rewards: [a]}", {"factor": 2, "rewards": ["a"]}),
        ("{other: 1}", {"other": 1}),
        ("{}", {}),
        ("3", 3),
    ],
)
def test_arguments_are_translated(written: str, ours: Any) -> None:
    """Arguments become those of our class: one value a list of one, another name ours; others stay."""
    agent = objective(written).root.plain()["schedule"][0]["one"]["agents"][0]

    assert ours == agent["objective"]["params"]


def test_an_argument_by_both_names_is_a_fault() -> None:
    """An argument that is given by its foreign and by our name is a fault."""
    done = objective("{gain: 2, factor: 3}")

    assert ["`gain` and `factor` mean the same: give one of them"] == [fault.message for fault in done.faults]


MOVES = """\
schedule:
  - one:
      agents:
        - {name: a, muscle: old:Arm, brain: {name: thinker, params: {keep: ./here, gain: 1}}}
        - {name: b, brain: {params: {keep: ./there}}}
        - {name: c, models: ./mine, brain: {params: {keep: ./there}}}
        - {name: d, brain: thinker}
"""


def test_an_argument_moves_to_its_agent() -> None:
    """In a document with a foreign name an argument moves to the key of its agent; both of them are a fault."""
    done = translated(MOVES)
    a, b, c, d = done.root.plain()["schedule"][0]["one"]["agents"]

    assert ({"name": "thinker", "params": {"gain": 1}}, "./here") == (a["brain"], a["models"])
    assert ({"params": {}}, "./there") == (b["brain"], b["models"])
    assert ({"params": {"keep": "./there"}}, "./mine") == (c["brain"], c["models"])
    assert {"name": "d", "brain": {"name": "thinker"}} == d
    (fault,) = done.faults
    assert ("6:54", "schedule.one.agents.c.brain.params.keep") == (f"{fault.line}:{fault.column}", fault.path)
    assert "`keep` of the brain and `models` of the agent mean the same: give one of them" == fault.message
    assert [
        "4:29: note: `old:Arm` is the muscle `mover`",
        "4:70: note: `keep` of the brain is `models` of the agent",
        "5:38: note: `keep` of the brain is `models` of the agent",
    ] == said(done.notes)


def test_keys_without_meaning_are_told_and_dropped() -> None:
    """A key that means nothing here is a warning with the reason, and is not left for the model to refuse."""
    done = translated(
        "schedule:\n  - one:\n      agents: [{name: a, badge: 7, muscle: old:Arm, load: {depth: 3, phase: 0}}]"
    )

    assert {"name": "a", "muscle": {"name": "mover"}, "load": {"phase": 0}} == done.root.plain()["schedule"][0]["one"][
        "agents"
    ][0]
    assert [
        "3:60: warning: `depth` has no effect: all is loaded",
        "3:26: warning: `badge` has no effect: nobody asks for it",
    ] == said(done.faults)


def test_customs_are_those_of_the_names_that_are_there() -> None:
    """Versions, moves and dropped keys come from the tables whose names the document uses, once each."""
    both = translated("schedule:\n  - one:\n      agents: [{name: a, brain: old:Head}, {name: b, brain: new:Head}]")
    one = translated("schedule:\n  - one:\n      agents: [{name: a, badge: 1, brain: new:Head}]")

    assert {"7.1", "9.0"} == both.versions
    assert ({"9.0"}, []) == (one.versions, one.faults)


def test_a_value_with_an_anchor_is_not_changed_elsewhere() -> None:
    """A map that stands at several places of a document is changed at each for itself."""
    text = """\
schedule:
  - one:
      agents:
        - {name: a, muscle: old:Arm, brain: &brain {name: old:Head, params: &params {keep: ./here}}}
        - {name: b, brain: *brain}
        - {name: c, muscle: {name: mover, params: *params}}
"""
    a, b, c = translated(text).root.plain()["schedule"][0]["one"]["agents"]

    assert ("./here", {"name": "thinker", "params": {}}) == (a["models"], a["brain"])
    assert ("./here", {"name": "thinker", "params": {}}) == (b["models"], b["brain"])
    assert {"name": "c", "muscle": {"name": "mover", "params": {"keep": "./here"}}} == c


@pytest.mark.parametrize("text", ["schedule: 3", "schedule: [3, {one: 4}]", "agents: old:Arm", "run_config: [old:End]"])
def test_what_has_no_sound_form_is_left_to_the_model(text: str) -> None:
    """What is no map where one is expected stays as it is."""
    done = translated(text)

    assert ([], []) == (done.faults, done.notes)
