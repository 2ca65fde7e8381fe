from __future__ import annotations

import math
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import AuthorError, PluginInvalid, UsageError
from ganglion.sdk import ActuatorInformation, Box, Discrete, EpisodeSummary, RewardInformation, SensorInformation
from ganglion.testing import (
    Clock,
    FakeBrain,
    FakeEnvironment,
    FakeMuscle,
    FakeObjective,
    StagedAgent,
    StagedEnvironment,
    check_brain,
    check_environment,
    check_muscle,
    check_objective,
    make_agent,
)

SENSORS = [SensorInformation(None, Box(-9.0, 9.0, ()), "world.level")]
ACTUATORS = [ActuatorInformation(0.25, Box(-1.0, 1.0, ()), "world.push")]
REWARDS = [RewardInformation(None, Box(-9.0, 9.0, ()), "world.pushed")]


def block(number: float) -> list[bytes]:
    """Return a value as it travels."""
    return [struct.pack("<d", number)]


def test_they_keep_the_contract() -> None:
    """What they are checked by says nothing of them."""
    check_environment(FakeEnvironment, {"levels": [1, 2, 3]})
    check_muscle(FakeMuscle, {"setpoints": [0.5, -0.5]})
    check_brain(FakeBrain, {"updates": [{"a": 1}, None, [2]]})
    check_objective(FakeObjective, {"values": [1.0, None]})


def test_an_environment_plays_its_readings_and_hears_setpoints() -> None:
    """Each episode from the first to the last, with which it terminates."""
    staged = StagedEnvironment(FakeEnvironment, {"levels": [1, 2, 4]})
    declared = staged.start()
    found = [staged.update([0.5]), staged.update([-1.0])]
    staged.reset()

    assert block(1.0) == declared.readings
    assert [(block(2.0), block(0.5), False), (block(4.0), block(-1.0), True)] == [
        (it.readings, it.rewards, it.terminated) for it in found
    ]
    assert isinstance(staged.environment, FakeEnvironment)
    assert [0.5, -1.0] == staged.environment.heard
    with pytest.raises(Exception, match="levels: expected at least 2 readings, found 1"):
        StagedEnvironment(FakeEnvironment, {"levels": [1]}).start()


def test_an_agent_of_fakes_plays_its_script(tmp_path: Path) -> None:
    """Setpoints, updates and objectives are those of the scripts, and everybody has written down what came."""
    agent = StagedAgent(
        FakeMuscle,
        sensors=SENSORS,
        actuators=ACTUATORS,
        rewards=REWARDS,
        objective=FakeObjective,
        brain=FakeBrain,
        muscle_params={"setpoints": [0.5]},
        brain_params={"updates": [{"gain": 2}]},
        objective_params={"values": [7.0]},
        models=tmp_path,
    )
    acted = [agent.begin([1.0]), agent.step([3.0], [2.0]), agent.step([4.0], [3.0], terminated=True)]
    agent.evaluate(EpisodeSummary(0, 0, 2, 1.0, 2.0, terminated=True, truncated=False))

    assert [block(0.5), block(0.25), None] == [it.setpoints for it in acted]
    assert [None, [7.0], [4.0]] == [it.objective for it in acted]
    muscle, brain = agent.muscle, agent.brain
    assert isinstance(muscle, FakeMuscle)
    assert isinstance(brain, FakeBrain)
    assert ([{"world.level": 1.0}, {"world.level": 2.0}], [{"gain": 2}]) == (muscle.seen, muscle.updates[-1:])
    assert [("agent/0", {"number": 0}, 7.0), ("agent/0", {"number": 1}, 4.0)] == brain.thoughts
    assert [2.0] == [it.objective_sum for it in brain.evaluations[0].episodes]
    assert {"", "policy"} == {row["tag"] for row in agent.store().files}


def test_what_an_author_raises_passes_through() -> None:
    """An error of the brain reaches who called the muscle, with its own traceback."""
    falls = type("Falls", (FakeBrain,), {"thinking": lambda self, *_: {}["lost"]})
    agent = StagedAgent(
        FakeMuscle, sensors=SENSORS, actuators=ACTUATORS, rewards=REWARDS, objective=FakeObjective, brain=falls
    )
    agent.begin([0.1])

    with pytest.raises(AuthorError, match="KeyError: 'lost'"):
        agent.step([0.5], [0.2])


def test_a_clock_goes_on_when_it_is_told_to() -> None:
    """It shows what it was made with, plus all spans, slept ones too; no span is negative or NaN."""
    clock = Clock(5.0)
    assert (5.0, 7.5, 7.5) == (clock(), clock.advance(2.5), clock())
    clock.sleep(0.5)
    for span_s in (-1.0, math.nan):
        with pytest.raises(ValueError, match="expected a span of at least 0 s, found"):
            clock.advance(span_s)
    assert 8.0 == clock()


def test_the_room_alone_loads_nothing() -> None:
    """Numpy comes with the first check, not with the package."""
    script = "import ganglion.testing, sys; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert ("False", "") == (done.stdout.strip(), done.stderr)


WORLD: dict[str, Any] = {
    "sensors": [SensorInformation(None, Box(-1.0, 1.0, ()), "world.level")],
    "actuators": [ActuatorInformation(0, Discrete(2), "world.push")],
    "rewards": [RewardInformation(None, Box(-1.0, 1.0, ()), "world.gain")],
}


def test_an_agent_of_a_document_acts_and_learns(tmp_path: Path) -> None:
    """Names and maps of a definition become an agent whose objective, filters and model are those of a run."""
    definition = {
        "name": "keeper",
        "brain": "sarsa",
        "muscle": {"name": "sarsa"},
        "objective": {"name": "aggregate_rewards", "params": {"factor": 2.0}},
        "filters": [{"name": "merge_steps", "params": {"steps": 2}}],
    }
    agent = make_agent(definition, models=tmp_path, **WORLD)
    first = agent.setpoints(agent.begin([0.5]))
    last = agent.step([0.25], [0.1], terminated=True)
    agent.store()
    agent.close()

    assert first[0] in (0, 1)
    assert [0.5] == last.objective
    assert list(tmp_path.rglob("*.npz"))


def test_what_is_not_there_is_named() -> None:
    """A key that no agent has and a name that means nothing are refused with what there is."""
    with pytest.raises(UsageError, match="found 'muscel'"):
        make_agent({"muscel": "random"}, **WORLD)
    for wrong, key in (({}, "muscle"), ({"muscle": 7}, "muscle"), ({"muscle": "random", "filters": [{}]}, "filter")):
        with pytest.raises(UsageError, match=f"definition.{key}: expected the name of a plugin, or a map"):
            make_agent(wrong, **WORLD)
    with pytest.raises(PluginInvalid, match="there is no muscle `randon`"):
        make_agent({"muscle": "randon"}, **WORLD)
