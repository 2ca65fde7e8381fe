"""Vanilla: in each step all agents act and all environments are updated."""

from __future__ import annotations

from ganglion.sdk import Controller

__all__ = ["Vanilla"]


class Vanilla(Controller):
    """Ask all agents at once, then give all environments their setpoints, in document order."""

    async def advance(self) -> None:
        """Make one step of one worker."""
        await self.update(await self.act(self.agents), self.agents)
