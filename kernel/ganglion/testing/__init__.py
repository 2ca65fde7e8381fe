"""AUTHORS: the clock, bus, fakes and checks with which plugins are tested.

Each name is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganglion.testing.checks.agent import check_brain, check_equivalence, check_muscle, check_objective
    from ganglion.testing.checks.clause import check_space
    from ganglion.testing.checks.environment import check_environment
    from ganglion.testing.checks.filter import check_filter
    from ganglion.testing.fakes import Clock, FakeBrain, FakeEnvironment, FakeMuscle, FakeObjective
    from ganglion.testing.stage import StagedAgent, StagedEnvironment, make_agent

__all__ = [
    "Clock",
    "FakeBrain",
    "FakeEnvironment",
    "FakeMuscle",
    "FakeObjective",
    "StagedAgent",
    "StagedEnvironment",
    "check_brain",
    "check_environment",
    "check_equivalence",
    "check_filter",
    "check_muscle",
    "check_objective",
    "check_space",
    "make_agent",
]

_HOMES = {
    "ganglion.testing.checks.agent": "check_brain check_equivalence check_muscle check_objective",
    "ganglion.testing.checks.clause": "check_space",
    "ganglion.testing.checks.environment": "check_environment",
    "ganglion.testing.checks.filter": "check_filter",
    "ganglion.testing.fakes": "Clock FakeBrain FakeEnvironment FakeMuscle FakeObjective",
    "ganglion.testing.stage": "StagedAgent StagedEnvironment make_agent",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
