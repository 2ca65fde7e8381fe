"""Environments: carts, counters, races, swings, dummies and noughts and crosses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import (
    ActuatorInformation,
    Body,
    Box,
    Discrete,
    Memory,
    ResetRequest,
    RewardInformation,
    SensorInformation,
)
from ganglion_toys.cartpole import ACTION, CartPole, advance
from ganglion_toys.counting import ANSWER, CountingEnvironment
from ganglion_toys.dummy import DummyBrain, DummyEnvironment, DummyMuscle, DummyObjective
from ganglion_toys.echo import checksum
from ganglion_toys.pendulum import TORQUE, Pendulum
from ganglion_toys.race import MOVE as STRIDE
from ganglion_toys.race import Race
from ganglion_toys.swing import Swing
from ganglion_toys.tic_tac_toe import BOARD, LEGAL, MOVE, RandomPlayer, TicTacToe

NOTHING = (0.0, 0.0, 0.0, 0.0)


def _push(action: int) -> list[ActuatorInformation]:
    return [ActuatorInformation(action, ACTION, "action")]


def test_a_pushed_pole_at_rest_follows_the_equations() -> None:
    """From rest, 10 N give the accelerations of the closed form: F / (M + m (1 - 3/4)) for the cart."""
    position, velocity, angle, spin = advance(NOTHING, 10.0)

    assert (0.0, 0.0) == (position, angle)
    assert velocity == pytest.approx(0.02 * 10.0 / (1.0 + 0.1 / 4), rel=1e-12)
    assert spin == pytest.approx(-0.02 * 0.75 / 0.5 * 10.0 / (1.0 + 0.1 / 4), rel=1e-12)


def test_equals_the_well_known_one(make) -> None:
    """Episodes of equal seed and actions have the readings of Gymnasium's CartPole-v1, bit for bit."""
    gymnasium = pytest.importorskip("gymnasium")
    theirs, ours = gymnasium.make("CartPole-v1").unwrapped, make(CartPole)
    rng = np.random.default_rng(0)
    for seed in (0, 42, 2**62 + 1):
        reading, _ = theirs.reset(seed=seed)
        np.testing.assert_array_equal(reading, ours.reset(ResetRequest(1, seed)).sensors_available[0].value)
        terminated = False
        while not terminated:
            action = int(rng.integers(2))
            reading, reward, terminated, _, _ = theirs.step(action)
            state = ours.update(_push(action))
            np.testing.assert_array_equal(reading, state.sensor_information[0].value)
            assert (reward, terminated) == (state.rewards[0].value, state.terminated)


@pytest.mark.parametrize(
    ("cls", "params", "said"),
    [
        (CartPole, {"longest": 0}, "at least 1 step, found 0"),
        (DummyEnvironment, {"max_iter": 0}, "max_iter is at least 1, found 0"),
    ],
)
def test_refuses_an_episode_without_steps(make, cls, params, said) -> None:
    """A cap below one step is refused."""
    with pytest.raises(ValueError, match=said):
        make(cls, **params)


def _bodies(make, count: int, **params) -> CartPole:
    many = make(CartPole, **params)
    many.bodies = tuple(Body("ada", 0, b) for b in range(count))
    many.start_environment()
    return many


def test_bodies_move_like_carts_alone(make) -> None:
    """Each body's episodes have the readings, rewards and flags of a cart alone of that seed, bit for bit."""
    count, seeds = 16, iter(range(1000))
    many, alone = _bodies(make, count, longest=30), [make(CartPole, longest=30) for _ in range(count)]
    rng, begun, ends = np.random.default_rng(3), np.arange(count), 0
    for _ in range(200):
        drawn = [next(seeds) for _ in begun]
        if len(begun):
            first = many.begin_batch(begun, drawn)["observation"]
            for row, seed, reading in zip(begun, drawn, first, strict=True):
                one = alone[row].reset(ResetRequest(1, seed)).sensors_available[0].value
                np.testing.assert_array_equal(one, reading)
        many.rows = np.flatnonzero(rng.random(count) < 0.8)  # not all take part in each step
        actions = rng.integers(2, size=len(many.rows))
        batch = many.update_batch({"action": actions})
        states = [alone[row].update(_push(int(by))) for row, by in zip(many.rows, actions, strict=True)]
        readings = np.array([it.sensor_information[0].value for it in states]).reshape(-1, 4)
        np.testing.assert_array_equal(readings, batch.readings["observation"])
        assert [it.rewards[0].value for it in states] == batch.rewards["reward"].tolist()
        assert [it.terminated for it in states] == batch.terminated.tolist()
        assert [it.truncated for it in states] == batch.truncated.tolist()
        begun = many.rows[batch.terminated | batch.truncated]
        ends += len(begun)

    assert ends > 50


