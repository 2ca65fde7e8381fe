"""Controller: asks the agents that may act, by what the environment says of their turn and life."""

from __future__ import annotations

from ganglion.sdk import Controller

__all__ = ["PettingZooController"]


class PettingZooController(Controller):
    """Let the agents act that are in turn, or that are alive where there are no turns.

    Each agent needs, among its sensors, `turn` of the PettingZoo agents whose actuators it has (environments of the
    AEC api) or `alive` (parallel ones). With several it acts if one of them may.

    In turns, a decision takes all rewards up to its agent's next turn, or the end, as in PettingZoo: also what
    others' moves bring. A condition that reads objectives sees it then, too. In parallel a decision takes the
    rewards of its step.
    """

    async def advance(self) -> None:
        """Make one step: one turn, or one step of all that are alive.

        Raises:
            ValueError: An agent has neither sensor.
        """
        acting = [agent for agent in self.agents if self._may_act(agent)]
        # Who acts in turns is not named: its decision stays open until it acts again.
        at_once = [agent for agent in acting if not self._flags(agent, "turn")]
        await self.update(await self.act(acting), at_once)

    def _may_act(self, agent: str) -> bool:
        places = self._flags(agent, "turn") or self._flags(agent, "alive")
        if not places:
            raise ValueError(
                f"agent {agent} has neither a sensor `turn` nor `alive`: give it that of the PettingZoo agent that it "
                "plays, such as game.player_0.turn"
            )
        readings = self.readings[agent]
        return any(int(readings[place]) for place in places)

    def _flags(self, agent: str, what: str) -> list[int]:
        return [i for i, uid in enumerate(self.sensors[agent]) if uid.endswith(f".{what}")]
