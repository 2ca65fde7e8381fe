from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakepeer import TEN, brain_setup, declared, muscle_setup

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
from ganglion.wire.messages import Act, Acted, BrainJoin, BrainStore, Think, Thought

HUNDRED, WIDE = Discrete(100), Box(-100.0, 100.0, ())


def wide(uid: str, value: float = 0.0) -> ActuatorInformation:
    """Return an actuator without bounds."""
    return ActuatorInformation(value, WIDE, uid)


class Shift(Filter):
    """Add a number to what the agent sees, and take it off what it sets; the brain publishes the next number."""

    def __init__(self, by: float = 1.0, publishes: bool = False) -> None:
        self.by, self.publishes = by, publishes
        self.seen: list[float] = []

    def declare(self, sensors: Any, actuators: Any) -> Any:
        return [SensorInformation(None, WIDE, it.uid) for it in sensors], [wide(it.uid) for it in actuators]

    def muscle_pre_process(self, sensors: Any, actuators: Any) -> Any:
        self.seen = [*self.seen, sensors[0].value]
        return [SensorInformation(it.value + self.by, WIDE, it.uid) for it in sensors], actuators

    def muscle_post_process(self, setpoints: Any, data: Any) -> Any:
        outer: Any = TEN if self.by == 1.0 else WIDE
        found = [ActuatorInformation(outer.clip(it.value - self.by), outer, it.uid) for it in setpoints]
        return found, {"data": data, "by": self.by}

    def reset(self) -> None:
        self.seen = []

    def brain_pre_process(self, muscle_id: str, data: Any) -> Any:
        return data["data"]

    def publish(self) -> Any:
        if not self.publishes:
            return None
        self.by += 1.0
        return {"by": np.array(self.by)}

    def receive(self, arrays: Any) -> None:
        self.by = float(arrays["by"])


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
        return sensors, [wide(it.uid) for it in actuators]

    def muscle_post_process(self, setpoints: Any, data: Any) -> Any:
        if setpoints[0].value > 9:
            raise ValueError("too far")
        return [ActuatorInformation(int(it.value), TEN, it.uid) for it in setpoints], data


class Deaf(Shift):
    """Publish, and take nothing."""

    receive = Filter.receive


class FakeMuscle(Muscle):
    """Set what it sees, and note it."""

    def __init__(self, **_: Any) -> None:
        self.log: list[Any] = []

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        self.log.append([it.value for it in sensors])
        for it in actuators_available:
            it.value = sensors[0].value
        return actuators_available


class ArrayMuscle(FakeMuscle):
    """Do the same with arrays."""

    batched = True

    def propose_batch(self, batch: Any) -> Any:
        self.log.append(batch.observations[0].tolist())
        return batch.observations[:, :1]


class FakeSum(Objective):
    """Return the reward."""

    def internal_reward(self, memory: Any, **kwargs: Any) -> Any:
        return float(memory.tail(1).rewards.values[0][0])


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

    def setup(self, *filters: Any, **fields: Any) -> None:
        own = {"sensors": [declared("w.s", HUNDRED)], "rewards": [declared("w.r", TEN)], "filters": list(filters)}
        self.hosted.ask("muscle.setup", muscle_setup(**{**own, **fields}))

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
    stage.setup(plugin(by=0.0), plugin(name="refusing", by=0.0, on_error="continue"))
    acted = [stage.act(1), stage.act(2, 0), stage.act(3, 0)]

    assert [[1], [1], [3]] == [list(struct.unpack("<q", *row.setpoints)) for row in acted]
    assert [1, 2, 3] == stage.filters[0].seen == stage.filters[1].seen
    assert [None, 1, None] == [row.excused and len(row.excused) for row in acted]
    assert [[1.0], [3.0]] == stage.muscle.log


def test_no_filter_has_seen_setpoints_that_were_not_applied(stage: MuscleStage) -> None:
    """Where one is excused on the way back, those behind it stand where they stood: the sum is that of the applied."""
    stage.setup(plugin(name="bounds", on_error="continue"), plugin(name="adds"))
    acted = [stage.act(4), stage.act(7, 0), stage.act(3, 0)]

    assert [[4], [4], [7]] == [list(struct.unpack("<q", *row.setpoints)) for row in acted]
    assert 7.0 == stage.filters[1].total
    assert [None, 1, None] == [row.excused and len(row.excused) for row in acted]


