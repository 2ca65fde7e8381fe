from __future__ import annotations

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, SensorInformation
from ganglion_toys.tic_tac_toe import BOARD, LEGAL, MOVE, RandomPlayer, TicTacToe


def _play(environment, cells):
    """Play moves alternately, x first; return the states."""
    environment.start_environment()
    return [
        environment.update([ActuatorInformation(cell, MOVE, environment.players[i % 2])])
        for i, cell in enumerate(cells)
    ]


def _rewards(state) -> dict[str, float]:
    return {it.uid: it.value for it in state.rewards}


LINES = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]]


@pytest.mark.parametrize("line", LINES)
def test_three_in_a_line_win(make, line) -> None:
    """Each of the eight lines wins for who completes it, in that step and not before."""
    others = [cell for cell in range(9) if cell not in line][:2]
    states = _play(make(TicTacToe), [line[0], others[0], line[1], others[1], line[2]])

    assert [False] * 4 + [True] == [state.terminated for state in states]
    assert [{"x": 0.0, "o": 0.0}] * 4 + [{"x": 1.0, "o": -1.0}] == [_rewards(state) for state in states]


def test_a_full_board_is_a_draw(make) -> None:
    """Nine moves without a line end the game for nobody."""
    states = _play(make(TicTacToe), [0, 1, 2, 4, 3, 5, 7, 6, 8])

    assert [False] * 8 + [True] == [state.terminated for state in states]
    assert {"x": 0.0, "o": 0.0} == _rewards(states[-1])
    assert 9 == TicTacToe.longest_episode() == states[-1].simtime.simtime_ticks


def test_an_illegal_move_loses(make) -> None:
    """Who moves to a taken cell has lost; the board stays."""
    first, second = _play(make(TicTacToe), [4, 4])

    assert (True, {"x": 1.0, "o": -1.0}) == (second.terminated, _rewards(second))
    assert first.sensor_information[0].value.tolist() == second.sensor_information[0].value.tolist()


def test_who_is_in_turn_moves_where_both_are_set(make) -> None:
    """Where both players have a setpoint the first moves, then the second, and the other setpoint is ignored."""
    environment = make(TicTacToe)
    environment.start_environment()
    states = [
        environment.update([ActuatorInformation(x, MOVE, "x"), ActuatorInformation(o, MOVE, "o")])
        for x, o in ((4, 0), (4, 0))
    ]

    assert [0, 0, 0, 0, 1, 0, 0, 0, 0] == states[0].sensor_information[0].value.tolist()
    assert [2, 0, 0, 0, 1, 0, 0, 0, 0] == states[1].sensor_information[0].value.tolist()


def test_who_does_not_move_loses(make) -> None:
    """A step without a move is an illegal move of the player in turn; the board stays."""
    environment = make(TicTacToe)
    environment.start_environment()
    environment.update([ActuatorInformation(4, MOVE, "x")])
    last = environment.update([])

    assert (True, {"x": 1.0, "o": -1.0}) == (last.terminated, _rewards(last))
    assert [0, 0, 0, 0, 1, 0, 0, 0, 0] == last.sensor_information[0].value.tolist()


def test_nobody_moves_twice_in_a_row(make) -> None:
    """A step in which only the player is set that moved last is an error."""
    environment = make(TicTacToe)
    environment.start_environment()
    environment.update([ActuatorInformation(0, MOVE, "x")])
    with pytest.raises(ValueError, match="player x moves twice in a row"):
        environment.update([ActuatorInformation(2, MOVE, "x")])


def _sensors(board: list[int]) -> list[SensorInformation]:
    marks = np.array(board)
    return [
        SensorInformation(marks, BOARD, "game.board"),
        SensorInformation((marks == 0).astype(np.int8), LEGAL, "game.legal"),
    ]


def test_random_player_moves_legally(make) -> None:
    """It makes every legal move at some time and no other."""
    player = make(RandomPlayer)
    sensors = _sensors([1, 0, 2, 0, 1, 2, 0, 1, 2])
    moves = [player.propose_actions(sensors, [ActuatorInformation(None, MOVE, "game.x")])[0].value for _ in range(60)]

    assert {1, 3, 6} == set(moves)


def test_random_player_says_what_it_needs(make) -> None:
    """Without the sensor `legal`, or without a legal move, it raises."""
    player = make(RandomPlayer)
    actuators = [ActuatorInformation(None, MOVE, "game.x")]

    with pytest.raises(ValueError, match=r"expected the sensor `legal`, found \['game.board'\]"):
        player.propose_actions(_sensors([0] * 9)[:1], actuators)
    with pytest.raises(ValueError, match="no legal move"):
        player.propose_actions(_sensors([1, 2, 1, 2, 1, 2, 2, 1, 2]), actuators)


def test_random_games_end(make) -> None:
    """Random games end after 5 to 9 moves, in all three ways."""
    environment, player = make(TicTacToe), make(RandomPlayer)
    ends = set()
    for _ in range(100):
        sensors, done, moves = environment.start_environment().sensors_available, False, 0
        while not done:
            actuator = ActuatorInformation(None, MOVE, environment.players[moves % 2])
            state = environment.update(player.propose_actions(sensors, [actuator]))
            sensors, done, moves = state.sensor_information, state.terminated, moves + 1
        assert 5 <= moves <= 9
        ends.add(_rewards(state)["x"])

    assert {-1.0, 0.0, 1.0} == ends
