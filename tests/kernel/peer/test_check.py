from __future__ import annotations

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from ganglion.peer.check import advise, fit_bodies, inspect, main
from ganglion.run.plan import AgentPlan, BodyPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, ProgramPlan
from ganglion.sdk import Box

HEAD = "from ganglion.sdk import Environment, TerminationCondition\n"
CONDITION = HEAD + "class Told(TerminationCondition):\n    def {hook}:\n        {body}\n"
ENVIRONMENT = HEAD + (
    "class World(Environment):\n"
    "    def start_environment(self): raise NotImplementedError\n"
    "    def update(self, actuators): raise NotImplementedError\n"
    "    @classmethod\n"
    "    def longest_episode(cls, **params): {body}\n"
)

_NUMBERS = itertools.count()
ECHO = "return [f\"longest {document['longest_episode']}\"]"


def _plan(
    folder: Path,
    condition: PluginPlan,
    environments: list[EnvironmentPlan] | None = None,
    workers: int = 1,
    phases: int = 1,
    episodes: int | None = 1,
    ends: str = "vanilla",
) -> dict[str, Any]:
    dummy = PluginPlan("dummy", at="x.yml:2:2: environment")
    worlds = environments or [EnvironmentPlan("hill", dummy, params={"max_iter": 7})]
    agent = AgentPlan("ada", dummy, None, dummy, [], [])
    whole = [PluginPlan(ends, at="x.yml:7:3: ends")]
    phase = PhasePlan(
        0, "one", worlds, [agent], PluginPlan("vanilla"), [condition], whole, workers=workers, episodes=episodes
    )
    return Plan("x", "x", "1", [phase] * phases, source="x.yml", folder=str(folder)).to_map()


