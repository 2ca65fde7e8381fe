"""AUTHORS: the clock, bus, fakes and checks with which plugins are tested.

Each name is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganglion.testing.agent import make_agent
    from ganglion.testing.checks.agent import check_brain, check_equivalence, check_muscle, check_objective
    from ganglion.testing.checks.clause import check_space
    from ganglion.testing.checks.environment import check_environment
    from ganglion.testing.checks.filter import check_filter
    from ganglion.testing.clock import Clock
    from ganglion.testing.fakes import FakeBrain, FakeEnvironment, FakeMuscle, FakeObjective
    from ganglion.testing.stage import StagedAgent, StagedEnvironment

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

_PLACES = {
    "Clock": "ganglion.testing.clock",
    "FakeBrain": "ganglion.testing.fakes",
    "FakeEnvironment": "ganglion.testing.fakes",
    "FakeMuscle": "ganglion.testing.fakes",
    "FakeObjective": "ganglion.testing.fakes",
    "StagedAgent": "ganglion.testing.stage",
    "StagedEnvironment": "ganglion.testing.stage",
    "check_brain": "ganglion.testing.checks.agent",
    "check_environment": "ganglion.testing.checks.environment",
    "check_equivalence": "ganglion.testing.checks.agent",
    "check_filter": "ganglion.testing.checks.filter",
    "check_muscle": "ganglion.testing.checks.agent",
    "check_objective": "ganglion.testing.checks.agent",
    "check_space": "ganglion.testing.checks.clause",
    "make_agent": "ganglion.testing.agent",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value
    return value
