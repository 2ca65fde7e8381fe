"""Losses: what the end of each process means."""

from __future__ import annotations

from enum import Enum, auto

from ganglion.run.plan import FAIL, RECOVER, RESTART, EnvironmentPlan, PhasePlan, Plan, Process
from ganglion.wire.name import Role

_IN_EPISODES = frozenset({Role.ENVIRONMENT, Role.MUSCLE})


class Loss(Enum):
    """Say what the end of a process means."""

    RETURNS = auto()
    """Its successor goes on as if nothing had happened; others wait for it."""
    LED = auto()
    """It is a program, whose successor its controller leads to where the lost one stood."""
    EPISODE = auto()
    """Its worker loses the open episode, and begins another one with a successor."""
    FAILS = auto()
    """The run fails."""


def loss_of(phase: PhasePlan, process: Process) -> Loss:
    """Return what the loss of a process means.

    To give up an episode is for those who take part in episodes. All others have more to remember, and recover.
    Programs that act are never led: what a brain has told one is not told twice.
    """
    said = phase.recovery_of(process).on_loss
    if said == RESTART and process.role in _IN_EPISODES:
        return Loss.EPISODE
    if said == FAIL:
        return Loss.FAILS
    if process.program is None:
        return Loss.RETURNS
    return Loss.LED if process.environment is not None and led(phase, process.environment) else Loss.FAILS


def recovers(plan: Plan) -> bool:
    """Say whether there is anybody in a run who comes back when he is lost: then all of ours write down what they hear.

    A process may live through several phases, and what it heard in one is needed in the next.
    """
    return any(part.on_loss != FAIL for phase in plan.phases for part in phase.parts())


def unrepeatable(plan: Plan) -> int | None:
    """Return the first phase that may come out otherwise when it is done again, None if there is none.

    Phases behind it may begin with its models: they are no more repeatable than it is.
    """
    for phase in plan.phases:
        if phase.sync == "async" or not all(part.deterministic for part in phase.parts()):
            return phase.index
    return None


def ours(process: Process) -> bool:
    """Say whether a process runs our own program, and not one that speaks for itself."""
    return process.program is None


def led(phase: PhasePlan, environment: EnvironmentPlan) -> bool:
    """Say whether the successor of a program is led by its controller to where the lost one stood.

    Programs write nothing down. Not where updates come in order of arrival: nobody could say in which a successor has
    to be led.
    """
    said = (environment.recovery or phase).on_loss
    program = environment.command is not None or environment.attach
    return program and said == RECOVER and phase.sync != "async"


def mends(phase: PhasePlan) -> bool:
    """Say whether there are programs in a phase whose successors are led."""
    return any(led(phase, environment) for environment in phase.environments)


def awaited(phase: PhasePlan, process: Process) -> bool:
    """Say whether those who notice the loss of a process wait for its successor, whoever starts it."""
    return loss_of(phase, process) in (Loss.LED, Loss.EPISODE)


def mended(phase: PhasePlan, process: Process) -> bool:
    """Say whether the supervisor starts the successor of a process that is lost."""
    return not process.attached and loss_of(phase, process) is not Loss.FAILS
