"""AUTHORS: the clock, bus, fakes and checks with which plugins are tested.

A name is loaded at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganglion.testing.checks import *
    from ganglion.testing.fakes import *
    from ganglion.testing.stage import *

_HOMES = {
    "ganglion.testing.checks": "check_brain check_environment check_equivalence check_filter "
    "check_functional check_muscle check_objective check_space",
    "ganglion.testing.fakes": "Clock FakeBrain FakeEnvironment FakeMuscle FakeObjective",
    "ganglion.testing.stage": "StagedAgent StagedEnvironment make_agent",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # noqa: PLE0605 - a type checker sees the modules above


def __getattr__(name: str) -> Any:
    """Load a public name."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
