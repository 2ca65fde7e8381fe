"""Losses: what the end of each process means."""

from __future__ import annotations

from ganglion.run.plan import FAIL, RECOVER, RESTART, EnvironmentPlan, PhasePlan, Plan, Process
from ganglion.wire.name import Role

_IN_EPISODES = frozenset({Role.ENVIRONMENT, Role.MUSCLE})


def policy(phase: PhasePlan, process: Process) -> str:
    """Return what the loss of a process means: `recover`, `restart` or `fail`.

    `restart` gives up one episode of one worker: it is for those who take part in episodes. All others have more to
    remember than an episode, and recover.
    """
    found = phase.recovery_of(process).on_loss
    return RECOVER if found == RESTART and process.role not in _IN_EPISODES else found


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


def returns(phase: PhasePlan, process: Process) -> bool:
    """Say whether a lost process comes back as if nothing had happened, so that others wait for it."""
    return ours(process) and policy(phase, process) == RECOVER


def led(phase: PhasePlan, environment: EnvironmentPlan) -> bool:
    """Say whether the successor of a program is led by its controller to where the lost one stood.

    Programs write nothing down. Not where updates come in order of arrival: nobody could say in which a successor has
    to be led. Programs that act are never led: what a brain has told one is not told twice.
    """
    said = (environment.recovery or phase).on_loss
    program = environment.command is not None or environment.attach
    return program and said == RECOVER and phase.sync != "async"


def mends(phase: PhasePlan) -> bool:
    """Say whether there are programs in a phase whose successors are led."""
    return any(led(phase, environment) for environment in phase.environments)


def restarts(phase: PhasePlan, process: Process) -> bool:
    """Say whether a lost process costs its worker the open episode, and no more."""
    return policy(phase, process) == RESTART


def awaited(phase: PhasePlan, process: Process) -> bool:
    """Say whether those who notice the loss of a process wait for its successor, whoever starts it."""
    program = process.environment is not None and led(phase, process.environment)
    return program or restarts(phase, process)


def mended(phase: PhasePlan, process: Process) -> bool:
    """Say whether the supervisor starts the successor of a process that is lost."""
    return not process.attached and (awaited(phase, process) or returns(phase, process))
