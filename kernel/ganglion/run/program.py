"""Programs: what a run starts, or awaits, in place of a plugin, and what speaks for itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["ProgramPlan"]


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """Describe a program that is an environment or a muscle; `command` None: somebody else starts it.

    `cwd` is relative to the document. `params` are sent with the set-up. `speaks` is `bus`, or `lines` for
    JSON on its standard streams.
    """

    command: list[str] | None = None
    cwd: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    speaks: str = "bus"

    def outline(self) -> dict[str, Any]:
        """Return what a document says of it: its form, and what belongs to that form alone."""
        if self.command is None:
            return {"attach": True}
        definition: dict[str, Any] = {"command": self.command}
        definition |= {"cwd": self.cwd} if self.cwd is not None else {}
        definition |= {"speaks": self.speaks} if self.speaks != "bus" else {}
        return definition | ({"variables": self.variables} if self.variables else {})
