"""Transitions: completed decisions of many bodies, which a brain hears of in one message of each muscle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.peer.agent.brain import BrainHost
from ganglion.peer.step.layout import Layout
from ganglion.peer.values import serialize
from ganglion.sdk import Box, Brain, Discrete
from ganglion.sdk.seed import words
from ganglion.wire.messages import TERMINATED, TRUNCATED, BrainJoin, BrainSetup, Think, Thought, UpdateAsked

SENSORS = Layout(["s", "p"], [Discrete(10), Box(-1.0, 1.0, (2,))])
ACTUATORS = Layout(["a"], [Discrete(10)])
REWARDS = Layout(["r"], [Box(-9.0, 9.0, ())])
BODIES = [("ada", "lake", 0), ("ada", "lake", 1), ("ada", "moor", 0)]


def declared(layout: Layout) -> list[dict[str, Any]]:
    """Return declarations as they travel."""
    return [{"id": uid, "space": space.to_wire()} for uid, space in layout.pairs()]


class FakeBrain(Brain):
    """Write down what it hears of, and what its memory has then."""

    rows = 100

    def __init__(self) -> None:
        self.log: list[Any] = []

    def setup(self) -> None:
        self.memory.size_limit = self.rows

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        newest = self.memory.tail(1, include_only=muscle_id)
        told = [muscle_id, data_from_muscle, newest.body.tolist(), newest.decision_index.tolist(), len(self.memory)]
        self.log.append(told)
        return len(self.log)


class FakeLearner(FakeBrain):
    """The same in arrays."""

    batched = True

    def learn(self, batch: Any) -> Any:
        self.log.append(batch)
        return len(self.log)


class Forgetful(FakeLearner):
    """Keep no memory."""

    rows = 0


class Stage:
    """Stand a host of a brain of three bodies, two workers."""

    def __init__(self, hosted: Any, loader: Any, folder: Path, cls: Any, rewards: Layout = REWARDS) -> None:
        self.hosted = hosted(BrainHost(loader(brain=cls)))
        head = ("r", 0, "one", "train", "ada", {"name": "own", "params": {}})
        layouts = map(declared, (SENSORS, ACTUATORS, rewards))
        parts = (*layouts, ["ada/0", "ada/1"], 2, words(1, ["brain"]))
        bodies = [[where, b, True] for _, where, b in BODIES]
        self.hosted.ask("brain.setup", BrainSetup(*head, *parts, str(folder / "own"), bodies=bodies))
        self.brain = self.hosted.host._brain

    def send(self, message: Any, call: str = "brain.think") -> int:
        serial: int = self.hosted.ask(call, message, f"r/muscle/ada/{message.worker}")
        return serial

    def replied(self, serial: int, call: str = "brain.think") -> Thought:
        found: Thought = self.hosted.link.replied(serial, call)
        return found


@pytest.fixture
def make(hosted: Any, loader: Any, tmp_path: Path) -> Any:
    """Return a function that stands a host of a brain."""
    return lambda cls: Stage(hosted, loader, tmp_path, cls)


def told(worker: int, *entries: tuple[int, int, int, int], **fields: Any) -> Think:
    """Return a message of entries: row, flags, decision, reading."""
    rows, flags, decisions, readings = zip(*entries, strict=True)
    given: dict[str, Any] = {
        "readings": SENSORS.field([[it, [it / 10, 0.5]] for it in readings]),
        "applied": ACTUATORS.field([[9 - it] for it in readings]),
        "rewards": REWARDS.field([[it / 2] for it in readings]),
        "objective": [None if it == 7 else it / 4 for it in readings],
        "next_readings": SENSORS.field([[it + 1, [0.5, it / 10]] for it in readings]),
        "rows": np.array(rows, "<u2").tobytes(),
        "flags": bytes(flags),
        "decisions": np.array(decisions, "<i8").tobytes(),
        "episodes": np.array([row + 3 for row in rows], "<i8").tobytes(),
    }
    return Think(worker, 3, decisions[0], **(given | fields))


def test_rows_of_a_message_are_one_batch(make: Any) -> None:
    """A learner gets all of them as arrays, and finds them in its memory, each with its body."""
    stage = make(FakeLearner)
    thought = stage.replied(stage.send(told(1, (0, 0, 5, 1), (1, TERMINATED, 6, 2), (2, TRUNCATED, 7, 7))))

    (batch,) = stage.brain.log
    assert (1, True) == (thought.update, thought.fresh)
    assert [[1, 0.1, 0.5], [2, 0.2, 0.5], [7, 0.7, 0.5]] == batch.observations.tolist()
    assert [[2, 0.5, 0.1], [3, 0.5, 0.2], [8, 0.5, 0.7]] == batch.next_observations.tolist()
    assert ([[8], [7], [2]], [[0.5], [1.0], [3.5]]) == (batch.actions.tolist(), batch.rewards.tolist())
    np.testing.assert_array_equal([0.25, 0.5, np.nan], batch.objectives)
    assert ([False, True, False], [False, False, True]) == (batch.terminated.tolist(), batch.truncated.tolist())
    assert ([1.0, 0.0, 1.0], [5, 6, 7]) == (batch.bootstrap.tolist(), batch.step.tolist())
    assert (["ada/1"] * 3, BODIES, [3, 4, 5]) == (batch.muscle, batch.body, batch.episode.tolist())
    assert [None] * 3 == list(batch.data)
    rows = stage.brain.memory[:]
    assert (["ada/1"] * 3, [0, 1, 2]) == (rows.tag.tolist(), rows.body.tolist())
    assert [False, True, True] == rows.dones.tolist()
    for name in ("observations", "actions", "terminated", "truncated", "episode"):
        np.testing.assert_array_equal(getattr(batch, name), getattr(rows, name))
    np.testing.assert_array_equal(batch.objectives, rows.objective)
    np.testing.assert_array_equal(batch.next_observations, rows.next_readings.flat)
    np.testing.assert_array_equal(batch.actions, rows.applied_setpoints.flat)
    assert [0.5, 1.0, 3.5] == rows.rewards["r"].tolist()


def test_a_round_is_one_batch_in_the_order_of_workers(make: Any) -> None:
    """Whoever comes first: the rows of worker 0 stand before those of worker 1; who has none only asks."""
    stage = make(FakeLearner)
    late = stage.send(told(1, (2, 0, 4, 1), round=1, workers=[0, 1], data=["x"]))
    soon = stage.send(told(0, (0, 0, 5, 2), (1, 0, 6, 3), round=1, workers=[0, 1]))
    asks = stage.send(UpdateAsked(0, 2, [0, 1]), "brain.update")
    last = stage.send(told(1, (0, 0, 7, 4), round=2, workers=[0, 1]))

    first, second = stage.brain.log
    assert (["ada/0", "ada/0", "ada/1"], [BODIES[i] for i in (0, 1, 2)]) == (first.muscle, first.body)
    assert ([5, 6, 4], [None, None, "x"]) == (first.step.tolist(), list(first.data))
    assert (["ada/1"], [[4, 0.4, 0.5]]) == (second.muscle, second.observations.tolist())
    assert [1, 1, 2, 2] == [stage.replied(it).update for it in (late, soon)] + [
        stage.replied(asks, "brain.update").update,
        stage.replied(last).update,
    ]
    assert ["ada/0", "ada/0", "ada/1", "ada/1"] == stage.brain.memory[:].tag.tolist()


def test_thinking_hears_of_one_row_after_the_other(make: Any) -> None:
    """Each is the newest of its muscle in the memory then; in a round in the order of workers and rows."""
    stage = make(FakeBrain)
    stage.send(told(1, (2, 0, 4, 1), round=1, workers=[0, 1], data=["x"]))
    stage.send(told(0, (0, 0, 5, 2), (1, 0, 6, 3), round=1, workers=[0, 1], data=[{"n": 1}, None]))

    assert [
        ["ada/0", {"n": 1}, [0], [5], 1],
        ["ada/0", None, [1], [6], 2],
        ["ada/1", "x", [2], [4], 3],
    ] == stage.brain.log
    assert [{"n": 1}, None, "x"] == stage.brain.memory[:].additional_data.tolist()


def test_data_in_one_array_are_the_brains_own(make: Any) -> None:
    """They come as one array, and the memory's are others."""
    stage = make(FakeLearner)
    data = serialize(np.array([[1.0, 2.0], [3.0, 4.0]]), [], "data")
    stage.send(told(0, (0, 0, 4, 1), (1, 0, 4, 1), data=data))

    assert [[1.0, 2.0], [3.0, 4.0]] == np.asarray(stage.brain.log[0].data).tolist()
    assert [[1.0, 2.0], [3.0, 4.0]] == [it.tolist() for it in stage.brain.memory[:].additional_data]


