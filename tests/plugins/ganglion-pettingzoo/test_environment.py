from __future__ import annotations

import warnings

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Body, Mask, ResetRequest
from ganglion_pettingzoo.environment import PettingZooEnvironment
from ganglion_pettingzoo.source import make as make_theirs

LARGE = 2**62 + 11  # a seed as runs have them


def _values(informations):
    return {it.uid: it.value for it in informations}


def _given(baseline, actions):
    spaces = {it.uid: it.space for it in baseline.actuators_available}
    return [ActuatorInformation(actions[name], spaces[f"{name}.action"], f"{name}.action") for name in actions]


def _equal(theirs, ours, name):
    """Compare an observation of theirs, with its mask, to our readings."""
    if isinstance(theirs, dict) and "action_mask" in theirs:
        np.testing.assert_array_equal(theirs["action_mask"], ours[f"{name}.action_mask"])
        theirs = theirs["observation"]
    np.testing.assert_array_equal(theirs, ours[f"{name}.observation"])


PARALLEL = [
    ("classic/rps_v2", {"max_cycles": 6}),
    ("mpe/simple_tag_v3", {"max_cycles": 6}),
    ("mpe/simple_spread_v3", {"max_cycles": 6, "continuous_actions": True}),
    ("butterfly/knights_archers_zombies_v11", {"max_cycles": 60}),
]


@pytest.mark.parametrize(("id", "params"), PARALLEL, ids=[it[0] for it in PARALLEL])
def test_a_parallel_environment_is_what_it_is_bare(make, id, params) -> None:  # noqa: A002
    """Equal seeds and actions give the readings, rewards and flags of the bare environment, over two episodes."""
    needed = {"mpe": ["mpe2"], "butterfly": ["pymunk"]}.get(id.partition("/")[0], [])
    for module in needed:
        pytest.importorskip(module, reason="needs more games: pip install 'ganglion-pettingzoo[games]'")
    environment = make(PettingZooEnvironment, seed=LARGE, id=id, env_params=params)
    twin, rng = make_theirs(id, "parallel", params), np.random.default_rng(1)
    baseline = environment.start_environment()
    for episode, seed in enumerate((LARGE, 5)):
        if episode:
            baseline = environment.reset(ResetRequest(episode, seed))
        observations, _ = twin.reset(seed=seed)
        ours = _values(baseline.sensors_available)
        spaces = {it.uid: it.space for it in baseline.actuators_available}
        steps = 0
        while twin.agents:
            for name in twin.agents:
                _equal(observations[name], ours, name)
                assert 1 == ours[f"{name}.alive"]
            actions = {name: spaces[f"{name}.action"].sample(rng) for name in twin.possible_agents}
            acting = list(twin.agents)
            observations, rewards, terminations, truncations, _ = twin.step(
                {name: np.asarray(actions[name]) if np.ndim(actions[name]) else actions[name] for name in acting}
            )
            state = environment.update(_given(baseline, actions))
            ours, earned = _values(state.sensor_information), _values(state.rewards)
            steps += 1
            for name in twin.possible_agents:
                assert rewards.get(name, 0.0) == earned[f"{name}.reward"]
                assert int(name in twin.agents) == ours[f"{name}.alive"]
            assert bool(twin.agents) is not state.done
            assert steps == state.simtime.simtime_ticks
        cut = any(truncations[name] and not terminations[name] for name in acting)
        assert (not cut, cut) == (state.terminated, state.truncated)
    twin.close()
    environment.shutdown()


SEQUENTIAL = [
    ("classic/tictactoe_v3", {}, True),
    ("classic/tictactoe_v3", {}, False),
    ("classic/connect_four_v3", {}, True),
    ("classic/rps_v2", {"max_cycles": 4}, True),
    ("mpe/simple_tag_v3", {"max_cycles": 3}, True),
]


