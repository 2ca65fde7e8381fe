from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, OutOfObservationSpaceError, RemoteProtocolError
from ganglion.peer.agent.brain import BrainHost
from ganglion.peer.agent.filters import tag_of
from ganglion.peer.agent.muscle import MuscleHost
from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Brain,
    CheckpointableBrain,
    Discrete,
    Filter,
    Muscle,
    Objective,
    SensorInformation,
    Update,
)
from ganglion.sdk.models import Models
from ganglion.sdk.seed import words
from ganglion.wire.messages import Act, Acted, BrainJoin, BrainSetup, BrainStore, MuscleSetup, Think, Thought

TEN, HUNDRED = Discrete(10), Discrete(100)
WIDE = Box(-100.0, 100.0, ())
PLUGIN = {"name": "own", "params": {}}


def declared(uid: str, space: Any, value: Any = None) -> dict[str, Any]:
    """Return a declaration as it travels."""
    return {"id": uid, "space": space.to_wire()} | ({} if value is None else {"value": value})


class Shift(Filter):
    """Add a number to what the agent sees, and take it off what it sets; the brain publishes the next number."""

    def __init__(self, by: float = 1.0, publishes: bool = False) -> None:
        self.by, self.publishes = by, publishes
        self.seen: list[float] = []
        self.said: list[Any] = []

    def setup(self) -> None:
        self.said.append("muscle" if self.brain is None else "brain")

    def declare(self, sensors: Any, actuators: Any) -> Any:
        self.said.append("declare")
        return (
            [SensorInformation(None, WIDE, it.uid) for it in sensors],
            [ActuatorInformation(0.0, WIDE, it.uid) for it in actuators],
        )

    def muscle_pre_process(self, sensors: Any, actuators: Any) -> Any:
        self.seen = [*self.seen, sensors[0].value]
        return [SensorInformation(it.value + self.by, WIDE, it.uid) for it in sensors], actuators

    def muscle_post_process(self, setpoints: Any, data: Any) -> Any:
        outer = self.outer(setpoints[0].uid)
        found = [ActuatorInformation(outer.clip(it.value - self.by), outer, it.uid) for it in setpoints]
        return found, {"data": data, "by": self.by}

    def outer(self, uid: str) -> Any:
        return TEN if self.by == 1.0 else WIDE

    def reset(self) -> None:
        self.seen = []

    def brain_pre_process(self, muscle_id: str, data: Any) -> Any:
        self.said.append((muscle_id, data["by"]))
        return data["data"]

    def brain_objective(self, muscle_id: str, objective: float | None) -> float | None:
        return None if objective is None else objective * 2.0

    def brain_post_process(self, update: Any) -> Any:
        return [*update, self.by]

    def publish(self) -> Any:
        if not self.publishes:
            return None
        self.by += 1.0
        return {"by": np.array(self.by)}

    def receive(self, arrays: Any) -> None:
        self.by = float(arrays["by"])


class Kept(Shift):
    """Be a filter whose brain's half can go on from a checkpoint."""

    def save_state(self) -> Any:
        return {"by": np.array(self.by)}

    def load_state(self, state: Any) -> None:
        self.by = float(state["by"])


class Refusing(Shift):
    """Note each reading, raise at a 2; what is published for it is none of its business."""

    def muscle_pre_process(self, sensors: Any, actuators: Any) -> Any:
        found = super().muscle_pre_process(sensors, actuators)
        if sensors[0].value == 2:
            raise ValueError("two")
        return found


class Adds(Filter):
    """Apply the sum of all setpoints of an episode."""

    total = 0.0

    def muscle_post_process(self, setpoints: Any, data: Any) -> Any:
        self.total += setpoints[0].value
        return [ActuatorInformation(self.total, WIDE, it.uid) for it in setpoints], data


class Bounds(Filter):
    """Declare an actuator without bounds, and raise where one would be passed."""

    def declare(self, sensors: Any, actuators: Any) -> Any:
        return sensors, [ActuatorInformation(0.0, WIDE, it.uid) for it in actuators]

    def muscle_post_process(self, setpoints: Any, data: Any) -> Any:
        if setpoints[0].value > 9:
            raise ValueError("too far")
        return [ActuatorInformation(int(it.value), TEN, it.uid) for it in setpoints], data