def test_bodies_go_on_where_they_were(make) -> None:
    """A loaded state is gone on with, in another object, and what was saved stands still."""
    one, other = _bodies(make, 3), _bodies(make, 3)
    one.begin_batch(np.arange(3), [1, 2, 3])
    one.rows = other.rows = np.arange(3)
    actions = [{"action": np.array(row)} for row in ([0, 1, 0], [1, 1, 0], [0, 0, 1])]
    one.update_batch(actions[0])
    saved = {name: np.array(value) for name, value in one.save_state().items()}
    expected = [one.update_batch(it).readings["observation"] for it in actions[1:]]
    other.load_state(saved)

    np.testing.assert_array_equal(expected, [other.update_batch(it).readings["observation"] for it in actions[1:]])


def _answer(value: int) -> list[ActuatorInformation]:
    return [ActuatorInformation(value, ANSWER, "answer")]


def _episode(environment) -> list[tuple[list[int], float, bool, bool, int]]:
    rows = []
    while not rows or not (rows[-1][2] or rows[-1][3]):
        state = environment.update(_answer(0))
        rows.append(
            (
                state.sensor_information[0].value.tolist(),
                state.rewards[0].value,
                state.terminated,
                state.truncated,
                state.simtime.simtime_ticks,
            )
        )
    return rows


def test_reports_place_episode_and_step(make) -> None:
    """The observation is [e, episode, t, b], the reward 10 e + t / 1000, in each episode anew."""
    environment = make(CountingEnvironment, length=2)
    environment.index = 1
    begin = environment.start_environment()
    first = _episode(environment)
    again = environment.reset(ResetRequest(1, 0)).sensors_available[0].value.tolist()

    assert [1, 0, 0, 0] == begin.sensors_available[0].value.tolist()
    assert -1 == begin.actuators_available[0].value
    assert [([1, 0, 1, 0], 10.001, False, False, 1), ([1, 0, 2, 0], 10.002, True, False, 2)] == first
    assert [1, 1, 0, 0] == again
    assert [1, 1, 2, 0] == _episode(environment)[-1][0]


@pytest.mark.parametrize(
    ("length", "truncate_at", "steps", "flags"),
    [(10, None, 10, (True, False)), (10, 4, 4, (False, True)), (4, 4, 4, (True, False)), (1, 5, 1, (True, False))],
)
def test_ends(make, length, truncate_at, steps, flags) -> None:
    """Episodes terminate at `length` and are truncated at `truncate_at`; at both they terminate."""
    environment = make(CountingEnvironment, length=length, truncate_at=truncate_at)
    environment.start_environment()
    rows = _episode(environment)

    assert (steps, flags) == (len(rows), rows[-1][2:4])
    assert steps == CountingEnvironment.longest_episode(length=length, truncate_at=truncate_at)


def test_verify_refuses_another_answer(make) -> None:
    """With verify the checksum of the last observation passes, and anything else raises and names the place."""
    environment = make(CountingEnvironment, verify=True)
    environment.start_environment()
    environment.update(_answer(checksum([[0, 0, 0, 0]])))

    with pytest.raises(ValueError, match=r"part, episode 0, step 2: expected the answer 30815 .* found 7"):
        environment.update(_answer(7))


