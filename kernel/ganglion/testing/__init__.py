"""AUTHORS: the clock, bus, fakes and checks with which plugins are tested."""

from ganglion.testing.checks import (
    check_brain,
    check_environment,
    check_equivalence,
    check_filter,
    check_muscle,
    check_objective,
    check_space,
)
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
