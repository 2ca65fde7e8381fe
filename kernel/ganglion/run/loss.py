"""Losses: whose end is mended, and whose ends the run."""

from __future__ import annotations

from ganglion.run.plan import PhasePlan, Process
from ganglion.wire.name import Role

__all__ = ["mended"]

_MENDED = frozenset({Role.ENVIRONMENT})


def mended(phase: PhasePlan, process: Process) -> bool:
    """Say whether a process that is lost while episodes run is started anew and driven to where it stood.

    Not where updates come in order of arrival: nobody could say what it has to be driven through.
    """
    if phase.on_loss != "recover" or phase.sync == "async":
        return False
    return process.role in _MENDED and not process.attached