def test_crash_ends_the_process() -> None:
    """With crash_at the process ends with status 3 in that step, not before."""
    program = (
        "from ganglion_toys.counting import CountingEnvironment\n"
        "environment = CountingEnvironment(crash_at={'episode': 0, 'step': 2})\n"
        "environment.start_environment(); environment.update([]); print('one', flush=True); environment.update([])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert (3, "one\n") == (found.returncode, found.stdout)


# -- bodies -----------------------------------------------------------------------------------------------------------
BODIES = (Body("ada", 0, 0), Body("ada", 0, 1), Body("bob", 2, 0))


def _counting(make, **params) -> CountingEnvironment:
    environment = make(CountingEnvironment, **params)
    environment.bodies, environment.index = BODIES, 1
    environment.start_environment()
    return environment


def _step(environment, *rows: int, answers=None):
    environment.rows = np.array(rows)
    return environment.update_batch({"answer": np.array(answers or [0] * len(rows))})


def test_each_body_has_its_end(make) -> None:
    """Lists have one end for each body; at both ends a body terminates."""
    environment = _counting(make, length=[1, 2, 9], truncate_at=[None, 2, 2])
    environment.begin_batch(np.arange(3), [0, 0, 0])
    first, second = _step(environment, 0, 1, 2), _step(environment, 1, 2)

    assert ([True, False, False], [False] * 3) == (first.terminated.tolist(), first.truncated.tolist())
    assert ([True, False], [False, True]) == (second.terminated.tolist(), second.truncated.tolist())
    assert 9 == CountingEnvironment.longest_episode(length=[1, 2, 9], truncate_at=[None, 2, 2])
    for params in ({"length": [1, 2]}, {"truncate_at": [1, 2, 3, 4]}):
        with pytest.raises(ValueError, match="one for each of 3 bodies"):
            _counting(make, **params)


def test_verify_names_the_body(make) -> None:
    """An answer that is not the checksum of what this body was shown is refused by its coordinate."""
    environment = _counting(make, verify=True)
    seen = environment.begin_batch(np.arange(3), [0, 0, 0])["observation"]
    right = [checksum([observation]) for observation in seen]
    _step(environment, 0, 1, 2, answers=right)
    stale = [checksum([[1, 0, 1, 0]]), right[1]]

    with pytest.raises(ValueError, match=r"body ada/part/1: expected the answer .* to \[1, 0, 1, 1\], found"):
        _step(environment, 0, 1, answers=stale)


@pytest.fixture
def race(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes a race of so many bodies, which has begun."""

    def begun(count: int, **params: Any) -> Any:
        made = make(Race, **params)
        made.bodies = [Body("ada", 0, b) for b in range(count)]
        made.start_environment()
        made.begin_batch(np.arange(count), [1] * count)
        made.rows = np.arange(count)
        return made

    return begun


@pytest.mark.parametrize(
    ("moves", "rewards"),  # of three bodies on a track of two steps
    [([[2, 2, 0], [2, 1, 2]], [1, -1, -1]), ([[2, 2, 1], [2, 2, 2]], [1, 1, -1]), ([[2, 2, 2], [2, 2, 2]], [0, 0, 0])],
)
def test_first_at_the_end_wins(race: Callable[..., Any], moves: list[list[int]], rewards: list[float]) -> None:
    """Who is at the end gets 1, who is not -1, and nobody anything where all are; then it is over for all."""
    world = race(3, length=2)
    steps = [world.update_batch({"move": np.array(row)}) for row in moves]

    assert [False, True] == [step.terminated for step in steps]
    assert [[0, 0, 0], rewards] == [step.rewards["reward"].tolist() for step in steps]


def test_bodies_see_themselves_and_the_best_of_the_others(race: Callable[..., Any]) -> None:
    """As shares of the track; nobody steps back behind the begin."""
    world = race(3, length=4, ahead=[1, 0, 0])
    seen = world.update_batch({"move": np.array([2, 2, 0])}).readings["observation"]

    assert [[0.5, 0.25], [0.25, 0.5], [0.0, 0.5]] == seen.tolist()


def test_nobody_has_to_arrive(race: Callable[..., Any]) -> None:
    """After the longest episode it is truncated for all."""
    world = race(2, longest=3)
    steps = [world.update_batch({"move": np.array([1, 2])}) for _ in range(3)]

    assert [(False, False), (False, False), (False, True)] == [(step.terminated, step.truncated) for step in steps]


def test_one_runs_alone(make: Callable[..., Any]) -> None:
    """Without bodies it has nobody to win against, and wins as soon as it is there."""
    world = make(Race, length=2)
    world.start_environment()
    states = [world.update([ActuatorInformation(2, STRIDE, "move")]) for _ in range(2)]

    assert [(0.0, False), (1.0, True)] == [(state.rewards[0].value, state.terminated) for state in states]


def test_what_cannot_be_is_refused(make: Callable[..., Any], race: Callable[..., Any]) -> None:
    """Tracks without steps, starts behind the end, and races of each for itself."""
    with pytest.raises(ValueError, match="at least 1"):
        make(Race, length=0)
    with pytest.raises(ValueError, match="numbers from 0 to 5"):
        make(Race, ahead=[6])
    with pytest.raises(ValueError, match="a number for each of 2 bodies"):
        race(2, ahead=[1])
    with pytest.raises(ValueError, match="together"):
        race(2).begin_batch(np.array([1]), [1])


def test_swing_moves_like_the_pendulum(make) -> None:
    """From the same state, equal torques give equal bits, whatever the other rows."""
    alone, many = make(Pendulum), make(Swing)
    alone.start_environment()
    draw = np.random.default_rng(1)
    states = many.begin([1, 2, 3])
    states["cos"][1], states["sin"][1], states["speed"][1] = alone.cosine, alone.sine, alone.speed
    for _ in range(100):
        torque = draw.uniform(-2, 2, 3)
        found = many.step(states, {"torque": torque})
        state = alone.update([ActuatorInformation(float(torque[1]), TORQUE, "torque")])
        states = found.states

        assert [it.value for it in state.sensor_information] == [it[1] for it in found.observations.values()]
        assert state.rewards[0].value == found.rewards[1]


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


def test_environment_counts(make) -> None:
    """After update i all sensors and the reward read i mod max_iter, the clock i; update max_iter terminates."""
    environment = make(DummyEnvironment, max_iter=4)
    environment.start_environment()
    states = [environment.update([]) for _ in range(4)]

    assert [{1}, {2}, {3}, {0}] == [{it.value for it in state.sensor_information} for state in states]
    assert [1, 2, 3, 0] == [state.rewards[0].value for state in states]
    assert [1, 2, 3, 4] == [state.simtime.simtime_ticks for state in states]
    assert [False, False, False, True] == [state.terminated for state in states]
    assert [False] * 4 == [state.truncated for state in states]
    assert 4 == DummyEnvironment.longest_episode(max_iter=4)


def test_environment_without_discrete_values(make) -> None:
    """With discrete off, sensors are 0 or 1 from the environment's stream and the reward counts all the same."""
    environment = make(DummyEnvironment, discrete=False)
    baseline = environment.start_environment()
    states = [environment.update([]) for _ in range(10)]
    values = [it.value for state in states for it in state.sensor_information]
    twin = make(DummyEnvironment, discrete=False)
    twin.start_environment()

    assert {Box(0.0, 2.0, ())} == {it.space for it in baseline.sensors_available}
    assert {Box(0.0, 10.0, ())} == {it.space for it in baseline.actuators_available}
    assert {0.0, 1.0} == set(values)
    assert values == [it.value for _ in range(10) for it in twin.update([]).sensor_information]
    assert [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] == [state.rewards[0].value for state in states]


def _actuators() -> list[ActuatorInformation]:
    return [ActuatorInformation(None, Discrete(3, start=5), "a.0"), ActuatorInformation(None, Box(0, 1, ()), "a.1")]


def test_muscle_counts_upwards(make) -> None:
    """With count_upwards a Discrete(3, 5) gets 5 6 7 5, the data are the decision's index, a reset begins anew."""
    muscle = make(DummyMuscle, count_upwards=True)
    first = [muscle.propose_actions([], _actuators()) for _ in range(4)]
    muscle.reset()
    again = muscle.propose_actions([], _actuators())

    assert [5, 6, 7, 5] == [actuators[0].value for actuators, _ in first]
    assert [0, 1, 2, 3] == [data for _, data in first]
    assert (5, 0) == (again[0][0].value, again[1])
    assert all(0 <= actuators[1].value <= 1 for actuators, _ in first)


def test_brain_keeps_the_last_number(make) -> None:
    """The state is 42 at first, then the last number plus one; it is the update and what is stored."""
    brain = make(DummyBrain)

    assert 42 == brain.thinking("m/0", None)
    assert [1, 10] == [brain.thinking("m/0", data) for data in (0, 9)]
    assert 10 == brain.thinking("m/1", None)
    assert 10 == int(brain.arrays()["state"])

    other = make(DummyBrain)
    other.load_arrays(brain.arrays())
    assert 10 == other.state


def test_objective_sums_the_rewards_of_the_decision(make) -> None:
    """The objective is the sum of the newest row's rewards; a reward that it lacks counts nothing."""
    memory = Memory()
    objective = make(DummyObjective)
    space = Box(-np.inf, np.inf, ())
    memory.append("m/0", rewards=[RewardInformation(3.0, space, "e.a"), RewardInformation(4.0, space, "e.b")])
    both = objective.internal_reward(memory)
    memory.append("m/0", rewards=[RewardInformation(5.0, space, "e.a"), RewardInformation(None, space, "e.b")])

    assert (7.0, 5.0) == (both, objective.internal_reward(memory))
