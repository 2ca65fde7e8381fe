from __future__ import annotations

import numpy as np

from ganglion.sdk import ActuatorInformation, Discrete, MultiBinary, SensorInformation
from ganglion_pettingzoo.muscle import RandomLegalMuscle

ACTION = Discrete(4, start=3)


def _draw(muscle, uid, mask=None):
    space = MultiBinary(4)
    sensors = [] if mask is None else [SensorInformation(np.array(mask, np.int8), space, "game.a.action_mask")]
    [found] = muscle.propose_actions(sensors, [ActuatorInformation(None, ACTION, uid)])
    return found.value


def test_only_legal_actions_are_drawn_and_all_of_them(make) -> None:
    """Every legal action comes up, by the muscle's own stream, and no other."""
    one, two = make(RandomLegalMuscle), make(RandomLegalMuscle)
    drawn = [_draw(one, "game.a.action", [0, 1, 0, 1]) for _ in range(40)]

    assert {4, 6} == set(drawn)
    assert drawn == [_draw(two, "game.a.action", [0, 1, 0, 1]) for _ in range(40)]


def test_without_a_mask_all_are_drawn(make) -> None:
    """Another agent's mask, none, or one that allows nothing, lets all actions be drawn."""
    muscle = make(RandomLegalMuscle)
    for uid, mask in (("game.b.action", [1, 0, 0, 0]), ("game.a.action", None), ("game.a.action", [0] * 4)):
        assert {3, 4, 5, 6} == {_draw(muscle, uid, mask) for _ in range(60)}
