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
        mode: `barrier`, the default: one tick for all; each waits for all that were asked.
        end: Which spent budgets end the phase: `all` (default), `any`, or `{environment: <uid>}`.
        lead: Of the mode `free`, which is not built yet: no number is taken (default None).
    """

    multiplicity: ClassVar[bool] = True

    def __init__(self, mode: str = "barrier", end: str | Mapping[str, Any] = "all", lead: int | None = None) -> None:
        super().__init__()
        if mode == "free":
            raise ValueError("mode: free is not built yet, expected barrier")
        if mode != "barrier":
            raise ValueError(f"mode: expected barrier, found {mode!r}")
        if lead is not None:
            raise ValueError(f"lead: not built yet: it belongs to mode free, found {lead!r}")
        uid = end.get("environment") if isinstance(end, Mapping) and len(end) == 1 else None
        named = isinstance(uid, str) and bool(uid)
        if end not in ("all", "any") and not named:
            raise ValueError(f"end: expected all, any or {{environment: <uid>}}, found {end!r}")
        self.end = end
