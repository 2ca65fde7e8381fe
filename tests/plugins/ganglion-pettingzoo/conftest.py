"""Environments of PettingZoo's two kinds that are small enough to be worked out by hand."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv


class Fading(ParallelEnv):
    """Let agents 0, 1, 2 die one after the other; agent 2 is cut off in step 3 if it is told to."""

    metadata: ClassVar = {"name": "fading_v0"}

    def __init__(self, cut: bool = False, late: bool = False) -> None:
        self.possible_agents = [0, 1, 2]
        self.cut, self.late, self.given, self.closed = cut, late, [], False

    def observation_space(self, agent: Any) -> Any:
        return spaces.Box(0, 100, (2,), np.float32)

    def action_space(self, agent: Any) -> Any:
        return spaces.Discrete(3, start=1)

    def _observations(self) -> Any:
        self.buffer[:] = self.steps
        return dict.fromkeys(self.agents, self.buffer)

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        self.steps, self.seed, self.buffer = 0, seed, np.zeros(2, np.float32)
        self.agents = [0, 1] if self.late else [0, 1, 2]
        return self._observations(), {agent: {} for agent in self.agents}

    def step(self, actions: Any) -> Any:
        assert list(actions) == self.agents
        self.given.append(dict(actions))
        self.steps += 1
        if self.late and self.steps == 1:
            self.agents = [*self.agents, 2]
        there = list(self.agents)
        observations = self._observations()
        rewards = {agent: 10.0 * agent + self.steps for agent in there}
        over = self.steps == 3 and self.cut
        dies = {agent: self.steps == agent + 1 and not (over and agent == 2) for agent in there}
        cut = dict.fromkeys(there, over)
        self.agents = [] if over else [agent for agent in there if not dies[agent]]
        return observations, rewards, dies, cut, {agent: {} for agent in there}

    def close(self) -> None:
        self.closed = True


class Counting(AECEnv):
    """Let `a` and `b` move in turn, 3 moves each at most; each move gives the other one 1 and itself 10.

    With `victim` agent `b` dies by the second move of `a`. Masks come with the infos.
    """

    metadata: ClassVar = {"name": "counting_v0"}

    def __init__(self, victim: bool = False, cut: bool = False) -> None:
        self.possible_agents = ["a", "b"]
        self.victim, self.cut = victim, cut

    def observation_space(self, agent: Any) -> Any:
        return spaces.Discrete(10)

    def action_space(self, agent: Any) -> Any:
        return spaces.Discrete(2)

    def observe(self, agent: Any) -> Any:
        return self.moves

    def reset(self, seed: Any = None, options: Any = None) -> None:
        self.agents = ["a", "b"]
        self.moves, self.agent_selection = 0, "a"
        self.rewards, self._cumulative_rewards = {"a": 0, "b": 0}, {"a": 0, "b": 0}
        self.terminations, self.truncations = {"a": False, "b": False}, {"a": False, "b": False}
        self.infos = {"a": {"action_mask": [1, 0]}, "b": {"action_mask": [0, 1]}}

    def step(self, action: Any) -> None:
        mover = self.agent_selection
        if self.terminations[mover] or self.truncations[mover]:
            self._was_dead_step(action)
            return
        self.moves += 1
        self._cumulative_rewards[mover] = 0
        self.rewards = {agent: 10 if agent == mover else 1 for agent in self.agents}
        self._accumulate_rewards()
        if self.victim and self.moves == 3:
            self.terminations["b"] = True
            self._skip_agent_selection, self.agent_selection = "a", "b"
        else:
            others = [agent for agent in self.agents if agent != mover]
            self.agent_selection = others[0] if others else mover
        if self.moves == 6:
            (self.truncations if self.cut else self.terminations).update(dict.fromkeys(self.agents, True))


@pytest.fixture
def fading() -> type[Fading]:
    """Return the parallel environment."""
    return Fading


@pytest.fixture
def counting() -> type[Counting]:
    """Return the AEC environment."""
    return Counting
