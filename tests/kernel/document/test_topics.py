from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.document.compile import resolved

TEXT = """\
uid: u
seed: 1
version: "0.1"
run_config: {{condition: max_episodes}}
schedule:
  - one:
      environments: [{{environment: {{uid: hill, {form}}}, topics: {topics}}}]
      agents: [{{name: ada, muscle: dummy, topics: {{parameters: {{pace: 2}}}}}}]
      phase_config: {{episodes: 1}}
  - two:
      environments: [{{environment: {{uid: hill}}, topics: {{engine: {{speed: 3}}}}}}]
"""
PAIR = ", or one of {uniform: [low, high]}, {gaussian: [mean, deviation]}, {multirange: [[low, high], ...]}"


def test_settings_are_kept_and_inherited_topic_by_topic(load: Any) -> None:
    """What the document says comes to the plan; written out it reads the same."""
    given = {"parameters": {"g": {"uniform": [8, 11]}, "name": "moon", "list": [1, 2.5]}, "engine": {"speed": 2}}
    plan, faults = load(TEXT.format(form="name: dummy", topics=given))
    again, _ = load(resolved(plan))

    assert [] == faults
    assert [given, {**given, "engine": {"speed": 3}}] == [phase.environments[0].topics for phase in plan.phases]
    assert [{"parameters": {"pace": 2}}] * 2 == [phase.agents[0].topics for phase in plan.phases]
    assert [[p.environments[0].topics, p.agents[0].topics] for p in plan.phases] == [
        [p.environments[0].topics, p.agents[0].topics] for p in again.phases
    ]


VALUES = [
    "{uniform: [2, 1]}",
    "{uniform: [1]}",
    "{uniform: [1, .inf]}",
    "{gaussian: [1, -1]}",
    "{multirange: []}",
    "{multirange: [[1, 2], [2, 1]]}",
    "{poisson: [1, 2]}",
    "{uniform: [1, 2], gaussian: [1, 2]}",
    ".nan",
    "[[1]]",
]


@pytest.mark.parametrize("value", VALUES)
def test_settings_that_mean_nothing_are_refused(faults_of: Callable[..., list[str]], value: str) -> None:
    """The place, what was expected and what was found are told."""
    (fault,) = faults_of(TEXT.format(form="name: dummy", topics=f"{{parameters: {{g: {value}}}}}"))

    assert fault.startswith("7:87: schedule.one.environments.hill.topics.parameters.g: expected a number, text")
    assert f"{PAIR}, found " in fault


def test_unknown_topics_are_refused(faults_of: Callable[..., list[str]]) -> None:
    """A document sets parameters and engine only; a program that is spoken to in lines has no topics."""
    assert ["unknown key; did you mean `parameters`?"] == [
        fault.rpartition(": ")[2] for fault in faults_of(TEXT.format(form="name: dummy", topics="{parameter: {}}"))
    ]
    text = TEXT.format(form="command: [x], speaks: lines", topics="{parameters: {g: 1}}")
    place = "7:78: schedule.one.environments.hill.topics"
    assert f"{place}: a program with `speaks: lines` is told of no `topics`; expected `speaks: bus`" in faults_of(text)