class Deaf(Shift):
    """Publish, and take nothing."""

    receive = Filter.receive


class FakeMuscle(Muscle):
    """Set what it is told to, and note what it sees."""

    def __init__(self, **_: Any) -> None:
        self.log: list[Any] = []

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        self.log.append([it.value for it in sensors])
        assert [it.space for it in self.actuators] == [it.space for it in actuators_available]
        for it in actuators_available:
            it.value = sensors[0].value
        return actuators_available, {"saw": sensors[0].value}


class ArrayMuscle(FakeMuscle):
    """Do the same with arrays."""

    batched = True

    def propose_batch(self, batch: Any) -> Any:
        self.log.append(batch.observations[0].tolist())
        return batch.observations[:, :1], [{"saw": batch.observations[0, 0].item()}]


class FakeSum(Objective):
    """Return the reward, and note the row."""

    def internal_reward(self, memory: Any, **kwargs: Any) -> Any:
        shard = memory.tail(1)
        self.row = (shard.sensor_readings.values[0].tolist(), shard.actuator_setpoints.values[0].tolist())
        return float(shard.rewards.values[0][0])


def plugin(**params: Any) -> dict[str, Any]:
    """Return a filter as a set-up names it."""
    own = {name: params.pop(name) for name in ("on_error",) if name in params}
    return {"name": params.pop("name", "shift"), "params": params, "stream": words(1, ["filter"]), **own}


class MuscleStage:
    """Stand a muscle behind filters; the brain answers by a script."""

    def __init__(self, hosted: Any, loader: Any, cls: type[Any] = FakeMuscle) -> None:
        classes = {"muscle": cls, "objective": FakeSum, "filter__shift": Shift}
        classes |= {"filter__refusing": Refusing, "filter__deaf": Deaf, "filter__adds": Adds, "filter__bounds": Bounds}
        self.hosted = hosted(MuscleHost(loader(**classes)))
        self.thoughts: list[Thought] = []
        think = lambda peer, message: self.thoughts.pop(0) if self.thoughts else Thought()  # noqa: E731
        calls = ("brain.join", "brain.think", "brain.update", "brain.policy")
        self.hosted.link.answers |= dict.fromkeys(calls, think)

    def setup(self, filters: list[Any], brain: str | None = "r/brain/a", **fields: Any) -> None:
        sensors, actuators = [declared("w.s", HUNDRED)], [declared("w.a", TEN, 3)]
        rewards, streams = [declared("w.r", TEN)], (words(1, ["m"]), words(1, ["o"]))
        mode = "test" if brain is None else "train"
        start = ("r", 0, "one", mode, 0, "a", PLUGIN, PLUGIN, sensors, actuators, rewards, *streams)
        self.hosted.ask("muscle.setup", MuscleSetup(*start, brain=brain, filters=filters, **fields))

    def act(self, reading: int, reward: int | None = None, **fields: Any) -> Acted:
        rows = None if reward is None else [[reward]]
        found: Acted = self.hosted.ask("muscle.act", Act([[reading]], rows, **fields))
        return found

    @property
    def filters(self) -> Any:
        return self.hosted.host._filters.filters

    @property
    def muscle(self) -> Any:
        return self.hosted.host._muscle


@pytest.fixture(params=[FakeMuscle, ArrayMuscle])
def stage(hosted: Any, loader: Any, request: Any) -> MuscleStage:
    """Return the stage, with a muscle of either form."""
    return MuscleStage(hosted, loader, request.param)


# -- the muscle's half ------------------------------------------------------------------------------------------------


def test_an_excused_filter_is_not_asked_about_the_same_readings_again(stage: MuscleStage) -> None:
    """The decision that follows is made as before, and other filters see each reading once."""
    stage.setup([plugin(by=0.0), plugin(name="refusing", by=0.0, on_error="continue")])
    acted = [stage.act(1), stage.act(2, 0), stage.act(3, 0)]

    assert [[1], [1], [3]] == [list(struct.unpack("<q", *row.setpoints)) for row in acted]
    assert [1, 2, 3] == stage.filters[0].seen == stage.filters[1].seen
    assert [None, 1, None] == [row.excused and len(row.excused) for row in acted]
    assert [[1.0], [3.0]] == stage.muscle.log