def test_a_memory_of_size_0_stays_empty(make: Any) -> None:
    """A learner that keeps its rows itself pays for no others."""
    stage = make(Forgetful)
    stage.send(told(0, (0, 0, 4, 1)))

    assert (1, 0) == (len(stage.brain.log), len(stage.brain.memory))


def test_rewards_may_be_none(hosted: Any, loader: Any, tmp_path: Path) -> None:
    """Of environments without rewards a batch has rows all the same."""
    stage = Stage(hosted, loader, tmp_path, FakeLearner, rewards=Layout([], []))
    stage.send(told(0, (0, 0, 4, 1), (1, 0, 4, 1), rewards=[]))

    assert ((2, 0), (2, 0)) == (stage.brain.log[0].rewards.shape, stage.brain.memory[:].rewards.flat.shape)


def test_joining_needs_no_row(make: Any) -> None:
    """Who joins is told the initial update."""
    stage = make(FakeLearner)
    serial = stage.send(BrainJoin(0), "brain.join")

    assert stage.replied(serial, "brain.join").fresh


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"rows": None}, "expected rows, flags, decisions and episodes of 2 bodies"),
        ({"flags": None}, "expected rows, flags, decisions and episodes of 2 bodies"),
        ({"flags": b"\0"}, r"of 2 bodies, found \[4, 1, 16, 16\] bytes"),
        ({"decisions": bytes(8)}, r"of 2 bodies, found \[4, 2, 8, 16\] bytes"),
        ({"episodes": bytes(24)}, r"of 2 bodies, found \[4, 2, 16, 24\] bytes"),
        ({"objective": [1.0]}, r"of 1 bodies, found \[4, 2, 16, 16\] bytes"),
        ({"rows": np.array([0, 3], "<u2").tobytes()}, r"think\.rows: expected numbers below 3, found 3"),
        ({"rows": b"", "flags": b"", "decisions": b"", "episodes": b"", "objective": []}, "of some bodies"),
        ({"rows": bytes(3)}, "of 2 bodies"),
        ({"decisions": bytes(15)}, "of 2 bodies"),
        ({"readings": []}, r"think\.readings"),
        ({"readings": SENSORS.field([[1, [0.1, 0.5]]])}, r"think\.readings"),
        ({"next_readings": [b"x", b"y"]}, r"think\.next_readings"),
        ({"applied": ACTUATORS.field([[1]])}, r"think\.applied"),
        ({"rewards": REWARDS.field([[1.0]] * 3)}, r"think\.rewards"),
        ({"data": ["x"]}, r"think\.data: expected null or 2 values"),
        ({"data": 5}, r"think\.data: expected null or 2 values"),
    ],
)
def test_rows_that_do_not_fit_each_other_are_refused(make: Any, fields: dict[str, Any], match: str) -> None:
    """Nothing of a message whose parts are not of the same bodies reaches the brain or its memory."""
    stage = make(FakeLearner)
    with pytest.raises(RemoteProtocolError, match=match):
        stage.send(told(0, (0, 0, 4, 1), (1, 0, 4, 1), **fields))

    assert ([], 0) == (stage.brain.log, len(stage.brain.memory))