def _said(rows: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return [(row["severity"], row["line"], row["message"]) for row in rows]


def _module(folder: Path, text: str) -> str:
    """Write a module beside the document and return its name; a process imports no two of one name."""
    name = f"advice_{next(_NUMBERS)}"
    (folder / f"{name}.py").write_text(text)
    return name


def _echo(folder: Path) -> PluginPlan:
    """Return a condition that warns of what it was shown."""
    name = _module(folder, CONDITION.format(hook="warnings(self, document)", body=ECHO))
    return PluginPlan(f"{name}:Told", at="x.yml:5:3: c")


@pytest.mark.parametrize(
    ("plugin", "params", "severity", "text"),
    [
        ("max_steps", {"steps": 0}, "error", "condition `max_steps`: steps: expected an integer >= 1, found 0"),
        ("max_episodes", {}, "warning", "`max_episodes` is not read among `simulation.conditions`: it is phase-level"),
        (
            "agent_objective",
            {"adda": {"brain_avg1": 1}},
            "error",
            "condition `agent_objective`: there is no agent `adda`; did you mean `ada`?",
        ),
    ],
)
def test_what_a_condition_says_is_told_at_its_place(
    tmp_path: Path, plugin: str, params: dict[str, Any], severity: str, text: str
) -> None:
    """It is made as the run will make it: what it refuses is a fault, what nobody asks of it is told."""
    assert [(severity, 5, text)] == _said(advise(_plan(tmp_path, PluginPlan(plugin, params, at="x.yml:5:3: c"))))


@pytest.mark.parametrize(
    ("params", "text"),
    [({}, ""), ({"mode": "fast"}, "mode: expected barrier or free, found 'fast'"), ({"mood": 1}, "")],
)
def test_controllers_of_bodies_are_made(tmp_path: Path, params: dict[str, Any], text: str) -> None:
    """What one says of its parameters is a fault; one whose phase has no bodies is not made, nor one not taken."""
    tree = _plan(tmp_path, PluginPlan("max_steps", {"steps": 3}, at="x.yml:5:3: c"))
    [phase] = tree["phases"]
    phase["controller"] |= {"name": "aeb", "params": params, "at": "x.yml:9:3: simulation.name"}
    assert [] == _said(advise(tree))
    phase["bodies"] = []

    assert ([("error", 9, f"controller `aeb`: {text}")] if text else []) == _said(advise(tree))


@pytest.mark.parametrize(
    ("ends", "budgets", "end", "ended"),
    [
        ("max_episodes", [None, None], "all", False),
        ("vanilla", [3, None], "all", False),
        ("max_episodes", [3, None], "any", True),
        ("max_episodes", [None, 3], "hill", False),
        ("max_episodes", [None, 3], "moor", True),
        ("max_episodes", [3, 3], "all", True),
        ("environment", [None, None], "all", True),
    ],
)
def test_limits_of_episodes_end_no_phase_with_bodies(
    tmp_path: Path, ends: str, budgets: list[int | None], end: str, ended: bool
) -> None:
    """They say what budgets say: without these a phase that nothing else can end is refused at its condition."""
    worlds = [
        EnvironmentPlan(uid, PluginPlan("dummy"), params={"max_iter": 7}, budget_episodes=budget)
        for uid, budget in zip(("hill", "moor"), budgets, strict=True)
    ]
    tree = _plan(tmp_path, PluginPlan("max_steps", {"steps": 3}), worlds, ends=ends, episodes=None)
    [phase] = tree["phases"]
    phase["bodies"] = [{"agent": "ada", "environment": uid, "b": 0} for uid in ("hill", "moor")]
    phase |= {"end": end, "controller": {**phase["controller"], "name": "aeb"}}
    text = f"nothing can end phase `one`: with bodies `{ends}` say no more than budgets, which are missing"

    assert ([] if ended else [("error", 7, text)]) == _said(advise(tree))


def test_what_signatures_tell_is_told_once(tmp_path: Path) -> None:
    """Unknown parameters and missing plugins are the registry's business, not told here again."""
    for plugin in (PluginPlan("max_steps", {"stps": 1}), PluginPlan("no_such_thing")):
        plan = _plan(tmp_path, plugin)

        assert [] == advise(plan)
        assert 1 == len(inspect(plan))


def test_authors_exceptions_are_told(tmp_path: Path) -> None:
    """What raises is told with its line: a constructor is a fault, a failing warning is itself only a warning."""
    one = _module(tmp_path, CONDITION.format(hook="__init__(self)", body="raise KeyError('gone')"))
    two = _module(tmp_path, CONDITION.format(hook="warnings(self, document)", body="return 1 / 0"))
    [made] = advise(_plan(tmp_path, PluginPlan(f"{one}:Told", at="x.yml:5:3: c")))
    [asked] = advise(_plan(tmp_path, PluginPlan(f"{two}:Told", at="x.yml:5:3: c")))

    assert ("error", f"condition `{one}:Told`: KeyError: 'gone' ({tmp_path / one}.py:4)") == (
        made["severity"],
        made["message"],
    )
    assert "warning" == asked["severity"]
    assert "its warnings raised ZeroDivisionError: division by zero" in asked["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise OSError('x')", "longest_episode raised OSError: x"),
        ("return 0", "longest_episode: expected steps >= 1 or None, found 0"),
        ("return 2.5", "longest_episode: expected steps >= 1 or None, found 2.5"),
    ],
)
def test_environments_that_answer_nonsense_are_told(tmp_path: Path, body: str, message: str) -> None:
    """A wrong answer is a warning at the environment's place; conditions hear that it is unknown."""
    name = _module(tmp_path, ENVIRONMENT.format(body=body))
    world = EnvironmentPlan("hill", PluginPlan(f"{name}:World", at="x.yml:2:2: environment"))
    wrong, echo = _said(advise(_plan(tmp_path, _echo(tmp_path), [world])))

    assert ("warning", 2) == wrong[:2]
    assert message in wrong[2]
    assert ("warning", 5, "longest None") == echo


def test_an_unknown_program_has_unknown_episodes(tmp_path: Path) -> None:
    """An attached environment says nothing; beside it the first that ends still ends the episode."""
    told = _echo(tmp_path)
    attached = EnvironmentPlan("wind", program=ProgramPlan())
    hill = EnvironmentPlan("hill", PluginPlan("dummy"), params={"max_iter": 6})

    assert [("warning", 5, "longest None")] == _said(advise(_plan(tmp_path, told, [attached])))
    assert [("warning", 5, "longest 6")] == _said(advise(_plan(tmp_path, told, [attached, hill])))