def test_no_filter_has_seen_setpoints_that_were_not_applied(stage: MuscleStage) -> None:
    """Where one is excused on the way back, those behind it stand where they stood: the sum is that of the applied."""
    stage.setup([plugin(name="bounds", on_error="continue"), plugin(name="adds")])
    acted = [stage.act(4), stage.act(7, 0), stage.act(3, 0)]

    assert [[4], [4], [7]] == [list(struct.unpack("<q", *row.setpoints)) for row in acted]
    assert 7.0 == stage.filters[1].total
    assert [None, 1, None] == [row.excused and len(row.excused) for row in acted]


def test_an_episode_begins_with_the_newest_arrays(stage: MuscleStage) -> None:
    """They come with the answer to the question for news, too."""
    stage.setup([plugin()])
    arrays = {"by": {"dtype": "<f8", "shape": [], "data": np.array(1.0).tobytes()}}
    stage.thoughts = [Thought(filters={"0": arrays})]
    stage.act(4)
    assert [[5.0]] == stage.muscle.log

    stage.thoughts = [Thought(filters={"7": arrays})]
    with pytest.raises(RemoteProtocolError, match="there is no filter 7"):
        stage.act(4, 0)


def test_arrays_of_a_filter_that_stands_elsewhere_are_refused(stage: MuscleStage, tmp_path: Path) -> None:
    """Where they lie there is a filter that takes none; one that takes them judges them itself, as its own do."""
    whose = {"class": "elsewhere:Norm"}
    Models(tmp_path).save({"by": np.array(40.0)}, tag_of(0), whose)
    with pytest.raises(AuthorError, match=r"filter 0 of agent a .*the arrays of elsewhere:Norm.*found .*:Deaf: were"):
        stage.setup([plugin(name="deaf"), plugin()], None, models=str(tmp_path))
    stage.setup([plugin(), plugin(name="deaf")], None, models=str(tmp_path))
    assert 40.0 == stage.filters[0].by

    Models(tmp_path).save({"by": np.array(7.0)}, tag_of(1), {"class": f"{Deaf.__module__}:Deaf"})
    stage.setup([plugin(), plugin(name="deaf")], None, models=str(tmp_path))


class Broken(Shift):
    """Return what a test tells it to."""

    answer: Callable[[Any], Any] = lambda given: given

    def muscle_pre_process(self, sensors: Any, actuators: Any) -> Any:
        return type(self).answer((sensors, actuators))


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (lambda given: given[0], AuthorError, "expected a pair"),
        (lambda given: ([], []), AuthorError, "'w.s' is missing"),
        (lambda given: ([SensorInformation(1.0, WIDE, "x")], []), AuthorError, "'x' was not declared"),
        (lambda given: ([SensorInformation(1e3, Box(0.0, 1e4, ()), "w.s")], []), OutOfObservationSpaceError, "w.s"),
    ],
)
def test_what_a_filter_shows_is_what_it_declared(
    hosted: Any, loader: Any, answer: Any, error: type[Exception], text: str
) -> None:
    """All that was declared must be there, in its space; the filter is blamed."""
    stage = MuscleStage(hosted, loader)
    stage.hosted.host._loader.classes["filter", "shift"] = Broken
    Broken.answer = answer
    stage.setup([plugin()])
    with pytest.raises(error, match=text) as found:
        stage.act(1)

    if error is AuthorError:
        assert "filter 0 of agent a (worker 0)" in "".join(found.value.__notes__)


# -- the brain's half -------------------------------------------------------------------------------------------------
class FakeBrain(Brain):
    """Count what it is told."""

    def __init__(self, **_: Any) -> None:
        self.log: list[Any] = []

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        if data_from_muscle is None:
            return None
        shard = self.memory.tail(1)
        self.log.append(
            (
                data_from_muscle,
                shard.objective[0],
                shard.additional_data[0],
                shard.sensor_readings.values[0].tolist(),
                shard.next_readings.values[0].tolist(),
                shard.actuator_setpoints.values[0].tolist(),
                shard.applied_setpoints.values[0].tolist(),
            )
        )
        return Update([len(self.log)])

    def arrays(self) -> Any:
        return {"n": np.array(len(self.log))}


