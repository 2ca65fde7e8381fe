from __future__ import annotations

from typing import Any

import numpy as np

from ganglion_learners.recording import Recording


def _recording(halves: Any, sessions: Any) -> Recording:
    return Recording(sessions, "own", halves.sensors, halves.actuators, lambda actions: None)


def test_gives_episode_by_episode_what_can_be_learned_from(halves: Any) -> None:
    """Decisions are those of the sessions, in order; what nobody knows the outcome of is left out, whole or in part."""
    sessions = [
        halves.session(4, seed=1),
        halves.session(1, seed=2, final=False),
        halves.session(3, seed=3, final=False),
    ]
    found = list(_recording(halves, sessions))

    assert [4, 2] == [len(batch) for batch in found]
    np.testing.assert_array_equal(found[0].next_observations, sessions[0].observations[1:])
    np.testing.assert_array_equal(found[1].next_observations, sessions[2].observations[1:])
    assert not found[1].truncated.any()
