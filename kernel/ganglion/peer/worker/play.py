"""Play: which bodies of a worker decide by drawn models; ratings of the sides of its environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ganglion.peer.step.opponents import Turns, rated
from ganglion.peer.step.tick import Array, Timelines

if TYPE_CHECKING:
    from ganglion.peer.worker.ticks import _Agent


class _Side(NamedTuple):
    """Bodies of an environment that win and lose together: those of a team, or a single body without a team."""

    members: list[tuple[_Agent, Array]]  # agents with places of their bodies
    rows: list[int]


class Play:
    """Keep turns and ratings of a worker; `agents` are the agents that decide by pools."""

    def __init__(self, agents: Sequence[_Agent], sides: Mapping[int, list[_Side]]) -> None:
        self.agents, self._sides = list(agents), sides
        given = [agent.actor.setup for agent in agents]
        rotating = [(number, one["team"]) for number, one in enumerate(given) if one["rotate_every"] is not None]
        teams: dict[str, list[int]] = {}
        for number, team in rotating:
            teams.setdefault(team, []).append(number)
        every = given[rotating[0][0]]["rotate_every"] if rotating else None
        self._turns = Turns([one["swap_every"] for one in given], every, list(teams.values()))
        self._numbers = {id(agent): number for number, agent in enumerate(self.agents)}
        self.ended: dict[int, int] = {}  # environment -> tick at which its newest episode ended
        self._k: dict[int, float] = {}
        self._ratings: dict[int, list[float]] = {}
        for environment, parts in sides.items():
            found = [agent.actor.setup for part in parts for agent, _ in part.members if "k" in agent.actor.setup]
            rated_by = next((one for one in found if "pool" in one), found[0])
            self._ratings[environment], self._k[environment] = [rated_by["initial"]] * len(parts), rated_by["k"]
            for part in parts:
                for agent, _ in part.members:
                    agent.returns = np.zeros(agent.count)

    def decided(self, agent: _Agent, count: int) -> None:
        """Count decisions of an agent's bodies."""
        number = self._numbers.get(id(agent))
        if number is not None:
            self._turns.decided(number, count)

    def again(self, agent: _Agent) -> None:
        """Make a new muscle draw its model."""
        number = self._numbers.get(id(agent))
        if number is not None:
            self._turns.again(number)

    def due(self) -> list[int]:
        """Return the agents whose models are due to change, as indices of `agents`."""
        return self._turns.due()

    def wanted(self, place: int) -> tuple[bool, bool]:
        """Say whether a model is drawn, and whether the brain receives the decisions made by it."""
        return place not in self._turns.learning, self._turns.learns(place)

    def rate(self, environment: int) -> list[list[Any]]:
        """Rate the sides of an environment by their returns in its episode; return its tick, rows and ratings."""
        sides, tick = self._sides.get(environment, ()), self.ended.pop(environment, None)
        if not sides or tick is None:  # or the episode was cut off
            return []
        returns = []
        for side in sides:
            returns.append(0.0)
            for agent, places in side.members:
                assert agent.returns is not None
                returns[-1] += float(agent.returns[places].sum())
                agent.returns[places] = 0.0
        ratings = self._ratings[environment] = rated(self._ratings[environment], returns, self._k[environment])
        return [[tick, row, rating] for side, rating in zip(sides, ratings, strict=True) for row in side.rows]

    def state(self) -> list[Any]:
        """Return the state that changes."""
        return [self._turns.state(), dict(self.ended), dict(self._ratings)]

    def restore(self, state: Sequence[Any]) -> None:
        """Restore what `state` returned."""
        self._turns.restore(state[0])
        self.ended, self._ratings = dict(state[1]), {number: list(known) for number, known in state[2].items()}


def play_of(agents: Sequence[_Agent], table: Sequence[Mapping[str, Any]], core: Timelines) -> Play:
    """Return the play of a worker; of at least two sides, sides are rated if one does not play by the current model."""
    players = [agent for agent in agents if "pool" in agent.actor.setup]
    sides: dict[int, list[_Side]] = {}
    for environment, rows in enumerate(core.static):
        teams: dict[Any, list[int]] = {}
        for row in rows.tolist():
            team = table[row]["team"]
            teams.setdefault(row if team is None else team, []).append(row)
        parts = [_side(agents, members, _spare(table, core, environment, team)) for team, members in teams.items()]
        counts = any("k" in agent.actor.setup for part in parts for agent, _ in part.members)
        if counts and len(parts) > 1 and core.clocks[environment].end != "each":
            sides[environment] = parts
    return Play(players, sides)


def _spare(table: Sequence[Mapping[str, Any]], core: Timelines, environment: int, team: Any) -> list[int]:
    """Return a team's rows for bodies that an environment may spawn; their rewards count for their side."""
    spare = core.rows[environment][len(core.static[environment]) :].tolist()
    return [row for row in spare if table[row]["team"] is not None and table[row]["team"] == team]


def _side(agents: Sequence[_Agent], rows: list[int], spare: list[int]) -> _Side:
    members = [(agent, np.flatnonzero(np.isin(agent.rows, rows + spare))) for agent in agents]
    return _Side([(agent, places) for agent, places in members if len(places)], rows)
