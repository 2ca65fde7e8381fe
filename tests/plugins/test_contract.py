from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Box, Discrete, MultiBinary, MultiDiscrete, SensorInformation
from ganglion.testing import check_brain, check_environment, check_filter, check_muscle, check_objective
from ganglion_conformance import Order, PluginDriver, judge

ROOT = Path(__file__).parents[2]

SENSORS = [SensorInformation(None, Box(-1.0, 1.0, (3,)), "world.place")]
CHOICE = [ActuatorInformation(0, Discrete(3), "world.choice")]
ECHOED = [ActuatorInformation(0, Discrete(1_000_003), "world.sum")]  # what `echo` sets
PUSH = [ActuatorInformation(0.0, Box(-2.0, 2.0, ()), "world.push")]

# name -> parameters; each of ours is here, but those that need a game or a library of their own
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "cartpole": {},
    "counting": {},
    "doors": {"listed": True},
    "dummy": {},
    "pendulum": {},
    "race": {"length": 3},
    "swing": {"goal": 0.9},
    "tic_tac_toe": {},
    "gymnasium": {"id": "CartPole-v1"},
    "pettingzoo": {"id": "classic/rps_v2"},
}
TURNS = {"pettingzoo": {"id": "classic/tictactoe_v3"}}  # a game of at least two steps, in turns
SMALL: dict[str, Any] = {"hidden": [8], "minibatch": 8, "warm_up": 8}
# name -> actuators, parameters of the muscle, name of its brain, parameters of that
AGENTS: dict[str, tuple[list[ActuatorInformation], dict[str, Any], str, dict[str, Any]]] = {
    "sarsa": (CHOICE, {}, "sarsa", {}),
    "dqn": (CHOICE, {}, "dqn", {"update_every": 2, "pretrain_steps": 9, **SMALL}),
    "ppo": (CHOICE, {}, "ppo", {"hidden": [8], "rollout": 16, "minibatch": 8, "epochs": 2, "pretrain_epochs": 2}),
    "ppo of columns": (PUSH, {}, "ppo", {"hidden": [8], "rollout": 16, "minibatch": 8, "epochs": 1}),
    "sac": (PUSH, {}, "sac", {"update_every": 2, "pretrain_steps": 9, **SMALL}),
}


def class_of(group: str, name: str) -> type[Any]:
    """Return the class of a plugin."""
    (entry,) = [entry for entry in entry_points(group=f"ganglion.{group}") if entry.name == name]
    found: type[Any] = entry.load()
    return found


def _judge(name: str, params: dict[str, Any], folder: str = "", allow: tuple[str, ...] = ()) -> None:
    """Let the kit judge an environment by the clauses of the protocol."""
    report = judge(PluginDriver(name, folder, allow), Order(plugin=name, params=params, steps=100, curve=False))
    assert [] == [v for v in report.verdicts if v.state == "fail"], "\n".join(report.lines())


def test_each_environment_is_judged() -> None:
    """No environment of ours is left out here but those that play records or simulators, which their own tests make."""
    assert {*ENVIRONMENTS, "fmi", "mosaik", "mosaik_scenario", "replay"} == {
        entry.name for entry in entry_points(group="ganglion.environments")
    }


@pytest.mark.parametrize(("name", "params"), [*ENVIRONMENTS.items(), *TURNS.items()])
def test_environments_keep_their_contract(name: str, params: dict[str, Any]) -> None:
    """What is asked of every author's environment is asked of ours, by the check and by the kit."""
    check_environment(class_of("environments", name), params, steps=30)
    _judge(name, params)


@pytest.mark.parametrize(
    ("paper", "path", "name"),
    [
        ("README.md", "tank.py", "Tank"),
        ("plugins/README.md", "ganglion-weather/ganglion_weather/environment.py", "Weather"),
        ("plugins/README.md", "ganglion-weather/ganglion_weather/ball.py", "Ball"),
    ],
)
def test_environments_of_papers_keep_their_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paper: str, path: str, name: str
) -> None:
    """An environment that a paper shows passes the check and the kit."""
    text = (ROOT / paper).read_text().partition(f"```python\n# {path}\n")[2].partition("```")[0]
    module = f"{name.lower()}_of_a_paper"
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    check_environment(getattr(import_module(module), name), steps=30)
    _judge(f"{module}:{name}", {}, str(tmp_path), (module,))


@pytest.mark.parametrize("name", ["dummy", "echo", "random"])
def test_muscles_without_a_brain_keep_their_contract(name: str) -> None:
    """What is asked of every author's muscle is asked of ours."""
    check_muscle(class_of("muscles", name), actuators=ECHOED if name == "echo" else CHOICE)


