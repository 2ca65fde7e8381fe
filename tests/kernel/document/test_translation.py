from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ganglion.document.fault import Fault
from ganglion.document.marks import Source, compose
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
    origin: str = ""


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
    ("switch", "old"): Meaning("host"),
    ("hosted", "host:old:Arm"): Meaning("old:Arm", customs={"limits": {"muscle": "it forgets"}}, origin="old 7.1"),
}


def translated(text: str) -> Translation:
    """Return a text in our names."""
    root, faults = compose(Source("run.yml", text), text)
    assert root is not None
    assert [] == faults
    root, more = normalise(root)
    assert [] == more
    return translate(root, lambda kind, name: KNOWN.get((kind, name)))  # type: ignore[return-value]


ONE = "schedule: [one: {agents: [%s]}]"


def agents_of(done: Translation) -> Any:
    """Return the agents of the first phase of a translated document."""
    return done.root.plain()["schedule"][0]["one"]["agents"]


def said(faults: list[Fault]) -> list[str]:
    """Return faults on one line each."""
    return [str(fault).splitlines()[0].removeprefix("run.yml:") for fault in faults]


@pytest.mark.parametrize(
    ("written", "ours", "said"),
    [
        ("{rewards: speed}", {"rewards": ["speed"]}, []),
        ("{rewards: [speed, way]}", {"rewards": ["speed", "way"]}, []),
        ("{gain: 2, rewards: [a]}", {"factor": 2, "rewards": ["a"]}, []),
        ("{other: 1}", {"other": 1}, []),
        ("3", 3, []),
        ("{gain: 2, factor: 3}", {"factor": 3}, ["`gain` and `factor` mean the same: give one of them"]),
    ],
)
def test_arguments_are_translated(written: str, ours: Any, said: list[str]) -> None:
    """Arguments become those of our class: one value a list of one, another name ours; both names are a fault."""
    done = translated(ONE % f"{{name: a, objective: {{name: old:Goal, params: {written}}}}}")

    assert ours == agents_of(done)[0]["objective"]["params"]
    assert said == [fault.message for fault in done.faults]


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
    a, b, c, d = agents_of(done)

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
    done = translated(ONE % "{name: a, badge: 7, muscle: old:Arm, load: {depth: 3, phase: 0}}")

    assert [{"name": "a", "muscle": {"name": "mover"}, "load": {"phase": 0}}] == agents_of(done)
    assert [
        "1:71: warning: `depth` has no effect: all is loaded",
        "1:37: warning: `badge` has no effect: nobody asks for it",
    ] == said(done.faults)


def test_customs_are_those_of_the_names_that_are_there() -> None:
    """Versions, moves and dropped keys come from the tables whose names the document uses, once each."""
    both = translated(ONE % "{name: a, brain: old:Head}, {name: b, brain: new:Head}")
    one = translated(ONE % "{name: a, badge: 1, brain: new:Head}")

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
    a, b, c = agents_of(translated(text))

    assert ("./here", {"name": "thinker", "params": {}}) == (a["models"], a["brain"])
    assert ("./here", {"name": "thinker", "params": {}}) == (b["models"], b["brain"])
    assert {"name": "c", "muscle": {"name": "mover", "params": {"keep": "./here"}}} == c


def test_a_switch_plays_what_is_theirs_and_leaves_the_rest() -> None:
    """With `real` a name of the other project is its own, told with what does not come along; an author's stays."""
    done = translated("old: real\n" + ONE % "{name: a, muscle: {name: old:Arm}, brain: {name: mine:Head}}")

    (agent,) = agents_of(done)
    assert (agent["muscle"], agent["brain"]) == ({"name": "host:old:Arm"}, {"name": "mine:Head"})
    assert ["2:52: note: `old:Arm` is the muscle of old 7.1, as it is, but it forgets"] == said(done.notes)