@pytest.mark.parametrize(("id", "params", "legal"), SEQUENTIAL)
def test_an_environment_of_turns_is_what_it_is_bare(make, id, params, legal) -> None:  # noqa: A002
    """Equal seeds and actions give what `last` tells each agent at its turns, with illegal moves, over two episodes."""
    if id.startswith("mpe/"):
        pytest.importorskip("mpe2", reason="needs mpe2: pip install 'ganglion-pettingzoo[games]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PettingZoo warns of illegal moves
        environment = make(PettingZooEnvironment, seed=LARGE, id=id, api="aec", env_params=params)
        twin, rng = make_theirs(id, "aec", params), np.random.default_rng(2)
        baseline = environment.start_environment()
        for episode, seed in enumerate((LARGE, 5)):
            if episode:
                baseline = environment.reset(ResetRequest(episode, seed))
            twin.reset(seed=seed)
            ours, earned = _values(baseline.sensors_available), _values(baseline.rewards_available)
            spaces = {it.uid: it.space for it in baseline.actuators_available}
            for name in twin.agent_iter():
                observation, reward, terminated, truncated, _ = twin.last()
                _equal(observation, {**ours, **_masked(observation, ours, name, terminated or truncated)}, name)
                assert reward == earned[f"{name}.reward"]
                if terminated or truncated:
                    assert (0, 0) == (ours[f"{name}.alive"], ours[f"{name}.turn"])
                    twin.step(None)
                    continue
                assert (1, 1) == (ours[f"{name}.alive"], ours[f"{name}.turn"])
                mask = ours.get(f"{name}.action_mask") if legal else None
                action = spaces[f"{name}.action"].sample(rng) if mask is None else int(rng.choice(np.flatnonzero(mask)))
                twin.step(action)
                state = environment.update(_given(baseline, {name: action}))
                ours, earned = _values(state.sensor_information), _values(state.rewards)
            assert state.done
    environment.shutdown()


def _masked(observation, ours, name, dead):
    """Return what replaces our readings in the comparison: the dead are not asked, and have no mask of PettingZoo's."""
    if dead and isinstance(observation, dict):
        assert ours[f"{name}.action_mask"].all()
        return {f"{name}.action_mask": observation["action_mask"]}
    return {}


def test_what_is_declared(make) -> None:
    """Sensors, actuators and rewards are named by agent; a mask is a sensor of its own."""
    environment = make(PettingZooEnvironment, id="classic/connect_four_v3")
    baseline = environment.start_environment()
    found = {it.uid: it.space for it in baseline.sensors_available}

    assert [f"player_{i}.{what}" for i in (0, 1) for what in ("observation", "action_mask", "alive", "turn")] == list(
        found
    )
    assert Mask(7, of="player_0.action") == found["player_0.action_mask"]
    assert ["player_0.action", "player_1.action"] == [it.uid for it in baseline.actuators_available]
    assert ["player_0.reward", "player_1.reward"] == [it.uid for it in baseline.rewards_available]


def test_masks_may_come_with_infos(make, monkeypatch, counting) -> None:
    """An environment that tells masks beside its observations has the sensor too; who is not asked may do anything."""
    monkeypatch.setattr("ganglion_pettingzoo.source.make", lambda *given: counting(victim=True))
    environment = make(PettingZooEnvironment, id="its own")
    baseline = environment.start_environment()
    assert [1, 0] == _values(baseline.sensors_available)["a.action_mask"].tolist()
    for name in ("a", "b", "a"):
        state = environment.update(_given(baseline, {name: 0}))
    assert [1, 1] == _values(state.sensor_information)["b.action_mask"].tolist()


def test_who_is_in_turn_must_act(make) -> None:
    """A controller that asks somebody else is told whose turn it is, and of the one that knows."""
    environment = make(PettingZooEnvironment, id="classic/tictactoe_v3")
    baseline = environment.start_environment()
    with pytest.raises(ValueError, match=r"the turn of player_1, and there are setpoints of player_2\.action"):
        environment.update(_given(baseline, {"player_2": 0}))


BODIES = [Body("ada", 0, 0), Body("ada", 0, 1), Body("bob", 1, 0)]


@pytest.mark.parametrize("params", [{}, {"cut": True}, {"late": True}])
def test_bodies_play_agents_and_end_as_they_do(make, monkeypatch, fading, params) -> None:
    """Each body has what its agent sees and earns, under equal ids, until that dies or is cut off."""
    monkeypatch.setattr("ganglion_pettingzoo.source.make", lambda *given: fading(**params))
    environment = make(PettingZooEnvironment, id="its own")
    environment.bodies = BODIES
    keys = [(it.agent, it.b) for it in BODIES]
    for episode in (0, 1):
        first = environment.reset(ResetRequest(episode, 5)) if episode else environment.start_environment()
        assert [("observation", it) for it in keys] == [
            (it.uid, it.body) for it in first.sensors_available if it.uid != "alive"
        ]
        there = list(keys)
        for step in (1, 2, 3):
            given = [
                ActuatorInformation(1 + i, first.actuators_available[0].space, "action", body=it)
                for i, it in enumerate(keys)
                if it in there
            ]
            environment.rows = np.array([keys.index(it) for it in there])
            state = environment.update(given)
            joined = [agent for agent in (0, 1, 2)[step - 1 :] if agent < 2 or "late" not in params or step > 1]
            assert {agent: 1 + agent for agent in joined} == environment.game.world.given[-1]
            assert [("reward", it) for it in there] == [(it.uid, it.body) for it in state.rewards]
            assert 10.0 * (step - 1) + step == state.rewards[0].value
            ended, cut = {keys[step - 1]: True}, step == 3 and "cut" in params
            assert ({}, ended) == ((state.terminated, state.truncated) if cut else (state.truncated, state.terminated))
            there.remove(keys[step - 1])


@pytest.mark.parametrize(
    ("id", "count", "text"),
    [
        ("classic/tictactoe_v3", 2, "bodies play parallel environments, and classic/tictactoe_v3 is played in turns"),
        ("classic/rps_v2", 3, "expected 2 bodies, for player_0, player_1; found 3"),
    ],
)
def test_what_bodies_cannot_play_is_refused(make, id, count, text) -> None:  # noqa: A002
    """Environments in turns, and another number of bodies than of agents."""
    environment = make(PettingZooEnvironment, id=id)
    environment.bodies = BODIES[:count]
    with pytest.raises(ValueError, match=text):
        environment.start_environment()
