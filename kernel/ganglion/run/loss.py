"""Losses: whose end is mended, and whose ends the run."""

from __future__ import annotations

from ganglion.run.plan import PhasePlan, Process
from ganglion.wire.name import Role

__all__ = ["mended", "mends"]

_MENDED = frozenset({Role.ENVIRONMENT})


def mends(phase: PhasePlan) -> bool:
    """Say whether losses are mended in a phase.

    Not where updates come in order of arrival: nobody could say what a successor has to be driven through.
    """
    return phase.on_loss == "recover" and phase.sync != "async"


def mended(phase: PhasePlan, process: Process) -> bool:
    """Say whether a process that is lost while episodes run is started anew and driven to where it stood."""
    return mends(phase) and process.role in _MENDED and not process.attached
