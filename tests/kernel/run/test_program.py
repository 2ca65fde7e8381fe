from __future__ import annotations

import pytest

from ganglion.run.loss import mended, ours, returns
from ganglion.run.outline import outline
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, ProgramPlan, processes_of
from ganglion.wire.name import Role

SUM = PluginPlan("aggregate_rewards")


def _phase(program: ProgramPlan, on_loss: str = "recover") -> PhasePlan:
    agent = AgentPlan("ada", None, None, SUM, ["grid.*"], ["grid.*"], program=program)
    grid = EnvironmentPlan("grid", PluginPlan("dummy"))
    return PhasePlan(0, "one", [grid], [agent], PluginPlan("vanilla"), [], [], "test", 2, on_loss=on_loss)


@pytest.mark.parametrize(
    ("program", "definition"),
    [
        (ProgramPlan(["./a", "b"]), {"command": ["./a", "b"]}),
        (ProgramPlan(["./a"], "bin", {"A": "1"}), {"command": ["./a"], "cwd": "bin", "variables": {"A": "1"}}),
        (ProgramPlan(), {"attach": True}),
    ],
)
def test_outline_is_what_a_document_says(program: ProgramPlan, definition: dict[str, object]) -> None:
    """A program is told by its form and what belongs to it; an agent's has its parameters, and no objective."""
    agent = outline(_phase(program))["agents"][0]

    assert definition == program.outline()
    assert {**definition, "params": {}} == agent["muscle"]
    assert "objective" not in agent


def test_plan_with_programs_travels() -> None:
    """A plan comes back from its map as it was; programs need an address that they can reach."""
    phase = _phase(ProgramPlan(["./a"], "bin", {"A": "1"}, {"weights": [1.0]}))
    plan = Plan("p", "p", "7", [phase])

    assert plan == Plan.from_map(plan.to_map())
    assert plan.needs_tcp


def test_each_worker_has_a_process_of_it() -> None:
    """A muscle that is a program is one process per worker, which is not ours; who is awaited is attached."""
    started = [p for p in processes_of("r", _phase(ProgramPlan(["./a"]))) if p.role is Role.MUSCLE]
    awaited = [p for p in processes_of("r", _phase(ProgramPlan())) if p.role is Role.MUSCLE]

    assert [0, 1] == [p.worker for p in started]
    assert [False, False, True, True] == [p.attached for p in (*started, *awaited)]
    assert [] == [p for p in (*started, *awaited) if ours(p)]


@pytest.mark.parametrize(("on_loss", "again"), [("recover", False), ("fail", False), ("restart", True)])
def test_loss_of_a_muscle_that_writes_nothing_down(on_loss: str, again: bool) -> None:
    """A program that acts never comes back as if nothing had been: it may be started anew for the next episode."""
    phase = _phase(ProgramPlan(["./a"]), on_loss)
    (muscle, _) = [p for p in processes_of("r", phase) if p.role is Role.MUSCLE]

    assert (False, again) == (returns(phase, muscle), mended(phase, muscle))
