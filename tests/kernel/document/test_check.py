# ruff: noqa: E501 - a row of a table of cases is easier to compare on one line
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.errors import DocumentError

HEAD = 'uid: u\nseed: 1\nversion: "0.1"\nrun_config: {condition: max_episodes}\nschedule:\n'
ENVIRONMENT = "{environment: {uid: hill, name: dummy}}"
AGENT = "{name: ada, muscle: dummy}"

Said = Callable[..., list[str]]


def phase(
    environments: str = ENVIRONMENT, agents: str = AGENT, name: str = "one", more: str = "", episodes: bool = True
) -> str:
    """Return an entry of the schedule: four lines."""
    config = "phase_config: {episodes: 1}" if episodes else "recovery: {}"
    return f"  - {name}:\n      environments: [{environments}]\n      agents: [{agents}]\n      {more or config}\n"


def agent(keys: str) -> str:
    """Return a sound agent with more keys; they begin in column 42."""
    return phase(agents=f"{{name: ada, muscle: dummy, {keys}}}")


def environment(text: str) -> str:
    """Return a phase with one environment's entry; it begins in column 22."""
    return phase(environments=text)


CASES = [
    # environments
    (environment(""), ["6:5: schedule.one: phase `one` has no environment"]),
    (environment("{environment: {uid: hill, attach: true}, state_transformer: counting}"),
     ["7:63: schedule.one.environments.hill.state_transformer: `state_transformer` runs in Ganglion's process and cannot be beside `attach`"]),
    (environment("{environment: {uid: hill, name: dummy, cwd: x}}"),
     ["7:61: schedule.one.environments.hill.environment.cwd: `cwd` is for environments with `command` only"]),
    (environment("{environment: {uid: hill, command: [x], cwd: x, variables: {A: b}}}"), []),
    (environment("{environment: {uid: hill, name: dummy}, reward: {params: {}}}"),
     ["7:70: schedule.one.environments.hill.reward: missing key `name`: which reward is it?"]),
    (phase() + phase("{environment: {uid: hil}, remove: true}", name="two"),
     ["11:56: schedule.two.environments.hil.remove: there is no `hil` to remove in phase `two`; did you mean `hill`?"]),
    # agents
    (phase(agents=""), ["6:5: schedule.one: phase `one` has no agent"]),
    (agent("brain: x"), ["8:50: schedule.one.agents.ada.brain: there is no brain `x`"]),
    (agent("objective: {name: x}"), ["8:61: schedule.one.agents.ada.objective.name: there is no objective `x`"]),
    (agent("sensors: [hill.0, hill.*.x, hill.a.b]"), []),
    (agent("rewards: [hill, lake]"),
     ["8:59: schedule.one.agents.ada.rewards.1: expected a full id `<environment uid>.<id>` or `<environment uid>`, found the text 'lake'"]),
    (agent("sensors: [hill.0, hill.*]"), ["8:53: schedule.one.agents.ada.sensors.0: `hill.0` is twice in `sensors`: `hill.*` has it too"]),
    (agent("sensors: [hill.0], actuators: [hill.0]"), []),
    # an id that may be of an environment whose uid goes on behind the dot is no second one before that is asked
    (phase("{environment: {uid: a, name: dummy}}, {environment: {uid: a.b, name: dummy}}", "{name: ada, muscle: dummy, sensors: [a.*, a.b.*], actuators: [a.b.0, a.*]}"),
     []),
    (phase("{environment: {uid: a, name: dummy}}, {environment: {uid: a.b, name: dummy}}", "{name: ada, muscle: dummy, sensors: [a.*, a.c.0]}"),
     ["8:58: schedule.one.agents.ada.sensors.1: `a.c.0` is twice in `sensors`: `a.*` has it too"]),
    # the worked example of the cascade: had the last phase kept its agent, its ids would be faults
    (phase(agents="{name: ada, muscle: dummy, sensors: [hill.0]}") + phase("{environment: {uid: hill}, remove: true}, {environment: {uid: lake, name: dummy}}", "", "two"),
     ["8:53: schedule.one.agents.ada.sensors.0: there is no environment `hill` in phase `two`"]),
    # models
    (agent("load: {phase: 0}"), ["8:57: schedule.one.agents.ada.load.phase: expected the index of a phase before this one, which is 0, found 0"]),
    (phase() + phase(agents="{name: ada, load: {phase: two}}", name="two"),
     ["12:42: schedule.two.agents.ada.load.phase: phase `two` is not earlier than phase `two`"]),
    (phase() + phase(agents="{name: ada, load: {phase: one}}", name="two"), []),
    (phase() + phase(agents="{name: ada, load: {phase: one, agent: adda}}", name="two"),
     ["12:34: schedule.two.agents.ada.load: phase `one` has not the agent `adda`; did you mean `ada`?"]),
    (phase() + phase(agents="{name: ada, load: {agent: bob}}", name="two"),
     ["12:34: schedule.two.agents.ada.load: no earlier phase has the agent `bob`"]),
    (phase() + phase(agents="{name: ada, load: {agent: bob, optional: true}}", name="two"), []),
    (agent("load: {agent: bob, experiment_run: other}"), []),
    (agent("load: {agent: bob, base: kept}"), []),
    (agent("load: {instance: other-1, phase: 7}"), []),
    # recorded episodes
    (phase() + phase(agents="{name: ada, brain: dummy, replay: [{}, {phase: tow}]}", name="two"),
     ["12:63: schedule.two.agents.ada.replay.1.phase: phase `tow` is unknown in phase `two`"]),
    (phase() + phase(agents="{name: ada, brain: dummy, replay: [{agent: adda}]}", name="two"),
     ["12:51: schedule.two.agents.ada.replay.0: no earlier phase has the agent `adda`; did you mean `ada`?"]),
    (phase(agents="{name: ada, muscle: dummy, brain: dummy, replay: [{}]}"),
     ["8:66: schedule.one.agents.ada.replay.0: no earlier phase has the agent `ada`"]),
    (agent("brain: dummy, replay: [{experiment_run: other}, {instance: o-1, phase: 7}, {base: ../kept}]"), []),
    (phase() + phase(agents="{name: ada, replay: [{}]}", name="two"),
     ["12:28: schedule.two.agents.ada.replay: agent `ada` has no brain that could learn: `replay` needs one"]),
    (agent("brain: none, replay: [{base: kept}]"),
     ["8:56: schedule.one.agents.ada.replay: agent `ada` has no brain that could learn: `replay` needs one"]),
    # phases
    ('  []\n', ["6:3: schedule: expected at least one phase, found none"]),
    (phase(name="a/b"), ["6:5: schedule.a/b: expected text of 1 to 256 bytes without / [ ] and control characters as the name of a phase"]),
    ('  - one:\n    environments: []\n    agents: []\n',
     ["6:5: schedule.one: expected the name of one phase in each entry, found `one`, `environments`, `agents`; what belongs to a phase is indented further"]),
    # controllers, conditions
    (phase(more="simulation: {conditions: [x]}"), ["9:33: schedule.one.simulation.conditions.0: there is no condition `x`"]),
    # bounds, recovery
    (phase(more="recovery: {on_loss: recover, deterministic: false}"),
     ["9:27: schedule.one.recovery.on_loss: expected restart or fail beside `deterministic: false` (line 9), found recover: different answers cannot be recovered"]),
    (phase(more="recovery: {deterministic: false}") + phase(name="two", more="recovery: {on_loss: recover}"),
     ["13:27: schedule.two.recovery.on_loss: expected restart or fail beside `deterministic: false` (line 9), found recover: different answers cannot be recovered"]),
    (phase(more="recovery: {on_loss: recover}") + phase(name="two", more="recovery: {on_loss: ~, deterministic: false}"),
     ["13:27: schedule.two.recovery.on_loss: expected one of recover, restart, fail, found nothing"]),
    (phase(more="phase_config: {worker: 100, episodes: 1}"),
     ["9:30: schedule.one.phase_config.worker: 100 workers need up to 304 processes, a run may have 256 (setting processes_per_run)"]),
]  # fmt: skip


