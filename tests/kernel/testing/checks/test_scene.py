from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ganglion.sdk import Box, Brain, RewardInformation, SensorInformation
from ganglion.testing import StagedAgent
from ganglion.testing.checks.scene import ACTUATORS, Chance, Sum, digests, play_episodes, update_of

SENSORS = [SensorInformation(None, Box(-1.0, 1.0, ()), "world.level")]
REWARDS = [RewardInformation(None, Box(0.5, 1.0, ()), "world.reward")]


class Counts(Brain):
    """Count its rows."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        return {"rows": len(self.memory)}

    def arrays(self) -> Any:
        return {"rows": np.array(len(self.memory))}


def agent(models: Path) -> StagedAgent:
    """Return an agent that acts by chance."""
    return StagedAgent(
        Chance, sensors=SENSORS, actuators=ACTUATORS, rewards=REWARDS, objective=Sum, brain=Counts, models=models
    )


def test_episodes_have_their_steps_and_a_gap(tmp_path: Path) -> None:
    """Each episode has an answer more than steps; one step has no reward; in the middle somebody is called."""
    played, called = agent(tmp_path), list[int]()
    plain = play_episodes(agent(tmp_path / "plain"), SENSORS, REWARDS, 1, 3, 4, unrewarded=2)
    between = lambda: called.append(1)  # noqa: E731
    trace = play_episodes(played, SENSORS, REWARDS, 1, 3, 4, 2, between, lambda: update_of(played))
    rows = played.memory.tail(100)

    assert (15, 12, 3) == (len(trace), len(rows), len(called))
    assert all(more.startswith(answer) and more > answer for more, answer in zip(trace, plain, strict=True))
    assert trace[-1].endswith(update_of(played))
    assert [False, True, False, False] * 3 == np.isnan(rows.rewards.flat[:, 0].astype(float)).tolist()
    assert [0.0] == rows.objective[1:2].tolist()
    assert [False, False, False, True] * 3 == rows.dones.tolist()
    assert [True, False, True] == rows.terminated[3::4].tolist()


def test_digests_are_those_of_the_files(tmp_path: Path) -> None:
    """The model and the last update each have a digest, and equal ones where they are equal."""
    found = []
    for name in ("one", "two"):
        played = agent(tmp_path / name)
        play_episodes(played, SENSORS, REWARDS, 1, 1, 2)
        found.append(digests(played))

    assert found[0] == found[1]
    assert {"", "policy"} == set(found[0])
    assert {64} == {len(digest) for digest in found[0].values()}
