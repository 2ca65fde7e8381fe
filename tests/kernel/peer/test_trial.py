from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.peer.environment.trial import try_out
from ganglion.run.plan import EnvironmentPlan, PhasePlan, Plan, PluginPlan

_NUMBERS = itertools.count()
WORLD = """from ganglion.sdk import *
class World(Environment):
    def start_environment(self):
        {start}
        return [SensorInformation({sensor}, Discrete(2), "x")], [ActuatorInformation({noop}, Discrete(2), "y")]
    def update(self, actuators): raise NotImplementedError
    def shutdown(self):
        {shutdown}
class Late(Reward):
    def __call__(self, state): return []
"""

Order = Callable[..., dict[str, Any]]


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """Return a function that makes the order of a trial: of an author's class, or of a plugin."""

    def make(name: str | None = None, worker: int = 0, seed: str = "1", **lines: Any) -> dict[str, Any]:
        if name is None:
            module = f"trial_{next(_NUMBERS)}"
            text = WORLD.format(**{"start": "pass", "sensor": 0, "noop": 0, "shutdown": "pass", **lines})
            (tmp_path / f"{module}.py").write_text(text)
            name = f"{module}:World"
        environment = EnvironmentPlan(
            "hill", PluginPlan(name), params=lines.get("params", {}), per_worker=lines.get("per_worker", [])
        )
        phase = PhasePlan(0, "one", [environment], [], PluginPlan("vanilla"), [], [], workers=2)
        plan = Plan("x", "x", seed, [phase], folder=str(tmp_path))
        return {"plan": plan.to_map(), "phase": 0, "environment": "hill", "worker": worker}

    return make


def test_rewards_of_the_first_update_are_unknown(order: Order) -> None:
    """An environment that does not declare its rewards at the start says so."""
    assert try_out(order(), sys.stderr)["rewards"] is None


BAD = [
    ({"start": "return 1 / 0"}, "hook start_environment: ZeroDivisionError: division by zero"),
    ({"start": "return 3"}, "expected an EnvironmentBaseline or (sensors, actuators), found int"),
    (
        {"start": "raise SystemExit(4)"},
        "environment hill (worker 0), class World, hook start_environment: SystemExit: 4",
    ),
    ({"sensor": 2}, "hook start_environment: reading x: expected a value of Discrete(2), found 2"),
    ({"noop": -1}, "hook start_environment: setpoint y: expected a value of Discrete(2), found -1"),
    ({"sensor": None}, "sensor 'x' has no value"),
    ({"shutdown": "raise OSError('busy')"}, "hook shutdown: OSError: busy"),
]


@pytest.mark.parametrize(("lines", "message"), BAD)
def test_what_goes_wrong_is_the_answer(order: Order, lines: dict[str, Any], message: str) -> None:
    """What an author's code raises, and values outside their spaces, are told with the environment and the hook."""
    found = try_out(order(**lines), sys.stderr)

    assert message in found["message"]
    assert "hill" in found["message"]