@pytest.mark.parametrize(("schedule", "faults"), CASES)
def test_faults(schedule: str, faults: list[str], faults_of: Said) -> None:
    """Each fault is said once, at its place, with nothing that only follows from it."""
    said = [one for one in faults_of(HEAD + schedule) if "warning: " not in one and "not built yet: " not in one]

    assert faults == said


SHADOWLESS = [
    ("environmets: [{environment: {uid: hill, name: dummy}}]\n      agents: [{name: ada, muscle: dummy, sensors: [hill.0]}]",
     ["7:7: schedule.one.environmets: unknown key; did you mean `environments`?"]),
    ("environments: 3\n      agents: [{name: ada, muscle: dummy, sensors: [hill.0]}]",
     ["7:21: schedule.one.environments: expected a list, found the number 3"]),
    ("environments: [{environment: {uid: 1, name: dummy}}]\n      agents: [{name: ada, muscle: dummy, sensors: [hill.0]}]",
     [("7:42: schedule.one.environments.0.environment.uid: expected text of 1 to 256 bytes without / [ ] and control "
      "characters, found the number 1")]),
    ("environments: [{environment: {uid: hill, nme: dummy}}]\n      agents: [{name: ada, muscle: dummy, sensors: [hill.0]}]",
     ["7:48: schedule.one.environments.hill.environment.nme: unknown key; did you mean `name`?"]),
    ("environments: [{environment: {uid: hill, name: dummy}}]\n      agents: [{name: ada, muscel: dummy, sensors: [hill.0]}]",
     ["8:28: schedule.one.agents.ada.muscel: unknown key; did you mean `muscle`?"]),
    ("environments: [{environment: {uid: hill, name: dummy}}]\n      agents: [{nam: ada, muscle: dummy}]",
     ["8:17: schedule.one.agents.0.nam: unknown key; did you mean `name`?"]),
    ("environments: [{environment: {uid: hill, name: dummy}}]\n      agents: [{name: ada, muscle: {nme: dummy}}]",
     ["8:37: schedule.one.agents.ada.muscle.nme: unknown key; did you mean `name`?"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "faults"), SHADOWLESS)
def test_no_shadows(body: str, faults: list[str], faults_of: Said) -> None:
    """What only follows from a misspelt or misformed part is not said."""
    text = f"{HEAD}  - one:\n      {body}\n      phase_config: {{episodes: 1}}\n"

    assert faults == faults_of(text)


PROGRAMS = [
    ("{command: [x], cwd: y, variables: {A: b}, params: {p: 1}}", []),
    ("{command: [x]}, filters: [], objective: aggregate_rewards", []),
    ("{name: dummy, cwd: y}", ["`cwd` is for muscles with `command` only"]),
    ("{attach: true, variables: {A: b}}", ["`variables` is for muscles with `command` only"]),
    ("{name: dummy, command: [x]}", ["expected one of `name`, `command`, `attach`, found `name` and `command`"]),
    ("{command: [x], attach: true}", ["expected one of `name`, `command`, `attach`, found `command` and `attach`"]),
    ("{command: []}", ["expected a list of text, not empty, found a list"]),
    ("{attach: false}", ["missing key `name`: which muscle is it?"]),
    ("{command: [x]}, filters: [dummy]", ["`filters` run in Ganglion's process and cannot be beside `command`", "there is no filter `dummy`"]),
    ("{attach: true}, objective: {name: aggregate_rewards, params: {factor: 2}}",
     ["a program adds up its rewards: beside `attach` expected none, or aggregate_rewards without params"]),
    ("{command: [x]}, objective: dummy", ["a program adds up its rewards: beside `command` expected none, or aggregate_rewards without params"]),
]  # fmt: skip


@pytest.mark.parametrize(("muscle", "messages"), PROGRAMS)
def test_programs_as_muscles(muscle: str, messages: list[str], faults_of: Said) -> None:
    """A muscle has one form; beside a program stands nothing that would run in a process of ours."""
    text = HEAD + phase(agents=f"{{name: ada, muscle: {muscle}, sensors: [hill.0]}}")

    assert messages == [fault.split(": ", 2)[2] for fault in faults_of(text)]


WRONG = """\
uid: a/b
experiment: e
experiment_uid: e
seed: -1
seed: 2
sead: 3
version: "0.1"
run_config:
  conditions:
    - {name: agent_objective, params: {adda: {brain_avg5: 1}}}
    - {name: max_episode}
cascade: both
recovery: {deadlines_s: {updat: 3}}
schedule:
  - one:
      environments:
        - {environment: {uid: hill, name: dumy}}
        - {environment: {uid: hill, name: dummy}}
        - {environment: {uid: lake}}
        - {environment: {uid: sea, name: dummy, attach: true}}
        - {environment: {uid: mill, command: [x]}, reward: slope}
        - {environment: {uid: pond, attach: 1}}
        - {environment: {uid: gone}, remove: true}
      agents:
        - {name: ada, muscle: dummy, brian: dummy, sensors: [hil.0, hill.0, hill.0], actuators: [hill]}
        - {name: ada, muscle: dummy}
        - {name: bob}
        - {name: cyd, muscle: {params: {}}, sensors: hill.0}
      simulation: {name: vanila}
      phase_config: {mode: trian, worker: 0, workers: 2, episodes: many}
  - two:
      agents:
        - {name: ada, load: {phase: tow}}
      phase_config: {conditions: [{name: agent_objective, params: {ada: {brain_avg0: 1}}}]}
  - one:
      environments: []
  - three: {}
    four: {}
"""

SAID = [
    (1, 6, "uid", "expected text of 1 to 256 bytes without / [ ] and control characters, found the text 'a/b'"),
    (3, 1, "experiment_uid", "`experiment_uid` and `experiment` mean the same: give one of them"),
    (4, 7, "seed", "expected an integer >= 0, found the number -1"),
    (5, 1, "", "duplicate key `seed`, first given in line 4"),
    (6, 1, "sead", "unknown key; did you mean `seed`?"),
    (11, 14, "run_config.conditions.1.name", "there is no condition `max_episode`"),
    (12, 10, "cascade", "expected one of merge, replace, found the text 'both'"),
    (13, 26, "recovery.deadlines_s.updat", "unknown call `updat`; did you mean `update`?"),
    (17, 43, "schedule.one.environments.hill.environment.name", "there is no environment `dumy`"),
    (18, 31, "schedule.one.environments.hill.environment.uid", "duplicate uid `hill`: each is once in the environments of a phase"),
    (19, 25, "schedule.one.environments.lake.environment", "environment `lake` is nowhere defined: expected one of `name`, `command`, `attach`"),
    (20, 49, "schedule.one.environments.sea.environment.attach", "expected one of `name`, `command`, `attach`, found `name` and `attach`"),
    (21, 52, "schedule.one.environments.mill.reward", "`reward` runs in Ganglion's process and cannot be beside `command`"),
    (22, 45, "schedule.one.environments.pond.environment.attach", "expected true or false, found the number 1"),
    (23, 46, "schedule.one.environments.gone.remove", "there is no `gone` to remove in phase `one`"),
    (25, 38, "schedule.one.agents.ada.brian", "unknown key; did you mean `brain`?"),
    (25, 62, "schedule.one.agents.ada.sensors.0", "there is no environment `hil` in phase `one`; did you mean `hill`?"),
    (25, 77, "schedule.one.agents.ada.sensors.2", "`hill.0` is twice in `sensors`"),
    (25, 98, "schedule.one.agents.ada.actuators.0", "expected a full id `<environment uid>.<id>`, found the text 'hill'; did you mean `hill`?"),
    (26, 18, "schedule.one.agents.ada.name", "duplicate name `ada`: each is once in the agents of a phase"),
    (27, 11, "schedule.one.agents.bob", "missing key `muscle`: agent `bob` has no actor"),
    (28, 31, "schedule.one.agents.cyd.muscle", "missing key `name`: which muscle is it?"),
    (28, 54, "schedule.one.agents.cyd.sensors", "expected a list, found the text 'hill.0'"),
    (29, 26, "schedule.one.simulation.name", "there is no controller `vanila`"),
    (30, 28, "schedule.one.phase_config.mode", "expected one of train, test, evaluate, found the text 'trian'; did you mean `train`?"),
    (30, 43, "schedule.one.phase_config.worker", "expected an integer >= 1, found the number 0"),
    (30, 46, "schedule.one.phase_config.workers", "`workers` and `worker` mean the same: give one of them"),
    (30, 68, "schedule.one.phase_config.episodes", "expected an integer >= 1 or null, found the text 'many'"),
    (33, 37, "schedule.two.agents.ada.load.phase", "phase `tow` is unknown in phase `two`"),
    (35, 5, "schedule.one", "duplicate phase `one`: names of phases are unique"),
    (37, 5, "schedule.three", "expected the name of one phase in each entry, found `three`, `four`"),
]  # fmt: skip


def test_everything_that_is_wrong_is_said_at_once(load: Callable[..., Any]) -> None:
    """All kinds of faults of one document come together, each at its line, once, with no shadow of another."""
    with pytest.raises(DocumentError) as caught:
        load(WRONG)

    assert SAID == [(fault.line, fault.column, fault.path, fault.message) for fault in caught.value.faults]
