from __future__ import annotations

from collections.abc import Sequence

import pytest

from ganglion.cli.seeds import path_of, seeds_of
from ganglion.run.agents import ResolvedAgent
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, processes_of
from ganglion.run.setup import Cast, Setup
from ganglion.wire.messages import Verdict

DUMMY = PluginPlan("dummy")
AGENT = AgentPlan("ada", DUMMY, DUMMY, DUMMY, [], [])
PHASE = PhasePlan(0, "phase_0", [EnvironmentPlan("myenv", DUMMY)], [AGENT], DUMMY, [], [], workers=2, evaluate_every=1)


class _Paths:
    """Remember which streams are asked for."""

    def __init__(self) -> None:
        self.asked: list[list[str | int]] = []

    def words(self, path: Sequence[str | int]) -> bytes:
        """Return the words of no stream."""
        self.asked.append(list(path))
        return bytes(32)

    def integer(self, words: bytes) -> int:
        """Return no seed."""
        return 0


def test_known_seed() -> None:
    """The number is that of the definition of streams; a seed may have any size."""
    path = ["phase", "phase_0", "train", "environment", "myenv", "worker", 0]

    assert "4031383811298489202" == seeds_of([("42", path)])[0]
    assert 2 == len({*seeds_of([(str(2**70), path), (str(2**70 + 1), path)])})


@pytest.mark.parametrize("evaluation", [False, True])
def test_paths_are_those_of_the_run(evaluation: bool) -> None:
    """What is shown for a process is what it is set up with."""
    paths = _Paths()
    setup = Setup("run", Plan("u", "u", "42", [PHASE]), None, "", paths)
    agent = ResolvedAgent(AGENT, [], [], [])
    setup.brain(PHASE, agent, {}, {})
    for worker in range(2):
        setup.controller(PHASE, worker, [], {}, evaluation)
        cast = Cast([], {}, [agent], {}, {}, False)
        setup.start(PHASE, worker, cast, Verdict("CONTINUE"), evaluation=evaluation)

    shown = [path_of(PHASE, p) for p in processes_of("run", PHASE) if p.worker is None or p.evaluation == evaluation]
    assert all(path in paths.asked for path in shown)
    assert 1 + 2 * 3 == len(shown)