class GoesOn(FakeBrain, CheckpointableBrain):
    """Be a brain that can go on from a checkpoint."""

    CHECKPOINT_FORMAT, CHECKPOINT_SCHEMA_VERSION = "fake", 1

    def export_checkpoint_state(self) -> Any:
        return {"n": np.array(len(self.log))}

    def restore_checkpoint_state(self, state: Any) -> None:
        self.log = [None] * int(state["n"])


class BrainStage:
    """Stand a brain behind filters."""

    def __init__(self, hosted: Any, loader: Any, folder: Path, cls: type[Any] = FakeBrain) -> None:
        self.folder = folder
        self.hosted = hosted(BrainHost(loader(brain=cls, filter__shift=Shift, filter__kept=Kept)))

    def setup(self, filters: list[Any], **fields: Any) -> None:
        setup = BrainSetup(
            *("r", 0, "one", "train", "a", PLUGIN, [declared("w.s", HUNDRED)], [declared("w.a", TEN, 3)]),
            *([declared("w.r", TEN)], ["a/0", "a/1"], 2, words(1, ["b"]), str(self.folder / "own")),
            filters=filters,
            **fields,
        )
        self.hosted.ask("brain.setup", setup)

    def ask(self, call: str, message: Any, worker: int = 0) -> Thought:
        serial = self.hosted.ask(call, message, f"r/muscle/a/{worker}")
        found: Thought = self.hosted.link.replied(serial, call)
        return found

    def think(self, worker: int = 0) -> Thought:
        data = {"data": {"data": "mine", "by": 10.0}, "by": 1.0}
        rows = ([[5]], [[4]], [[1]], [0.5], [[7]])
        think = Think(
            worker, 0, 0, *rows, proposed=[[15.0]], data=data, observations=[[16.0]], next_observations=[[18.0]]
        )
        return self.ask("brain.think", think, worker)

    @property
    def brain(self) -> Any:
        return self.hosted.host._brain


STACK = [plugin(), plugin(by=10.0, publishes=True)]


def test_arrays_are_stored_with_the_model_and_loaded(hosted: Any, loader: Any, tmp_path: Path) -> None:
    """Under the tag of their filter; a brain that loads the model gives them to its half and to who joins."""
    stage = BrainStage(hosted, loader, tmp_path)
    stage.setup(STACK)
    stage.think()
    stored = stage.hosted.ask("brain.store", BrainStore())
    assert ["", "policy", "filter-1"] == [row["tag"] for row in stored.files]
    assert {"class": f"{Shift.__module__}:Shift"} == Models(tmp_path / "own").meta("filter-1")

    again = BrainStage(hosted, loader, tmp_path)
    again.setup([plugin(), plugin()], load=str(tmp_path / "own"))
    assert 11.0 == again.hosted.host._filters.filters[1].by
    assert ["1"] == list(again.ask("brain.join", BrainJoin(0)).filters or {})


def test_a_half_that_cannot_be_kept_takes_no_checkpoints(hosted: Any, loader: Any, tmp_path: Path) -> None:
    """Without `save_state` a half with a state would be lost: the brain goes on from no checkpoint then."""
    stage = BrainStage(hosted, loader, tmp_path, GoesOn)
    stage.setup([plugin()], checkpoint_s=1.0)

    assert stage.hosted.host._checkpoints is None


class Twice(Shift):
    """Declare an id twice."""

    def declare(self, sensors: Any, actuators: Any) -> Any:
        return [*sensors, *sensors], actuators


def test_an_id_is_declared_once(hosted: Any, loader: Any) -> None:
    """The filter and the id are named."""
    stage = MuscleStage(hosted, loader)
    stage.hosted.host._loader.classes["filter", "shift"] = Twice
    with pytest.raises(AuthorError, match=r"sensor 'w\.s' is declared twice"):
        stage.setup([plugin()])
