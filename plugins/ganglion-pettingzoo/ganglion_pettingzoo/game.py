"""Game: a ParallelEnv or an AECEnv as one thing, with the last that is known of each of its agents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

__all__ = ["Game", "ParallelGame", "Seat", "TurnGame", "game_of"]

PARTS = {"observation", "action_mask"}


@dataclass(slots=True)
class Seat:
    """Hold what is known of one agent.

    Args:
        agent: Its id in PettingZoo.
        observation: The newest one, without its mask; None before it has been in the game. What is dead keeps its
            last.
        mask: Which actions are legal, one integer per action; None where the environment tells no masks.
        alive: Whether it is in the game.
        turn: Whether it acts next.
        reward: Parallel: of the last step, 0 for who was not alive in it. AEC: since it acted last; what is dead
            keeps it.
        cut: Parallel: whether it was cut off in its last step, and not terminated.
    """

    agent: Any
    observation: Any = None
    mask: Any = None
    alive: bool = False
    turn: bool = False
    reward: float = 0.0
    cut: bool = False

    def see(self, observation: Any, info: Mapping[str, Any]) -> None:
        """Take an observation; a mask comes with it or beside it."""
        if isinstance(observation, Mapping) and set(observation) == PARTS:
            self.observation, self.mask = observation["observation"], observation["action_mask"]
        else:
            self.observation, self.mask = observation, info.get("action_mask")

    def leave(self) -> None:
        """Be dead, if it is not yet: nothing is legal any more, and what it saw last stays."""
        if not self.alive:
            return
        self.alive = self.turn = False
        self.observation = deepcopy(self.observation)  # environments may write the next one into the same array
        if self.mask is not None:
            self.mask = np.zeros_like(self.mask)


class Game(ABC):
    """Play one environment of PettingZoo, episode after episode.

    The names of agents are the texts of their ids, in the order of `possible_agents`.

    Raises:
        ValueError: The environment does not say which agents there may be, or two have one name.
    """

    in_turns: bool

    def __init__(self, world: Any) -> None:
        self.world = world
        agents = list(getattr(world, "possible_agents", None) or [])
        if not agents:
            raise ValueError("the environment has no possible_agents: what is declared may not change between episodes")
        if len({str(agent) for agent in agents}) < len(agents):
            raise ValueError(f"the agents of the environment have equal names: {agents}")
        self.agents = {str(agent): agent for agent in agents}
        self.seats: dict[str, Seat] = {}
        self.terminated = self.truncated = False

    def spaces_of(self, name: str) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        """Return the spaces of an agent's observations, without a mask, and of its actions."""
        agent = self.agents[name]
        observed = self.world.observation_space(agent)
        if isinstance(observed, spaces.Dict) and set(observed.spaces) == PARTS:
            observed = observed.spaces["observation"]
        return observed, self.world.action_space(agent)

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        self.seats = {name: Seat(agent) for name, agent in self.agents.items()}
        self.terminated = self.truncated = False
        self._reset(seed)

    @abstractmethod
    def _reset(self, seed: int) -> None: ...

    @abstractmethod
    def step(self, actions: Mapping[str, Any]) -> None:
        """Carry out actions by name, in PettingZoo's form; afterwards seats and flags are up to date."""

    def close(self) -> None:
        """Release what the environment holds."""
        self.world.close()

    def _end(self, cut: bool) -> None:
        """End the episode; who was cut off in its last step makes it truncated: those may not be thought dead."""
        self.terminated, self.truncated = not cut, cut


class ParallelGame(Game):
    """Play a ParallelEnv: all that are alive act in each step."""

    in_turns = False

    def _reset(self, seed: int) -> None:
        observations, infos = self.world.reset(seed=seed)
        self._seat(observations, infos)

    def step(self, actions: Mapping[str, Any]) -> None:
        """Carry out the actions of all that are alive; others' are ignored."""
        given = {agent: actions[str(agent)] for agent in self.world.agents}
        observations, rewards, terminations, truncations, infos = self.world.step(given)
        for seat in self.seats.values():
            seat.reward = float(rewards.get(seat.agent, 0.0))
        self._seat(observations, infos)
        ended = {a for a in given if terminations.get(a, False) or truncations.get(a, False)}
        for agent in ended:
            seat = self.seats[str(agent)]
            seat.cut = bool(truncations.get(agent, False)) and not terminations.get(agent, False)
            seat.leave()
        if not any(seat.alive for seat in self.seats.values()):
            self._end(any(self.seats[str(agent)].cut for agent in given))

    def _seat(self, observations: Mapping[Any, Any], infos: Mapping[Any, Any]) -> None:
        there = set(self.world.agents)
        for seat in self.seats.values():
            if seat.agent in observations:
                seat.see(observations[seat.agent], infos.get(seat.agent) or {})
            if seat.agent in there:
                seat.alive = seat.turn = True
            else:
                seat.leave()


class TurnGame(Game):
    """Play an AECEnv: one agent acts in each step, and who is dead is let go at once."""

    in_turns = True

    @property
    def mover(self) -> str:
        """Who acts next."""
        return str(self.world.agent_selection)

    def _reset(self, seed: int) -> None:
        self.world.reset(seed=seed)
        self._look(0)

    def step(self, actions: Mapping[str, Any]) -> None:
        """Carry out the action of the one whose turn it is; others' are ignored."""
        self.world.step(actions[self.mover])
        self._look(sum(seat.alive for seat in self.seats.values()))

    def _look(self, before: int) -> None:
        cut = self._bury()
        there = set(self.world.agents)
        for seat in self.seats.values():
            dead = seat.agent not in there or self._dead(seat.agent)
            if not dead:
                seat.alive, seat.turn = True, seat.agent == self.world.agent_selection
            if seat.agent in there and seat.alive:
                self._see(seat)
            if dead:
                seat.leave()
        if not there and before:
            self._end(cut)

    def _bury(self) -> bool:
        """Make the empty steps of the dead; says whether one of them was cut off."""
        world, cut = self.world, False
        while world.agents and self._dead(world.agent_selection):
            agent = world.agent_selection
            seat = self.seats[str(agent)]
            self._see(seat)
            seat.alive = True  # until it leaves, below: with what it has seen now
            cut |= bool(world.truncations[agent] and not world.terminations[agent])
            world.step(None)
        return cut

    def _dead(self, agent: Any) -> bool:
        return bool(self.world.terminations[agent] or self.world.truncations[agent])

    def _see(self, seat: Seat) -> None:
        seat.see(self.world.observe(seat.agent), self.world.infos.get(seat.agent) or {})
        # What `last()` would tell it: PettingZoo's own sum over the others' moves.
        seat.reward = float(self.world._cumulative_rewards[seat.agent])  # noqa: SLF001 - wrappers let it through


def game_of(world: Any) -> Game:
    """Return the game of a ParallelEnv or an AECEnv.

    Raises:
        ValueError: It is neither.
    """
    from pettingzoo import AECEnv, ParallelEnv  # type: ignore[import-untyped, unused-ignore]

    if isinstance(world, ParallelEnv):
        return ParallelGame(world)
    if isinstance(world, AECEnv):
        return TurnGame(world)
    raise ValueError(f"expected a ParallelEnv or AECEnv of PettingZoo, found {type(world).__name__}")
