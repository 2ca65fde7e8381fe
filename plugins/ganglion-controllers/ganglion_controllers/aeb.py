"""AEB: agents, environments and bodies, each environment with its own clock and episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ganglion.sdk import Controller

__all__ = ["AEB"]


class AEB(Controller):
    """Let every environment step, end and begin anew on its own timeline, with the bodies that the phase names.

    In each tick the agents decide for all their bodies at once, then the environments that are due step, then what has
    ended begins anew. The bus carries out the ticks; this class says how they are meant.

    Params:
        mode: `barrier`, the default: one tick for all; each waits for all that were asked. `free`: each environment
            makes its own ticks and waits for nobody but the muscles of its bodies; needs `sync: async`.
        end: Which spent budgets end the phase: `all` (default), `any`, or `{environment: <uid>}`.
        lead: In `free`, an environment that is so many ticks ahead of the slowest unfinished one waits (default None).
    """

    multiplicity: ClassVar[bool] = True

    def __init__(self, mode: str = "barrier", end: str | Mapping[str, Any] = "all", lead: int | None = None) -> None:
        super().__init__()
        if mode not in ("barrier", "free"):
            raise ValueError(f"mode: expected barrier or free, found {mode!r}")
        if lead is not None and (mode != "free" or type(lead) is not int or lead < 1):
            raise ValueError(f"lead: expected a number of ticks of at least 1, in mode free, found {lead!r}")
        uid = end.get("environment") if isinstance(end, Mapping) and len(end) == 1 else None
        named = isinstance(uid, str) and bool(uid)
        if end not in ("all", "any") and not named:
            raise ValueError(f"end: expected all, any or {{environment: <uid>}}, found {end!r}")
        self.end = end
