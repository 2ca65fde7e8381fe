"""Targets: the golden table, and what a policy is shown of recorded sessions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion_replay import PoolMismatch, SessionPoolEnvironment, n_step_targets, replay_sessions, sessions

REWARDS, VALUES = [1.0, 2.0, 0.0, 4.0, 2.0], [16.0, 8.0, 24.0, 40.0, 12.0, 20.0]
END = [False, False, True, False, False]
GOLDEN = [
    (1, {}, [5, 14, 20, 10, 12]),
    (1, {"terminated": END}, [5, 14, 0, 10, 12]),
    (1, {"truncated": END}, [5, 14, 20, 10, 12]),
    (2, {}, [8, 12, 5, 10, 12]),
    (2, {"terminated": END}, [8, 2, 0, 10, 12]),
    (2, {"truncated": END}, [8, 12, 20, 10, 12]),
    (3, {}, [7, 4.5, 5, 10, 12]),
    (3, {"terminated": END}, [2, 2, 0, 10, 12]),
    (3, {"truncated": END}, [7, 12, 20, 10, 12]),
    (None, {}, [3.25, 4.5, 5, 10, 12]),
    (None, {"terminated": END}, [2, 2, 0, 10, 12]),
    (None, {"truncated": END}, [7, 12, 20, 10, 12]),
]


@pytest.mark.parametrize(("n", "flags", "targets"), GOLDEN)
def test_the_golden_targets(n: int | None, flags: Any, targets: list[float]) -> None:
    """The golden table of targets comes out, for one stream and for several side by side."""
    assert targets == n_step_targets(REWARDS, VALUES, gamma=0.5, n=n, **flags).tolist()
    both = n_step_targets([REWARDS] * 2, [VALUES] * 2, gamma=0.5, n=n, **{k: [v] * 2 for k, v in flags.items()})
    assert [targets] * 2 == both.tolist()


def test_targets_of_sessions_from_a_store(archive: Any) -> None:
    """Targets of what a store has of an episode that terminated: whatever is valued behind its end does not count."""
    archive.run("r")
    batch = SessionPoolEnvironment.of(sessions(archive.uri, "r")).select_session_batch([1])
    values = np.array([[16.0, 8.0, 24.0, 40.0]])
    found = n_step_targets(batch.rewards, values, gamma=0.5, n=2, terminated=batch.terminated)

    assert [[0.5, 1.0, 1.5]] == batch.rewards.tolist()
    assert [[0.5 + 0.5 + 6.0, 1.0 + 0.75, 1.5]] == found.tolist()


def by_definition(
    rewards: Any, values: Any, gamma: float, n: int | None, terminated: Any, truncated: Any
) -> list[float]:
    """Return targets by their definition, tick by tick."""
    found = []
    for t in range(len(rewards)):
        ends = [k for k in range(t, len(rewards)) if terminated[k] or truncated[k]]
        m = min([n or len(rewards), len(rewards) - t, *([ends[0] - t + 1] if ends else [])])
        total = sum(gamma**i * rewards[t + i] for i in range(m))
        reached = bool(ends) and ends[0] == t + m - 1
        found.append(total + (0.0 if reached and terminated[ends[0]] else gamma**m * values[t + m]))
    return found


@given(st.data(), st.integers(1, 8), st.one_of(st.none(), st.integers(1, 9)))
def test_targets_are_those_of_the_definition(data: Any, ticks: int, n: int | None) -> None:
    """Whatever ends where, a target is what its definition says."""
    numbers = st.integers(-8, 8).map(float)
    rewards = data.draw(st.lists(numbers, min_size=ticks, max_size=ticks))
    values = data.draw(st.lists(numbers, min_size=ticks + 1, max_size=ticks + 1))
    flags = data.draw(st.lists(st.sampled_from([(0, 0), (0, 0), (1, 0), (0, 1)]), min_size=ticks, max_size=ticks))
    terminated, truncated = (np.array([flag[i] for flag in flags], bool) for i in (0, 1))

    found = n_step_targets(rewards, values, gamma=0.5, n=n, terminated=terminated, truncated=truncated)

    assert by_definition(rewards, values, 0.5, n, terminated, truncated) == found.tolist()


def test_dead_ticks_have_no_target() -> None:
    """A tick that is not alive has 0, and the one before it the value of the closing observation."""
    found = n_step_targets(REWARDS, VALUES, gamma=0.5, n=3, is_alive=[True, True, False, False, False])

    assert [1 + 0.5 * 2 + 0.25 * 24, 2 + 0.5 * 24, 0, 0, 0] == found.tolist()


@pytest.mark.parametrize(("values", "n"), [(VALUES[:5], None), (VALUES, 0)])
def test_targets_that_cannot_be_are_refused(values: Any, n: int | None) -> None:
    """As many values as rewards, or no step at all, are refused."""
    with pytest.raises(ValueError, match="n_step_targets"):
        n_step_targets(REWARDS, values, gamma=0.5, n=n)


# -- a policy over recorded sessions ----------------------------------------------------------------------------------
def counting(asked: list[list[float]]) -> Any:
    """Return a policy that remembers the sum of what it has seen; it notes what it is shown."""

    def policy(observations: list[Any], memories: list[Any]) -> Any:
        asked.append(observations[0].tolist())
        after = memories[0] + observations[0]
        return [observations[0] + 1000], [after], {"double": 2 * observations[0]}

    return policy


def pool() -> SessionPoolEnvironment:
    """Return a pool of a session of two episodes, and a shorter one."""
    found = SessionPoolEnvironment()
    flags: Any = {"terminated": [[0, 1, 0, 0]], "is_first": [[1, 0, 0, 1]]}
    found.append_sessions([[1, 2, 3, 4, 5]], [[10, 20, 30, 40]], [[1, 2, 3, 4]], prev_memories=[100.0], **flags)
    found.append_sessions([[7, 8]], [[70]], [[7]])
    return found


def test_recorded_actions_are_forced_and_the_policy_shadows_them() -> None:
    """From observation i come extras i and shadow i; memory i is after it, begins as recorded, and at zero anew."""
    asked: list[list[float]] = []
    found = replay_sessions(pool().select_session_batch([0, 1]), counting(asked))

    assert [[1, 7], [2], [4]] == asked  # nobody is asked about ticks that are dead
    assert [[10, 20, 30, 40], [70, 0, 0, 0]] == found.actions[0].tolist()
    assert found.shadow_actions is not None
    assert [[1001, 1002, 0, 1004], [1007, 0, 0, 0]] == found.shadow_actions[0].tolist()
    assert [[101, 103, 0, 4], [7, 0, 0, 0]] == found.memories[0].tolist()
    assert [[2, 4, 0, 8], [14, 0, 0, 0]] == found.extras["double"].tolist()
    assert (1 + 2 + 4 + 7) / 4 == found.mean(found.rewards)


def test_own_actions_and_rewards_of_an_objective() -> None:
    """Without force the policy's own actions count, and an objective gives the rewards anew."""
    found = replay_sessions(
        pool().select_session_batch([0]),
        counting([]),
        force_actions=False,
        objective=lambda seen, acted, following, rewards: acted[0] - 1000 + 10 * (following[0] - seen[0]) + 0 * rewards,
    )

    assert [[1001, 1002, 0, 1004]] == found.actions[0].tolist()
    assert (None, [[11, 12, 3, 14]]) == (found.shadow_actions, found.rewards.tolist())


def test_a_policy_answers_for_each_session() -> None:
    """A policy that returns fewer rows than it was shown is refused by the tick."""
    with pytest.raises(PoolMismatch, match=r"policy: tick 0: actions: expected 2 rows, found an array of shape \(1,\)"):
        replay_sessions(pool().select_session_batch([0, 1]), lambda seen, memories: (seen[0][:1], memories, None))
