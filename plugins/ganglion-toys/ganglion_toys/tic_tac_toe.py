"""Tic-tac-toe: a game for two agents that take turns, and a muscle that plays it at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    MultiBinary,
    MultiDiscrete,
    Muscle,
    RewardInformation,
    SensorInformation,
    SimTime,
)

__all__ = ["RandomPlayer", "TicTacToe"]

CELLS = 9
EMPTY = 0
BOARD = MultiDiscrete([3] * CELLS)
LEGAL = MultiBinary(CELLS)
MOVE = Discrete(CELLS)
REWARD = Box(-1.0, 1.0, ())
# Rows, columns, diagonals; cells are numbered 0 .. 8 from the upper left, row by row.
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


class TicTacToe(Environment):
    """Play tic-tac-toe under the controller `taking_turns`; a game is an episode of 5 to 9 steps.

    Sensors `board`, MultiDiscrete of 9 (0 empty, 1 and 2 the marks of first and second player), and `legal`,
    MultiBinary of 9 (1 where a move may be made). Each player has an actuator of its name, Discrete(9): the cell of
    its move; and a reward of its name: 1 in the step in which it wins, -1 in the step in which it loses, else 0. Give
    an agent the rewards that are its own (`rewards: [game.x]`); note that under taking turns the rewards of a step
    reach only the agent that moved in it, so that a loss is seen by the environment's table alone.

    Where both are given a setpoint in a step, as under the controller `vanilla`, the player whose turn it is moves (at
    first the first one), and the other one's setpoint is ignored. A move to a cell that is taken is illegal, and so is
    none at all: the board stays, the game is over, and whose turn it was has lost. Terminated by three in a line, a
    full board or an illegal move. Simulated time: ticks are moves.

    Params:
        players: The two names, distinct; default [x, o]. Whoever moves first, they move alternately.
    """

    def __init__(self, players: Sequence[str] = ("x", "o")) -> None:
        super().__init__()
        names = [str(name) for name in players]
        if len(names) != 2 or names[0] == names[1]:
            raise ValueError(f"players are two distinct names, found {names}")
        self.players = names
        self.board = [EMPTY] * CELLS
        self.moves = 0
        self.last_mover: int | None = None

    @classmethod
    def longest_episode(cls, **params: Any) -> int | None:
        """Return 9: then the board is full."""
        return CELLS

    def start_environment(self) -> EnvironmentBaseline:
        """Begin a game on an empty board."""
        self.board = [EMPTY] * CELLS
        self.moves = 0
        self.last_mover = None
        return EnvironmentBaseline(
            sensors_available=self._readings(),
            actuators_available=[ActuatorInformation(0, MOVE, name) for name in self.players],
            simtime=SimTime(simtime_ticks=0),
            rewards_available=self._rewards(None),
        )

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Make the move of one player.

        Raises:
            ValueError: Only the player is given a setpoint that has moved last; the board stays.
        """
        mover, cell = self._move_of({self.players.index(it.uid): int(it.value) for it in actuators})
        self.last_mover = mover
        self.moves += 1
        winner: int | None = None
        over = True
        if cell is None or self.board[cell] != EMPTY:
            winner = 1 - mover
        else:
            self.board[cell] = mover + 1
            if self._in_line(mover + 1):
                winner = mover
            else:
                over = EMPTY not in self.board
        return EnvironmentState(
            sensor_information=self._readings(),
            rewards=self._rewards(winner),
            terminated=over,
            simtime=SimTime(simtime_ticks=self.moves),
        )

    def _move_of(self, cells: Mapping[int, int]) -> tuple[int, int | None]:
        """Return who moves, and where; None for no move."""
        if self.last_mover is None:
            mover = min(cells, default=0)
        else:
            mover = 1 - self.last_mover
        if cells and mover not in cells:
            raise ValueError(f"player {self.players[1 - mover]} moves twice in a row")
        return mover, cells.get(mover)

    def _in_line(self, mark: int) -> bool:
        return any(all(self.board[cell] == mark for cell in line) for line in LINES)

    def _readings(self) -> list[SensorInformation]:
        board = np.array(self.board, dtype=np.int64)
        return [
            SensorInformation(board, BOARD, "board"),
            SensorInformation((board == EMPTY).astype(np.int8), LEGAL, "legal"),
        ]

    def _rewards(self, winner: int | None) -> list[RewardInformation]:
        values = [0.0 if winner is None else 1.0 if player == winner else -1.0 for player in (0, 1)]
        return [RewardInformation(value, REWARD, name) for value, name in zip(values, self.players, strict=True)]


class RandomPlayer(Muscle):
    """Play tic-tac-toe by moves drawn uniformly from the legal ones.

    It needs the sensor `legal`, and sets each actuator that it has.
    """

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> list[ActuatorInformation]:
        """Set each actuator to a legal cell.

        Raises:
            ValueError: There is no sensor `legal`, or no legal move.
        """
        legal = next((it.value for it in sensors if it.uid.rpartition(".")[2] == "legal"), None)
        if legal is None:
            raise ValueError(f"expected the sensor `legal`, found {[it.uid for it in sensors]}")
        cells = np.flatnonzero(legal)
        if not len(cells):
            raise ValueError("there is no legal move: the board is full")
        for actuator in actuators_available:
            actuator.value = int(self.rng.choice(cells))
        return actuators_available
