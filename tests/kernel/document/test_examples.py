# ruff: noqa: E501 - rows of tables are easier to compare on one line
"""Worked examples: a cascade with its table, a document with a fault of every kind, pairs of spellings."""

from __future__ import annotations

from collections.abc import Sequence

from ganglion.document import load_document
from ganglion.document.fault import Fault
from ganglion.errors import DocumentError, PluginInvalid
from ganglion.run.plan import Plan

KNOWN = {
    "environment": ["dummy", "cartpole"],
    "muscle": ["dummy", "random"],
    "brain": ["dummy", "none"],
    "objective": ["dummy", "aggregate_rewards"],
    "controller": ["vanilla", "taking_turns"],
    "condition": ["environment", "max_steps", "max_episodes", "vanilla", "agent_objective", "evaluation_objective"],
    "reward": ["my:Slope"],
    "transformer": ["counting"],
}  # fmt: skip


class Known:
    """Know the plugins of the examples, and which name was meant."""

    def locate(self, kind: str, name: str, folder: str = "", allow: Sequence[str] = (), local: bool = True) -> str:
        """Return the name if there is such a plugin."""
        if name not in KNOWN.get(kind, []):
            raise PluginInvalid(f"there is no {kind} `{name}`", plugin=name)
        return name

    def alias(self, kind: str, name: str) -> None:
        """Know no names of other projects."""


def load(text: str) -> tuple[Plan, list[Fault]]:
    """Return the plan of a text and its warnings."""
    return load_document("run.yml", plugins=Known(), text=text)


def faults_of(text: str) -> list[Fault]:
    """Return all that is said of a text."""
    try:
        return load(text)[1]
    except DocumentError as error:
        return list(error.faults)


# -- the cascade ------------------------------------------------------------------------------------------------------


# -- spellings --------------------------------------------------------------------------------------------------------


# -- a document in which nearly all is wrong --------------------------------------------------------------------------
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
        - {environment: {uid: mill, command: [x]}, reward: my:Slope}
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
    (18, 31, "schedule.one.environments.hill.environment.uid", "duplicate uid `hill`: each stands once in the environments of a phase"),
    (19, 25, "schedule.one.environments.lake.environment", "environment `lake` is nowhere defined: expected one of `name`, `command`, `attach`"),
    (20, 49, "schedule.one.environments.sea.environment.attach", "expected one of `name`, `command`, `attach`, found `name` and `attach`"),
    (21, 52, "schedule.one.environments.mill.reward", "`reward` runs in a process of ours and cannot stand beside `command`"),
    (22, 45, "schedule.one.environments.pond.environment.attach", "expected true or false, found the number 1"),
    (23, 46, "schedule.one.environments.gone.remove", "there is no `gone` to remove in phase `one`"),
    (25, 38, "schedule.one.agents.ada.brian", "unknown key; did you mean `brain`?"),
    (25, 62, "schedule.one.agents.ada.sensors.0", "there is no environment `hil` in phase `one`; did you mean `hill`?"),
    (25, 77, "schedule.one.agents.ada.sensors.2", "`hill.0` stands twice in `sensors`"),
    (25, 98, "schedule.one.agents.ada.actuators.0", "expected a full id `<environment uid>.<id>`, found the text 'hill'; did you mean `hill`?"),
    (26, 18, "schedule.one.agents.ada.name", "duplicate name `ada`: each stands once in the agents of a phase"),
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


def test_everything_that_is_wrong_is_said_at_once() -> None:
    """All kinds of faults of one document come together, each at its line, once, with no shadow of another."""
    found = [fault for fault in faults_of(WRONG) if not fault.message.startswith("not built yet")]

    assert SAID == [(fault.line, fault.column, fault.path, fault.message) for fault in found]
