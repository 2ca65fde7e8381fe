from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, DocumentError
from ganglion.sdk import Box, Brain, Discrete, Filter, SensorInformation
from ganglion.wire.messages import BrainPretrain

COUNT, LAMPS = Discrete(9), Box(-1.0, 1.0, (2,), np.float32)
SUM = Box(-1000.0, 1000.0, ())
Spooled = Callable[..., BrainPretrain]


def declared(uid: str, space: Any) -> dict[str, Any]:
    """Return a declaration as it travels."""
    return {"id": uid, "space": space.to_wire()}


class Summing(Filter):
    """Show the sum of the counts of this episode, and what the brain's half has published: how many rows it heard."""

    def setup(self) -> None:
        assert (self.muscle is None) != (self.brain is None)
        assert self.muscle is None or self.muscle.uid.startswith("a/")
        self.total, self.heard, self.known = 0, 0, 0

    def declare(self, sensors: Any, actuators: Any) -> Any:
        return [SensorInformation(None, SUM, "sum"), SensorInformation(None, SUM, "known")], actuators

    def reset(self) -> None:
        self.total = 0

    def muscle_pre_process(self, sensors: Any, actuators: Any) -> Any:
        self.total += int(sensors[0].value)
        values = {"sum": float(self.total), "known": float(self.known)}
        return [SensorInformation(value, SUM, uid) for uid, value in values.items()], actuators

    def muscle_post_process(self, setpoints: Any, data: Any) -> Any:
        return setpoints, {"data": data, "total": self.total}

    def brain_pre_process(self, muscle_id: str, data: Any) -> Any:
        self.heard += 1
        assert data["data"] is None
        return data["data"]

    def brain_objective(self, muscle_id: str, objective: float | None) -> float | None:
        return None if objective is None else 10.0 * objective

    def publish(self) -> Mapping[str, Any] | None:
        return {"heard": np.array(self.heard)} if self.heard % 2 == 0 else None

    def receive(self, arrays: Mapping[str, Any]) -> None:
        self.known = int(arrays["heard"])


class Hearing(Brain):
    """Note the rows that thinking is asked about."""

    def setup(self) -> None:
        self.rows: list[Any] = []

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        row = self.memory.tail(1)
        self.rows.append([row.sensor_readings["sum"][0], row.sensor_readings["known"][0], row.objective[0]])
        return {"n": len(self.rows)}


class Reading(Hearing):
    """Note the sessions."""

    def pretrain(self, sessions: Any) -> Any:
        self.rows = [s.observations.tolist() for _ in range(2) for s in sessions]


def test_muscles_begin_with_what_was_published(stage: Any, spooled: Spooled) -> None:
    """Arrays that the brain's half has published meanwhile go to who joins."""
    stage.setup(Hearing, Summing).pretrain(spooled())
    thought = stage.join()

    assert ["0"] == list(thought.filters or {})
    assert {"n": 9} == thought.update


def test_each_recorded_worker_has_halves_of_its_own(stage: Any, spooled: Spooled, recording: Any) -> None:
    """What the brain's half has published is known to a muscle's half that comes later, too."""
    source, episode = recording
    told = spooled((source(), [episode(0), episode(0, worker=1), episode(0)]))
    stage.setup(Reading, Summing).pretrain(told)

    assert [0, 2, 6] == [rows[0][1] for rows in stage.brain.rows[:3]]


class Shifting(Filter):
    """Move what an agent sets."""

    def muscle_post_process(self, setpoints: Any, data: Any) -> Any:
        setpoints[0].value = (int(setpoints[0].value) + 1) % 9
        return setpoints, data


class Narrowing(Filter):
    """Let an agent set less."""

    def declare(self, sensors: Any, actuators: Any) -> Any:
        actuators[0].space, actuators[0].value = Discrete(2), None
        return sensors, actuators


@pytest.mark.parametrize("moving", [Shifting, Narrowing])
def test_filters_that_change_setpoints_are_refused(stage: Any, spooled: Spooled, moving: type[Filter]) -> None:
    """Nobody knows what the agent would have proposed behind them."""
    with pytest.raises(DocumentError, match=r"filters of agent `a` change what it sets"):
        stage.setup(Reading, moving).pretrain(spooled())


class Blind(Filter):
    """Make a mistake when readings come."""

    def muscle_pre_process(self, sensors: Any, actuators: Any) -> Any:
        raise ValueError("too bright")


def test_an_excused_filter_ends_it_nevertheless(stage: Any, spooled: Spooled) -> None:
    """There is no last setpoint to go on with: an episode of which readings are missing is none."""
    with pytest.raises(AuthorError, match="too bright"):
        stage.setup(Reading, Blind, on_error="continue").pretrain(spooled())


def test_filters_need_whole_rows(stage: Any, spooled: Spooled, recording: Any) -> None:
    """A reading that was not recorded cannot go through them."""
    source, episode = recording
    sensors = [["w.s", COUNT.to_string()]]
    given = episode(0)
    less = type(given)(given.mode, 0, 0, 0, 1, given.observations[:, :1], given.steps)

    with pytest.raises(DocumentError, match=r"w.lamps was not recorded.*filters need whole rows"):
        stage.setup(Reading, Summing).pretrain(spooled((source(strict=False, sensors=sensors), [less])))
