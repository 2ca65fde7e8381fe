"""AUTHORS: the clock, bus, fakes and checks with which plugins are tested.

Each name is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganglion.testing.checks import check_brain as check_brain
    from ganglion.testing.checks import check_environment as check_environment
    from ganglion.testing.checks import check_equivalence as check_equivalence
    from ganglion.testing.checks import check_filter as check_filter
    from ganglion.testing.checks import check_functional as check_functional
    from ganglion.testing.checks import check_muscle as check_muscle
    from ganglion.testing.checks import check_objective as check_objective
    from ganglion.testing.checks import check_space as check_space
    from ganglion.testing.fakes import Clock as Clock
    from ganglion.testing.fakes import FakeBrain as FakeBrain
    from ganglion.testing.fakes import FakeEnvironment as FakeEnvironment
    from ganglion.testing.fakes import FakeMuscle as FakeMuscle
    from ganglion.testing.fakes import FakeObjective as FakeObjective
    from ganglion.testing.stage import StagedAgent as StagedAgent
    from ganglion.testing.stage import StagedEnvironment as StagedEnvironment
    from ganglion.testing.stage import make_agent as make_agent

_HOMES = {
    "ganglion.testing.checks": "check_brain check_environment check_equivalence check_filter "
    "check_functional check_muscle check_objective check_space",
    "ganglion.testing.fakes": "Clock FakeBrain FakeEnvironment FakeMuscle FakeObjective",
    "ganglion.testing.stage": "StagedAgent StagedEnvironment make_agent",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # noqa: PLE0605 - the names that a type checker sees above


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
