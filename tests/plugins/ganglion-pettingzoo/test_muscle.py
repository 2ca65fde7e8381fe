from __future__ import annotations

import numpy as np

from ganglion.sdk import ActuatorInformation, Discrete
from ganglion_pettingzoo.muscle import RandomLegalMuscle

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