@pytest.mark.parametrize("name", AGENTS)
def test_learners_keep_their_contract(name: str) -> None:
    """Brain and muscle fit each other, are repeatable bit for bit, store, load, and go on from a checkpoint."""
    if name != "sarsa":
        pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
    actuators, params, brain, brain_params = AGENTS[name]
    muscle, brain_class = class_of("muscles", brain), class_of("brains", brain)
    chosen = {"sensors": SENSORS, "actuators": actuators}
    check_muscle(muscle, params, brain=brain_class, brain_params=brain_params, **chosen)
    check_brain(brain_class, brain_params, muscle=muscle, muscle_params=params, **chosen)


def _sb3(algorithm: str) -> tuple[str, dict[str, Any]]:
    return "sb3", {"algorithm": algorithm}


BOX, BUTTON = Box(-2.0, 2.0, ()), Discrete(3)
WHOLE = Box(-2, 2, (), np.int64)
BOUNDED = "expected bounded Box actuators of floats"
# brain, its parameters, the spaces of the actuators, what is said where it cannot learn with them
SPACES = [
    ("sarsa", {}, [BUTTON], ""),
    ("sarsa", {}, [], "found none"),
    ("sarsa", {}, [BUTTON, BUTTON], "found world.0: Discrete"),
    ("dqn", {}, [MultiDiscrete([2, 3])], ""),
    ("dqn", {}, [BOX], "expected discrete actuators, found"),
    ("dqn", {}, [BUTTON, BUTTON], "dqn acts on exactly one Discrete or MultiDiscrete actuator"),
    ("dqn", {}, [], "expected discrete actuators, found none"),
    ("dqn", {}, [MultiDiscrete([65, 65])], "4225 combinations"),
    ("ppo", {}, [BUTTON, MultiBinary(2)], ""),
    ("ppo", {}, [Box(-np.inf, np.inf, ())], ""),
    ("ppo", {}, [BOX, BUTTON], "expected Box actuators"),
    ("ppo", {}, [BUTTON, BOX], "expected discrete actuators"),
    ("ppo", {}, [], "expected (discrete|Box) actuators"),
    ("sac", {}, [BOX, BOX], ""),
    ("sac", {}, [BUTTON], BOUNDED),
    ("sac", {}, [], BOUNDED),
    ("sac", {}, [WHOLE], BOUNDED),
    ("sac", {}, [Box(0.0, np.inf, ())], BOUNDED),
    (*_sb3("SAC"), [BOX], ""),
    (*_sb3("SAC"), [BUTTON], "found "),
    (*_sb3("DQN"), [BUTTON, BUTTON], "found "),
    (*_sb3("PPO"), [BUTTON, BUTTON], ""),
    (*_sb3("PPO"), [], "found "),
    (*_sb3("PPQ"), [BUTTON], "did you mean `PPO`"),
]


@pytest.mark.parametrize(("brain", "params", "spaces", "said"), SPACES)
def test_learners_say_what_spaces_they_take(brain: str, params: dict[str, Any], spaces: list[Any], said: str) -> None:
    """A brain refuses the actuators before a run that it would refuse in its set-up."""
    actuators = [ActuatorInformation(None, space, f"world.{i}") for i, space in enumerate(spaces)]
    with pytest.raises(ValueError, match=said) if said else nullcontext():
        class_of("brains", brain).check_spaces(SENSORS, actuators, **params)


def test_learners_say_it_without_torch() -> None:
    """What a check of a document asks of brains imports no torch."""
    names = ["sarsa", "dqn", "ppo", "sac", "sb3"]
    program = f"""import sys
from importlib.metadata import entry_points
from ganglion.sdk import ActuatorInformation, Box
for name in {names}:
    (entry,) = entry_points(group="ganglion.brains", name=name)
    try:
        entry.load().check_spaces([], [ActuatorInformation(None, Box(-1.0, 1.0, ()), "world.push")])
    except ValueError:
        print(name)
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert ["sarsa", "dqn", "False"] == done.stdout.split(), done.stderr


@pytest.mark.parametrize("name", ["aggregate_rewards", "dummy"])
def test_objectives_keep_their_contract(name: str) -> None:
    """What is asked of every author's objective is asked of ours."""
    check_objective(class_of("objectives", name))


@pytest.mark.parametrize("name", [entry.name for entry in entry_points(group="ganglion.filters")])
def test_filters_keep_their_contract(name: str) -> None:
    """What is asked of every author's filter is asked of ours."""
    check_filter(class_of("filters", name))
