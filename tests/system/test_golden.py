"""Documents that must end with a clear error."""

from __future__ import annotations

from pathlib import Path

import pytest
from system.farm import Farm
from system.results import Failed, fail


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    """Return a folder in which documents are run."""
    return Farm(tmp_path)


MISFITS = """\
import time
from ganglion.sdk import ActuatorInformation, Brain, Discrete, Environment, Muscle, SensorInformation


class Unlicensed(Environment):
    def __init__(self):
        raise RuntimeError("no licence for the simulator")

    def start_environment(self): ...
    def update(self, actuators): ...


class Crumbling(Environment):
    def start_environment(self):
        self.steps = 0
        return [SensorInformation(0, Discrete(2), "0")], [ActuatorInformation(0, Discrete(2), "0")]

    def update(self, actuators):
        self.steps += 1
        if self.steps == 3:
            raise OSError("the simulator has crashed")
        return [SensorInformation(1, Discrete(2), "0")], [], False


class Reckless(Muscle):
    def propose_actions(self, sensors, actuators_available):
        for actuator in actuators_available:
            actuator(1000)
        return actuators_available


class Silent(Brain):
    def thinking(self, muscle_id, data_from_muscle):
        while data_from_muscle is not None:
            time.sleep(0.05)
"""
CLEAR = """\
uid: clear
seed: 1
version: "0.1"
schedule:
  - only:
      environments: [{environment: {uid: world, ENVIRONMENT}}]
      agents: [{name: scout, brain: BRAIN, muscle: MUSCLE, sensors: [world.SENSOR], actuators: [world.0]}]
      phase_config: {mode: train, episodes: 2}
run_config: {condition: {name: vanilla}}
recovery: {deadlines_s: {think: 1, attach: 1}}
"""


def clear(
    environment: str = "name: dummy", brain: str = "dummy", muscle: str = "dummy", sensor: str = "0", more: str = ""
) -> str:
    """Return a document with one thing that may be wrong."""
    parts = {"ENVIRONMENT": environment, "BRAIN": brain, "MUSCLE": muscle, "SENSOR": sensor}
    text = CLEAR
    for word, part in parts.items():
        text = text.replace(word, part)
    return text + more


ERRORS = [
    (
        "a constructor that raises",
        clear("name: 'misfits:Unlicensed'"),
        1,
        [
            "RuntimeError: no licence for the simulator",
            'misfits.py", line 7, in __init__',
            "environment world (worker 0)",
        ],
    ),
    (
        "a step that raises",
        clear("name: 'misfits:Crumbling'"),
        1,
        ["OSError: the simulator has crashed", 'misfits.py", line 21, in update', "step 3"],
    ),
    (
        "a setpoint out of its space",
        clear(muscle="{name: 'misfits:Reckless'}"),
        1,
        ["setpoint world.0: expected a value of Discrete(100), found 1000", "muscle scout (worker 0)"],
    ),
    (
        "a brain that never answers",
        clear(brain="{name: 'misfits:Silent'}").replace("recovery: {", "recovery: {on_loss: fail, "),
        1,
        ["in vain for brain scout to answer brain.think"],
    ),
    (
        "a brain that never answers, however often it is started again",
        clear(brain="{name: 'misfits:Silent'}"),
        1,
        ["poison: brain scout died 3 times", "did not answer brain."],
    ),
    ("an environment that never attaches", clear("attach: true"), 1, ["for environment world (worker 0) to attach"]),
    ("a misspelt key", clear(more="sead: 2\n"), 2, [":11:1: sead: unknown key; did you mean `seed`?"]),
    ("an unknown class", clear("name: dumy"), 2, ["there is no environment `dumy`; did you mean `dummy`?"]),
    (
        "a class of the wrong kind",
        clear("name: 'misfits:Reckless'"),
        2,
        ["environment `misfits:Reckless` is not a subclass of Environment"],
    ),
    ("an unknown sensor", clear(sensor="77"), 2, [":7:", "'world.77' was not declared by its environment"]),
    (
        "a parameter that is not taken",
        clear("name: dummy, params: {maxiter: 3}"),
        2,
        ["parameter 'maxiter' is not taken; expected discrete, max_iter"],
    ),
]


FAILED = {number: row for number, row in enumerate(ERRORS) if row[2] == 1}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Failed:
    """Return what came of the runs that fail: one command carries them out."""
    folder = tmp_path_factory.mktemp("failed")
    (folder / "misfits.py").write_text(MISFITS)
    files = []
    for number, row in FAILED.items():
        files.append(folder / f"{number}.yml")
        files[-1].write_text(row[1].replace("uid: clear", f"uid: fails-{number}"))
    return fail(folder, files)


@pytest.mark.parametrize("number", FAILED, ids=[row[0] for row in FAILED.values()])
def test_who_fails_is_named(failed: Failed, number: int) -> None:
    """The run ends within its deadline, with exit status 1, and its story names who, what and where."""
    story = "\n".join(failed.stories[f"fails-{number}"])

    for sentence in ERRORS[number][3]:
        assert sentence in story


FAULTY = [row for row in ERRORS if row[2] == 2]


@pytest.mark.parametrize(("text", "sentences"), [row[1::2] for row in FAULTY], ids=[row[0] for row in FAULTY])
def test_what_is_wrong_is_named(farm: Farm, text: str, sentences: list[str]) -> None:
    """Nothing is started, with exit status 2, and the fault is told with its place."""
    (farm.folder / "misfits.py").write_text(MISFITS)

    done = farm.run(text)

    said = done.stdout + done.stderr
    assert 2 == done.returncode, said
    for sentence in sentences:
        assert sentence in said


@pytest.mark.parametrize("path", ["missing/results.db", "junk.db"])
def test_a_store_that_cannot_be_opened_is_named(farm: Farm, path: str) -> None:
    """A folder that is not there, or a file that is no database: exit status 1 with path and cause."""
    (farm.folder / "junk.db").write_text("this is no database, and never was one")

    done = farm.run(clear(), "--store", f"sqlite:///{farm.folder / path}")

    assert 1 == done.returncode
    assert f"{farm.folder / path}: cannot be opened for writing" in done.stdout + done.stderr
