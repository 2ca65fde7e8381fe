from __future__ import annotations

import numpy as np
import pytest

from ganglion_pettingzoo.game import ParallelGame, TurnGame, game_of


def _shown(game):
    """Return what is shown of each agent: observation, alive, turn, reward."""
    return [(np.ravel(it.observation).tolist()[:1], it.alive, it.turn, it.reward) for it in game.seats.values()]


def test_the_dead_keep_their_last_observation_and_earn_nothing(fading) -> None:
    """In parallel all that are alive act; who has died shows what it saw last, and has reward 0 from then on."""
    game = game_of(fading())
    assert isinstance(game, ParallelGame)
    assert ["0", "1", "2"] == list(game.agents)
    game.reset(seed=7)
    assert [([0.0], True, True, 0.0)] * 3 == _shown(game)
    game.step({"0": 1, "1": 2, "2": 3})
    assert [([1.0], False, False, 1.0), ([1.0], True, True, 11.0), ([1.0], True, True, 21.0)] == [
        (np.copy(o).tolist(), a, t, r) for o, a, t, r in _shown(game)
    ]
    game.step({"0": 1, "1": 2, "2": 3})
    assert [0.0, 12.0, 22.0] == [row[3] for row in _shown(game)]
    assert [{0: 1, 1: 2, 2: 3}, {1: 2, 2: 3}] == game.world.given
    assert not game.terminated


@pytest.mark.parametrize(("cut", "flags"), [(False, (True, False)), (True, (False, True))])
def test_a_parallel_game_ends_with_its_last_agent(fading, cut, flags) -> None:
    """It is truncated if one was cut off in its last step, however others had died before; else terminated."""
    game = game_of(fading(cut=cut))
    game.reset(seed=7)
    for step in range(3):
        assert (step, False, False) == (step, game.terminated, game.truncated)
        game.step({"0": 1, "1": 1, "2": 1})

    assert flags == (game.terminated, game.truncated)
    assert not any(seat.alive for seat in game.seats.values())


def test_who_comes_later_is_not_there_at_first(fading) -> None:
    """An agent that is not in the game at its beginning is not alive, and shows nothing, until it comes."""
    game = game_of(fading(late=True))
    game.reset(seed=7)
    assert (None, False) == (game.seats["2"].observation, game.seats["2"].alive)
    game.step({"0": 1, "1": 1})
    assert game.seats["2"].alive


def test_in_turns_rewards_add_up_until_the_next_turn(counting) -> None:
    """Whose turn it is, and what came of the moves since it moved, is what PettingZoo's own `last` tells."""
    game, twin = game_of(counting()), counting()
    assert isinstance(game, TurnGame)
    game.reset(seed=7)
    twin.reset()
    for _ in range(6):
        mover = game.mover
        _, reward, *_ = twin.last()
        assert (mover, reward) == (twin.agent_selection, game.seats[mover].reward)
        assert [mover] == [name for name, seat in game.seats.items() if seat.turn]
        game.step({mover: 0})
        twin.step(0)

    assert (11.0, 10.0) == (game.seats["a"].reward, game.seats["b"].reward)
    assert (True, False) == (game.terminated, game.truncated)
    assert [0, 0] == list(game.seats["a"].mask)  # nothing is legal for the dead


def test_the_dead_are_let_go_and_keep_what_they_earned(counting) -> None:
    """An agent that dies by another's move keeps observation and reward; the other one plays on alone."""
    game = game_of(counting(victim=True))
    game.reset(seed=7)
    shown = []
    while not game.terminated:
        game.step({game.mover: 0})
        shown.append((game.seats["b"].alive, game.seats["b"].observation, game.seats["b"].reward))

    assert [(True, 1, 1.0), (True, 2, 10.0), (False, 3, 11.0)] == shown[:3]
    assert [(False, 3, 11.0)] * 3 == shown[3:]


def test_a_cut_off_game_of_turns_is_truncated(counting) -> None:
    """Agents that PettingZoo truncates make the episode truncated."""
    game = game_of(counting(cut=True))
    game.reset(seed=7)
    for _ in range(6):
        game.step({game.mover: 0})

    assert (False, True) == (game.terminated, game.truncated)


def test_agents_must_be_known_beforehand(fading) -> None:
    """An environment that does not say who may come, or whose agents have equal names, is refused."""
    world = fading()
    world.possible_agents = [0, "0"]
    with pytest.raises(ValueError, match="equal names"):
        game_of(world)
    del world.possible_agents
    with pytest.raises(ValueError, match="no possible_agents"):
        game_of(world)
    with pytest.raises(ValueError, match="expected a ParallelEnv or AECEnv of PettingZoo, found int"):
        game_of(1)
