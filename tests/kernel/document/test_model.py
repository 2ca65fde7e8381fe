# ruff: noqa: E501 - a row of a table of cases is easier to compare on one line
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.document.marks import Source, compose
from ganglion.document.model import validate
from ganglion.document.spelling import normalise, numbers, phases_of
from ganglion.limits import INTEGER_MAX


def said(text: str) -> list[str]:
    """Return what is wrong with the form of a text, the first lines without the file's name."""
    root, faults = compose(Source("a.yml", text), text)
    assert root is not None
    assert [] == faults
    return [str(f).splitlines()[0].removeprefix("a.yml:") for f in validate(normalise(root)[0])]


WHOLE = "uid: u\nseed: 1\nrun_config: {condition: c}\nschedule: [one: {%s}]"

CASES = [
    ("{}", ["1:1: missing key `uid`", "1:1: missing key `seed`", "1:1: missing key `schedule`"]),
    ("uid: u\nseed: 1\nrun_confg: {}\nschedule: []", ["3:1: run_confg: unknown key; did you mean `run_config`?"]),
    (WHOLE % "foo: 1", ["4:18: schedule.one.foo: unknown key"]),
    (WHOLE % "phase_config: {wrkers: 1}", ["4:33: schedule.one.phase_config.wrkers: unknown key; did you mean `workers`?"]),
    (WHOLE % "phase_config: {worker: 0}", ["4:41: schedule.one.phase_config.worker: expected an integer >= 1, found the number 0"]),
    (WHOLE % "phase_config: {workers: 1.0}", ["4:42: schedule.one.phase_config.workers: expected an integer >= 1, found the number 1.0"]),
    (WHOLE % "phase_config: {worker: true}", ["4:41: schedule.one.phase_config.worker: expected an integer >= 1, found true"]),
    (WHOLE % "phase_config: {episodes: ~}", []),
    (WHOLE % "phase_config: {episodes: x}", ["4:43: schedule.one.phase_config.episodes: expected an integer >= 1 or null, found the text 'x'"]),
    (WHOLE % "phase_config: {mode: tarin}", ["4:39: schedule.one.phase_config.mode: expected one of train, test, evaluate, found the text 'tarin'; did you mean `train`?"]),
    (WHOLE % "agents: [{name: a, brain: 3}]", ["4:44: schedule.one.agents.a.brain: expected a map, found the number 3"]),
    (WHOLE % "agents: [{name: a, brain: ''}]", ["4:44: schedule.one.agents.a.brain: expected the name of a plugin, found the text ''"]),
    (WHOLE % "agents: [{name: a, sensors: [e.1, 2, [x]]}]", ["4:52: schedule.one.agents.a.sensors.1: expected a full id, found the number 2", "4:55: schedule.one.agents.a.sensors.2: expected a full id, found a list"]),
    (WHOLE % "agents: [{name: a, load: 3}]", ["4:43: schedule.one.agents.a.load: expected a map, false or null, found the number 3"]),
    (WHOLE % "agents: [{name: a, load: false}, {name: b, load: {optional: 1}}]", ["4:78: schedule.one.agents.b.load.optional: expected true or false, found the number 1"]),
    (WHOLE % "agents: [{name: 'a/b'}]", ['4:34: schedule.one.agents.a/b.name: expected text of 1 to 256 bytes without / [ ] and control characters, found the text \'a/b\'']),
    (WHOLE % "environments: [{environment: {name: x}}]", ["4:47: schedule.one.environments.0.environment: missing key `uid`"]),
    (WHOLE % "environments: [{environment: {uid: e, command: []}}]", ["4:65: schedule.one.environments.e.environment.command: expected a list of text, not empty, found a list"]),
    (WHOLE % "environments: [{environment: {uid: e, per_worker: {}}}]", ["4:68: schedule.one.environments.e.environment.per_worker: expected a list of maps, found a map"]),
    (WHOLE % "environments: [{uid: e, name: x}]", ["4:33: schedule.one.environments.0: missing key `environment` around `uid`, `name`"]),
    (WHOLE % "environments: [{environment: {uid: e, clock: 1}}]", ["4:56: schedule.one.environments.e.environment.clock: unknown key; it belongs to `environments`"]),
    (WHOLE % "agents: [{name: a, bodies: 3}]", ["4:37: schedule.one.agents.a.bodies: unknown key; it belongs to a phase"]),
    (WHOLE % "environments: ~", ["4:32: schedule.one.environments: expected a list, found nothing"]),
    (WHOLE % "simulation: {conditions: {name: x}}", ["4:43: schedule.one.simulation.conditions: expected a list, found a map"]),
    (WHOLE % "recovery: {deadlines_s: {act: 0}}", ["4:48: schedule.one.recovery.deadlines_s.act: expected a number of seconds > 0 or null, found the number 0"]),
    (WHOLE % "recovery: {deadlines_s: {act: ~, update: 0.5}}", []),
    ("uid: u\nseed: -1\nrun_config: {condition: c}\nschedule: x", ["2:7: seed: expected an integer >= 0, found the number -1", "4:11: schedule: expected a list, found the text 'x'"]),
    ("uid: u\nseed: 123456789012345678901234567890\nrun_config: {condition: c}\nschedule: []\nversion: [1]", ["5:10: version: expected text, found a list"]),
    (WHOLE % "bodies: {num: 2}", []),
    (WHOLE % "bodies: {dynamic: [{agent: a}]}", ["4:37: schedule.one.bodies.dynamic.0: missing key `environment`", "4:37: schedule.one.bodies.dynamic.0: missing key `max`"]),
    (WHOLE % "bodies: {rules: [{match: {body: x}, policy: pol}]}", ["4:50: schedule.one.bodies.rules.0.match.body: expected an integer or a list of integers, found the text 'x'", "4:62: schedule.one.bodies.rules.0.policy: expected one of latest, frozen, pool, found the text 'pol'; did you mean `pool`?"]),
    (WHOLE % "environments: [{environment: {uid: e}, clock: {period: 0}}]", ["4:73: schedule.one.environments.e.clock.period: expected an integer >= 1, found the number 0"]),
    (WHOLE % "environments: [{environment: {uid: e}, episode_end: none, max_steps: ~}]", ["4:70: schedule.one.environments.e.episode_end: expected all, any, each, environment or {body: <agent>/<b>}, found the text 'none'"]),
    (WHOLE % "agents: [{name: a, replay: [{}, {path: a.h5, format: arrow}, {table: x}, {table: 3}]}]", ["4:99: schedule.one.agents.a.replay.3.table: expected text or null, found the number 3"]),
    ("uid: u\nseed: 1\nrun_config: {}\nschedule: []", ["3:13: run_config: missing key `conditions`"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "faults"), CASES)
def test_form(text: str, faults: list[str]) -> None:
    """What has not the form of a document is said in our words: expected, found, where; one fault for one cause."""
    assert sorted(faults) == sorted(said(text))


@given(st.integers(-(2**70), 2**70))
def test_an_integer_that_no_double_holds_is_refused(value: int) -> None:
    """Integers are refused from the first on that a double may not hold, but for the seed and below `x-` keys."""
    text = f"a: [{value}]\nseed: {value}\nx-a: {value}"
    root, _ = compose(Source("a.yml"), text)
    assert root is not None

    assert (["a.yml:1:5"] if abs(value) > INTEGER_MAX else []) == [fault.place for fault in numbers(root)]


def test_spellings_hold_wherever_a_form_stands() -> None:
    """What is read in the `load` of an agent is read in that of a policy, too."""
    text = "schedule: [{a: {bodies: {rules: [{policy: {source: frozen, load: {agent_name: b, phase_name: c}}}]}}}]"
    root, _ = compose(Source("a.yml", text), text)
    assert root is not None
    ((_, phase),) = phases_of(normalise(root)[0])

    rule = phase.map["bodies"].map["rules"].items[0]
    assert {"agent": "b", "phase": "c"} == rule.map["policy"].map["load"].plain()


def test_again_changes_nothing() -> None:
    """A document in our spelling stays as it is, paths included."""
    text = "schedule: {a: {agents: [{name: n.1, brain: b, sensors: [e.1]}], phase_config: {workers: 2}}}"
    root, _ = compose(Source("a.yml", text), text)
    assert root is not None

    once, _ = normalise(root)
    twice, _ = normalise(once)

    assert once.plain() == twice.plain()
    for document in (once, twice):
        ((_, phase),) = phases_of(document)
        agent = phase.map["agents"].items[0]
        assert 'schedule.a.agents."n.1".sensors.0' == agent.map["sensors"].items[0].path
        assert 'schedule.a.agents."n.1".brain' == agent.map["brain"].map["name"].path
        assert "schedule.a.phase_config.workers" == phase.map["phase_config"].keys["worker"].path
