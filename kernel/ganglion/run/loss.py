"""Losses: what the end of each process means."""

from __future__ import annotations

from enum import Enum, auto

from ganglion.run.plan import FAIL, RECOVER, RESTART, EnvironmentPlan, PhasePlan, Plan, Process
from ganglion.wire.name import Role


class Loss(Enum):
    """Say what the end of a process means."""

    RETURNS = auto()
    """Its successor goes on as if nothing had happened; others wait for it."""
    LED = auto()
    """It is a program, whose successor its controller leads to where the lost one was."""
    EPISODE = auto()
    """Its worker loses the open episode, and begins another one with a successor."""
    FAILS = auto()
    """The run fails."""


def loss_of(phase: PhasePlan, process: Process) -> Loss:
    """Return what the loss of a process means.

    Only processes that take part in episodes can give one up; all others have more to remember, and recover. A
    program that acts is never led: what a brain has told it is not told twice.
    """
    said = phase.recovery_of(process).on_loss
    if said == RESTART and process.role in (Role.ENVIRONMENT, Role.MUSCLE):
        return Loss.EPISODE
    if said == FAIL:
        return Loss.FAILS
    if process.program is None:
        return Loss.RETURNS
    return Loss.LED if process.environment is not None and led(phase, process.environment) else Loss.FAILS


def led(phase: PhasePlan, environment: EnvironmentPlan) -> bool:
    """Say whether the successor of a program is led by its controller to where the lost one was.

    Programs keep no journal. With `sync: async` updates come in order of arrival, which cannot be repeated. Where
    bodies have episodes of their own, or environments go their own ways, there is no begin to replay from.
    """
    said, own = (environment.recovery or phase).on_loss, environment.episode_end == "each" or phase.free
    return environment.program is not None and said == RECOVER and phase.sync != "async" and not own


def awaited(phase: PhasePlan, process: Process) -> bool:
    """Say whether processes that notice the loss of another one wait for its successor."""
    return loss_of(phase, process) in (Loss.LED, Loss.EPISODE)


def mended(phase: PhasePlan, process: Process) -> bool:
    """Say whether the supervisor starts the successor of a process that is lost."""
    return not process.attached and loss_of(phase, process) is not Loss.FAILS


def ours(process: Process) -> bool:
    """Say whether a process runs our own program, and not one that speaks for itself."""
    return process.program is None


def recovers(plan: Plan) -> bool:
    """Say whether any process of a run is replaced when it is lost: then each of ours keeps a journal."""
    return any(part.on_loss != FAIL for phase in plan.phases for part in phase.parts())


def unrepeatable(plan: Plan) -> int | None:
    """Return the first phase that may come out otherwise when it is done again, None if there is none.

    Phases behind it may begin with its models: they are no more repeatable than it is.
    """
    for phase in plan.phases:
        if phase.sync == "async" or not all(part.deterministic for part in phase.parts()):
            return phase.index
    return None
