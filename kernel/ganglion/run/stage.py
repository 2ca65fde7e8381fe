"""The stages of a run: what the governor waits for."""

from __future__ import annotations

from enum import Enum

__all__ = ["Stage"]


class Stage(Enum):
    """Say where a run stands; a phase goes through NEEDING to CLOSING in this order."""

    PLANNED = "planned"
    NEEDING = "the supervisor starts processes"
    JOINING = "processes join"
    SETTING_UP = "environments start"
    BRAINS = "brains are set up"
    RUNNING = "episodes run"
    MUSCLES_LEAVING = "muscles leave"
    STORING = "brains store"
    CLOSING = "environments shut down"
    FAILING = "workers close their episodes"
    ENDED = "ended"
