"""Taking turns: in each step one agent acts, in document order, and all environments are updated."""

from __future__ import annotations

from collections.abc import Sequence

from ganglion.sdk import Controller

__all__ = ["TakingTurns"]


class TakingTurns(Controller):
    """Let the agents act in document order, one per step; each episode begins with the first.

    All environments are updated with the setpoints of the acting agent alone, and the rewards of the step belong to
    it and to no other. So of A agents each decides in every A-th step, and an episode's steps are its turns.
    """

    async def advance(self) -> None:
        """Make one step of one worker: one turn."""
        # `step` counts the steps made in this episode, so a new episode begins with agent 0 by itself.
        acting = self.turn(self.step)
        await self.update(await self.act(acting), acting)

    def turn(self, step: int) -> Sequence[str]:
        """Return the one agent that acts after `step` steps."""
        return [self.agents[step % len(self.agents)]]