def test_an_episode_begins_with_the_newest_arrays(stage: MuscleStage) -> None:
    """They come with the answer to the question for news, too."""
    stage.setup(plugin())
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
        stage.setup(plugin(name="deaf"), plugin(), mode="test", brain=None, models=str(tmp_path))
    stage.setup(plugin(), plugin(name="deaf"), mode="test", brain=None, models=str(tmp_path))
    assert 40.0 == stage.filters[0].by

    Models(tmp_path).save({"by": np.array(7.0)}, tag_of(1), {"class": f"{Deaf.__module__}:Deaf"})
    stage.setup(plugin(), plugin(name="deaf"), mode="test", brain=None, models=str(tmp_path))


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
    stage.setup(plugin())
    with pytest.raises(error, match=text) as found:
        stage.act(1)

    if error is AuthorError:
        assert "filter 0 of agent a (worker 0)" in "".join(found.value.__notes__)


# -- the brain's half -------------------------------------------------------------------------------------------------
class FakeBrain(Brain):
    """Think of nothing, and have a state."""

    def __init__(self, **_: Any) -> None:
        pass

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        return Update([1])

    def arrays(self) -> Any:
        return {"n": np.array(1)}


class GoesOn(FakeBrain, CheckpointableBrain):
    """Be a brain that can go on from a checkpoint."""

    CHECKPOINT_FORMAT, CHECKPOINT_SCHEMA_VERSION = "fake", 1

    def export_checkpoint_state(self) -> Any:
        return self.arrays()

    def restore_checkpoint_state(self, state: Any) -> None:
        pass


@pytest.fixture
def brain(hosted: Any, loader: Any, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that stands a brain behind filters, and its host."""

    def make(filters: list[Any], cls: type[Any] = FakeBrain, **fields: Any) -> Any:
        stood = hosted(BrainHost(loader(brain=cls, filter__shift=Shift)))
        ids = {"sensors": [declared("w.s", HUNDRED)], "rewards": [declared("w.r", TEN)]}
        stood.ask("brain.setup", brain_setup(models=str(tmp_path / "own"), filters=filters, **ids, **fields))
        return stood

    return make


def test_arrays_are_stored_with_the_model_and_loaded(brain: Any, tmp_path: Path) -> None:
    """Under the tag of their filter; a brain that loads the model gives them to its half and to who joins."""
    first = brain([plugin(), plugin(by=10.0, publishes=True)])
    data, rows = {"data": {"data": "mine", "by": 10.0}, "by": 1.0}, ([[5]], [[4]], [[1]], [0.5], [[7]])
    seen = {"observations": [[16.0]], "next_observations": [[18.0]]}
    first.ask("brain.think", Think(0, 0, 0, *rows, proposed=[[15.0]], data=data, **seen), "r/muscle/a/0")
    stored = first.ask("brain.store", BrainStore())
    again = brain([plugin(), plugin()], load=str(tmp_path / "own"))
    joined = again.link.replied(again.ask("brain.join", BrainJoin(0), "r/muscle/a/0"), "brain.join")

    assert ["", "policy", "filter-1"] == [row["tag"] for row in stored.files]
    assert {"class": f"{Shift.__module__}:Shift"} == Models(tmp_path / "own").meta("filter-1")
    assert (11.0, ["1"]) == (again.host._filters.filters[1].by, list(joined.filters or {}))


def test_a_half_that_cannot_be_kept_takes_no_checkpoints(brain: Any) -> None:
    """Without `save_state` a half with a state would be lost: the brain goes on from no checkpoint then."""
    assert brain([plugin()], GoesOn, checkpoint_s=1.0).host._checkpoints is None


class Twice(Shift):
    """Declare an id twice."""

    def declare(self, sensors: Any, actuators: Any) -> Any:
        return [*sensors, *sensors], actuators


def test_an_id_is_declared_once(hosted: Any, loader: Any) -> None:
    """The filter and the id are named."""
    stage = MuscleStage(hosted, loader)
    stage.hosted.host._loader.classes["filter", "shift"] = Twice
    with pytest.raises(AuthorError, match=r"sensor 'w\.s' is declared twice"):
        stage.setup(plugin())
