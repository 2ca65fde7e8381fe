"""Games of PettingZoo: where they come from, who is in turn, who is asked."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from pettingzoo import AECEnv, ParallelEnv

from ganglion.sdk import ActuatorInformation, Discrete
from ganglion_pettingzoo.controller import PettingZooController
from ganglion_pettingzoo.game import ParallelGame, TurnGame, game_of
from ganglion_pettingzoo.muscle import RandomLegalMuscle
from ganglion_pettingzoo.source import make


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


def test_parallel_where_there_is_that() -> None:
    """Without `api` an environment is parallel if it is registered so, else AEC; both spellings of ids count."""
    assert isinstance(make("classic/rps_v2", None, {"max_cycles": 3}), ParallelEnv)
    assert isinstance(make("classic/rps-v2", "aec", {"max_cycles": 3}), AECEnv)
    assert isinstance(make("classic/tictactoe_v3", None, {}), AECEnv)


def test_particle_environments_come_from_their_own_package() -> None:
    """`mpe/...` is the package mpe2."""
    pytest.importorskip("mpe2", reason="needs mpe2: pip install 'ganglion-pettingzoo[games]'")
    assert isinstance(make("mpe/simple_tag_v3", None, {"max_cycles": 3}), ParallelEnv)
    assert isinstance(make("mpe2/simple_tag_v3", "aec", {}), AECEnv)
    with pytest.raises(ValueError, match="the package mpe2 has no such environment"):
        make("mpe/simple_tug_v3", None, {})


@pytest.mark.parametrize(
    ("id", "api", "message"),
    [
        ("classic/noughts_v3", None, "PettingZoo has no environment of this id"),
        ("classic/tictactoe_v3", "parallel", "no environment of the api parallel"),
        ("classic/rps_v2", "serial", "expected parallel or aec, found 'serial'"),
        ("mpe/../os_v1", None, "expected mpe/NAME_vN"),
        ("antigravity:Thing", None, "package 'antigravity' is not allowed"),
        ("pettingzoo._x:Thing", None, "expected namespace/name_vN, or module:Class"),
    ],
)
def test_what_is_not_there_or_not_allowed_is_refused(id: str, api: str | None, message: str) -> None:  # noqa: A002
    """A message names the id, and nothing of a package that is not allowed is imported."""
    with pytest.raises(ValueError, match=message):
        make(id, api, {})


def test_a_class_of_an_allowed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a class of PettingZoo's two kinds is taken: functions, other classes and the wrong kind are refused."""
    monkeypatch.setenv("GANGLION_ALLOW", "numpy, pettingzoo")
    path = "pettingzoo.classic.tictactoe.tictactoe"
    assert isinstance(make(f"{path}:raw_env", None, {}), AECEnv)
    for refused, api in ((f"{path}:env", None), (f"{path}:raw_env", "parallel"), ("numpy:ndarray", "aec")):
        with pytest.raises(ValueError, match="expected a class of kind"):
            make(refused, api, {})


class _Bus:
    """Note what is asked for; three agents act in each step."""

    def __init__(self) -> None:
        self.asked = []

    async def act(self, agents):
        self.asked.append(("act", list(agents)))
        return {agent: [0] for agent in agents}

    async def update(self, setpoints, agents):
        self.asked.append(("update", list(setpoints), list(agents)))


def _controller(make, sensors, readings):
    controller = make(PettingZooController)
    controller.agents, controller.sensors, controller.readings = list(sensors), sensors, readings
    controller.bus = _Bus()
    return controller


def test_only_who_is_in_turn_is_asked(make) -> None:
    """In turns one agent acts, and its decision stays open for what comes of the others' moves."""
    sensors = {"x": ["g.a.observation", "g.a.turn"], "o": ["g.b.alive", "g.b.turn"]}
    controller = _controller(make, sensors, {"x": [7, 0], "o": [1, 1]})
    asyncio.run(controller.advance())

    assert [("act", ["o"]), ("update", ["o"], [])] == controller.bus.asked


def test_the_dead_are_not_asked(make) -> None:
    """In parallel all that are alive act, one that plays two if one of them is; each gets its rewards at once."""
    sensors = {"x": ["g.a.alive"], "y": ["g.b.alive"], "z": ["g.c.alive", "g.d.alive"]}
    controller = _controller(make, sensors, {"x": [1], "y": [0], "z": [0, 1]})
    asyncio.run(controller.advance())

    assert [("act", ["x", "z"]), ("update", ["x", "z"], ["x", "z"])] == controller.bus.asked


def test_an_agent_must_be_seen(make) -> None:
    """An agent of which nobody can tell whether it may act is an error that names the sensors."""
    controller = _controller(make, {"x": ["g.a.observation"]}, {"x": [1]})
    with pytest.raises(ValueError, match="agent x has neither a sensor `turn` nor `alive`"):
        asyncio.run(controller.advance())


ACTION = Discrete(4, start=3)


def _draw(muscle, mask=None):
    offered = ActuatorInformation(None, ACTION, "game.a.action")
    if mask is not None:
        offered.mask = np.array(mask, bool)
    [found] = muscle.propose_actions([], [offered])
    return found.value


def test_only_legal_actions_are_drawn_and_all_of_them(make) -> None:
    """Every legal action comes up, by the muscle's own stream, and no other; without a mask all are legal."""
    one, two = make(RandomLegalMuscle), make(RandomLegalMuscle)
    drawn = [_draw(one, [0, 1, 0, 1]) for _ in range(40)]

    assert {4, 6} == set(drawn)
    assert drawn == [_draw(two, [0, 1, 0, 1]) for _ in range(40)]
    assert {3, 4, 5, 6} == {_draw(one) for _ in range(60)}