def test_phases_that_nothing_ends_are_told(tmp_path: Path) -> None:
    """So is a number of episodes that no condition reads."""
    told = _echo(tmp_path)
    endless = "nothing ends phase `one`: neither `episodes` nor another condition"
    unread = "no condition of phase `one` reads `episodes`"

    assert ("warning", 7, endless) in _said(advise(_plan(tmp_path, told, episodes=None)))
    assert ("warning", 7, unread) in _said(advise(_plan(tmp_path, told, ends="environment")))


def _checked(folder: Path, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the process of a check leaves behind."""
    (folder / "plan").write_bytes(msgpack.packb(plan))
    assert 0 == main({"GANGLION_CHECK": str(folder / "plan"), "GANGLION_FAULTS": str(folder / "faults")})
    found: list[dict[str, Any]] = msgpack.unpackb((folder / "faults").read_bytes())
    return found


def test_faults_come_back_with_their_place(tmp_path: Path) -> None:
    """What only the class can tell is found, with the line of the document; what is in order has no fault."""
    [fault] = _checked(tmp_path, _plan(tmp_path, PluginPlan("no_such_thing", at="x.yml:3:5: conditions.0")))
    assert ("x.yml", 3, 5) == (fault["file"], fault["line"], fault["column"])
    assert "no_such_thing" in fault["message"]
    assert [] == _checked(tmp_path, _plan(tmp_path, PluginPlan("vanilla")))


WORLDS = (
    "from ganglion.sdk import *\n"
    "class World(Environment):\n"
    "    def __init__(self, low): self.low = low\n"
    "    def start_environment(self):\n"
    "        seen, moved = Box(0, 1), Box(self.low, 5)\n"
    "        actuators = [ActuatorInformation(self.low, moved, 'force')]\n"
    "        return EnvironmentBaseline([SensorInformation(0.0, seen, 'height')], actuators)\n"
    "    def update(self, actuators): raise NotImplementedError\n"
)


@pytest.mark.parametrize("started", [False, pytest.param(True, marks=pytest.mark.long)], ids=["told", "started"])
@pytest.mark.parametrize(
    ("lows", "between", "expected"),
    [
        (
            [0, 1],
            "zero",
            [
                "6:3: body ada/e1/0: decision.between: zero is outside of {} of e1.force",
                "4:4: agent ada: its bodies are of 2 groups of unequal ids or spaces (e0; e1), and brain dqn takes one",
            ],
        ),
        ([0, 0], "zero", []),
        (["none", 1], "repeat", []),
    ],
    ids=["neither fits", "fits", "an environment that does not start"],
)
def test_bodies_are_compared_with_what_environments_declare(
    tmp_path: Path, lows: list[Any], between: str, expected: list[str], started: bool
) -> None:
    """Zero outside of a space, and bodies of several groups of a learner that takes one, are told before any start."""
    name = f"{_module(tmp_path, WORLDS)}:World"
    worlds = [
        EnvironmentPlan(f"e{i}", PluginPlan(name), params={"low": low}, budget_steps=3) for i, low in enumerate(lows)
    ]
    tree = _plan(tmp_path, PluginPlan("max_steps", {"steps": 3}, at="x.yml:5:3: c"), worlds)
    [phase] = tree["phases"]
    phase["controller"] |= {"name": "aeb", "at": "x.yml:9:3: name"}
    bodies = [BodyPlan("ada", f"e{i}", 0, between=between, between_at="x.yml:6:3: between") for i in range(len(lows))]
    phase["bodies"] = [asdict(body) for body in bodies]
    [agent] = phase["agents"]
    agent |= {"brain": asdict(PluginPlan("dqn", at="x.yml:4:4: brain")), "muscle": asdict(PluginPlan("echo"))}
    agent |= {"objective": asdict(PluginPlan("aggregate_rewards"))}
    space = Box(1, 5, dtype=np.float64)
    seen = [{"id": "height", "space": Box(0, 1).to_wire()}]
    declared = {
        world.trial(): {"sensors": seen, "actuators": [{"id": "force", "space": Box(low, 5).to_wire()}], "rewards": []}
        for world, low in zip(worlds, lows, strict=True)
        if low != "none"
    }
    rows = inspect(tree) if started else fit_bodies(tree, declared)
    found = [f"{row['line']}:{row['column']}: {row['message']}" for row in rows if row["severity"] == "error"]

    assert len(expected) == len(found)
    assert all(text.startswith(start.format(space)) for start, text in zip(expected, found, strict=True)), found
