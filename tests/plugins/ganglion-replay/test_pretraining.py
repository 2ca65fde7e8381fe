"""Brains that learn from recorded episodes, through filters and without."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, DocumentError, StoreError
from ganglion.peer.author import failure_of
from ganglion.sdk import Box, Brain, Discrete, Filter, SensorInformation
from ganglion.sdk.models import Models
from ganglion.wire.messages import BrainPretrain, BrainPretrained
from ganglion_replay import pretraining as module

COUNT, LAMPS = Discrete(9), Box(-1.0, 1.0, (2,), np.float32)
Spooled = Callable[..., BrainPretrain]


class Thinker(Brain):
    """Write down each row that it thinks about; send how many there were."""

    def setup(self) -> None:
        self.heard: list[Any] = []

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        tail = self.memory.tail(1)
        if data_from_muscle is None and not len(tail):
            self.heard.append("asked")
            return None
        values = [float(tail.sensor_readings["w.s"][0]), tail.next_readings["w.s"][0]]
        values += [tail.actuator_setpoints["w.a"][0], tail.rewards["w.r"][0]]
        flags = [bool(tail.dones[0]), bool(tail.terminated[0]), int(tail.decision_index[0])]
        self.heard.append([muscle_id, data_from_muscle, [float(v) for v in values], *flags])
        return {"n": len(self.heard)}


class Own(Thinker):
    """Learn by itself."""

    answer: Any = None

    def pretrain(self, sessions: Any) -> Any:
        self.heard += [(session.episode, len(session)) for _ in range(2) for session in sessions]
        return self.answer

    def initial_update(self, muscle_id: str) -> Any:
        return self.last_update or {"first": len(self.heard)}


class Broken(Own):
    """Make a mistake."""

    def pretrain(self, sessions: Any) -> Any:
        return 1 / len(sessions[5])


def test_thinking_hears_of_every_decision(stage: Any, spooled: Spooled, recording: Any) -> None:
    """In recorded order, its row in memory, without data, for the muscle of that number, counted round."""
    source, episode = recording
    told = spooled((source(), [episode(0), episode(1, steps=1), episode(2, steps=1, worker=3)]))
    found = stage.setup(Thinker).pretrain(told)

    assert BrainPretrained(3, 5) == found
    assert [
        ["a/0", None, [0, 1, 0, 0], False, False, 0],
        ["a/0", None, [1, 2, 1, 0.5], False, False, 1],
        ["a/0", None, [2, 3, 2, 1], True, True, 2],
        ["a/0", None, [1, 2, 1, 1], True, True, 0],
        ["a/1", None, [2, 3, 2, 2], True, True, 0],
    ] == stage.brain.heard
    assert (5, ["a/0", "a/1"]) == (len(stage.brain.memory), list(stage.brain.memory.tags))


def test_a_loaded_policy_does_not_outlive_pretraining(stage: Any, spooled: Spooled, tmp_path: Path) -> None:
    """What was loaded is of before: the brain is asked for its initial update anew."""
    models = Models(tmp_path / "old")
    models.save({})
    models.save_value({"old": 1}, "policy")

    stage.setup(Own, load=str(tmp_path / "old")).pretrain(spooled())
    assert {"first": 6} == stage.join().update
    stage.setup(Own, load=str(tmp_path / "old"))
    assert {"old": 1} == stage.join().update


def test_an_exception_is_named_with_its_hook(stage: Any, spooled: Spooled) -> None:
    """The author's line is in the traceback, the hook in what is told."""
    with pytest.raises(AuthorError) as caught:
        stage.setup(Broken, on_error="continue").pretrain(spooled())
    failure = failure_of(caught.value)
    assert ("IndexError: range object index out of range", "brain a, class Broken, hook pretrain") == (
        failure.message,
        failure.where,
    )
    assert "return 1 / len(sessions[5])" in (failure.traceback or "")


def test_thinking_may_be_excused(stage: Any, spooled: Spooled, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `on_error: continue` each exception is told, of many only some and their number."""

    class Moody(Thinker):
        def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
            super().thinking(muscle_id, data_from_muscle)
            if len(self.heard) % 2:
                raise KeyError(len(self.heard))
            return {"n": len(self.heard)}

    monkeypatch.setattr(module, "REPLAY_TOLERATED_ERRORS", 2)
    found = stage.setup(Moody, on_error="continue").pretrain(spooled())

    reasons = ["KeyError: 1", "KeyError: 3", "and 3 more in pre-training"]
    assert reasons == [excuse["reason"] for excuse in found.excused or ()]
    thought = stage.join()
    assert ({"n": 8}, None) == (thought.update, thought.excused)
    with pytest.raises(AuthorError, match="KeyError: 1"):
        stage.setup(Moody).pretrain(spooled())


def test_thinking_needs_whole_rows(stage: Any, spooled: Spooled, recording: Any) -> None:
    """A reading that was not recorded cannot be thought about; a brain's own `pretrain` may do without."""
    source, episode = recording
    told = spooled((source(strict=False), [episode(0)]))
    sensors = {"w.s": COUNT, "w.more": COUNT}

    with pytest.raises(DocumentError, match=r"w.more was not recorded.* Thinker has no `pretrain`"):
        stage.setup(Thinker, sensors=sensors).pretrain(told)
    assert 1 == stage.setup(Own, sensors=sensors).pretrain(told).sessions


def test_a_damaged_file_cannot_be_passed_over(stage: Any, spooled: Spooled) -> None:
    """Whoever catches what reading raises has learned from less than all: the run does not go on."""

    class Careless(Own):
        def pretrain(self, sessions: Any) -> Any:
            try:
                return super().pretrain(sessions)
            except StoreError:
                return {"w": 0}

    told = spooled()
    (Path(told.folder) / "00000.npz").unlink()
    with pytest.raises(StoreError, match="is gone"):
        stage.setup(Careless).pretrain(told)
    shutil.rmtree(told.folder)
    with pytest.raises(StoreError, match="there is no index"):
        stage.setup(Careless).pretrain(told)


SUM = Box(-1000.0, 1000.0, ())


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
