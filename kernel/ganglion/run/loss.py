"""Losses: what the end of each process means."""

from __future__ import annotations

from ganglion.run.plan import PhasePlan, Process
from ganglion.run.recovery import RECOVER, RESTART
from ganglion.wire.name import Role

__all__ = ["mended", "mends", "policy"]

_MENDED = frozenset({Role.ENVIRONMENT})
_IN_EPISODES = frozenset({Role.ENVIRONMENT, Role.MUSCLE})


def policy(phase: PhasePlan, process: Process) -> str:
    """Return what the loss of a process means: `recover`, `restart` or `fail`.

    `restart` gives up one episode of one worker: it is for those who take part in episodes. All others have more to
    remember than an episode, and recover.
    """
    found = phase.recovery_of(process).on_loss
    return RECOVER if found == RESTART and process.role not in _IN_EPISODES else found


def mends(phase: PhasePlan) -> bool:
    """Say whether losses are mended in a phase.

    Not where updates come in order of arrival: nobody could say what a successor has to be driven through.
    """
    return phase.on_loss == "recover" and phase.sync != "async"


def mended(phase: PhasePlan, process: Process) -> bool:
    """Say whether a process that is lost while episodes run is started anew and driven to where it stood."""
    return mends(phase) and process.role in _MENDED and not process.attached
