"""Brains at their host: who joins, what rounds are, what is learned from, row by row and in arrays, models, errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakepeer import TEN, UNIT, brain_setup, declarations, declared

from ganglion.errors import AuthorError, RemoteProtocolError, StoreError
from ganglion.peer.agent.brain import BrainHost
from ganglion.peer.agent.transitions import joined
from ganglion.peer.author import failure_of
from ganglion.peer.step.layout import Layout
from ganglion.peer.values import serialize
from ganglion.sdk import Box, Brain, Signal, Update
from ganglion.sdk.models import Models, digest_of
from ganglion.wire.messages import (
    TERMINATED,
    TRUNCATED,
    BrainJoin,
    BrainStore,
    Done,
    Failure,
    Nothing,
    Think,
    Thought,
    UpdateAsked,
)

SENSORS = Layout(["s", "p"], [TEN, Box(-1.0, 1.0, (2,))])
ACTUATORS, REWARDS = Layout(["a"], [TEN]), Layout(["r"], [Box(-9.0, 9.0, ())])
BODIES = [("a", "lake", 0), ("a", "lake", 1), ("a", "moor", 0)]


class FakeBrain(Brain):
    """Answer as a test tells it to, and write down what it hears of."""

    rows = 100

    def __init__(self, **params: Any) -> None:
        self.log: list[Any] = []
        self.answer: Callable[[FakeBrain, Any], Any] = lambda brain, data: None
        self.value = np.zeros(2)

    def setup(self) -> None:
        self.memory.size_limit = self.rows

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        newest = self.memory.tail(1, include_only=muscle_id) if len(self.memory) else None
        bodies = [] if newest is None or newest.body is None else newest.body.tolist()
        self.log.append((muscle_id, data_from_muscle, len(self.memory), bodies))
        return self.answer(self, data_from_muscle)

    def arrays(self) -> Any:
        return {"value": self.value}

    def load_arrays(self, arrays: Any) -> None:
        self.value = arrays["value"]


class Learner(FakeBrain):
    """Learn from arrays, and keep them."""

    batched = True

    def learn(self, batch: Any) -> Any:
        self.log.append(batch)
        return self.answer(self, batch)


class Stage:
    """Stand a host of one fake brain; muscles ask as `r/muscle/a/<worker>`."""

    def __init__(self, hosted: Any, loader: Any, folder: Path, cls: type[Any] = FakeBrain) -> None:
        self.hosted = hosted(BrainHost(loader(brain=cls)))
        self.link, self.folder = self.hosted.link, folder

    def setup(self, answer: Any = None, **fields: Any) -> None:
        self.hosted.ask("brain.setup", brain_setup(models=str(self.folder / "own"), **fields))
        if answer is not None:
            self.brain.answer = answer

    def send(self, call: str, message: Any) -> int:
        """Ask, and return the serial of what is to be answered; what the handler raises passes through."""
        found: int = self.hosted.ask(call, message, f"r/muscle/a/{message.worker}")
        return found

    def join(self, worker: int = 0) -> Thought:
        found: Thought = self.link.replied(self.send("brain.join", BrainJoin(worker)), "brain.join")
        return found

    def think(self, worker: int = 0, data: Any = None, **fields: Any) -> Any:
        return self.link.replied(self.send("brain.think", row(worker, data, **fields)), "brain.think")

    @property
    def brain(self) -> Any:
        return self.hosted.host._brain


def row(worker: int = 0, data: Any = None, **fields: Any) -> Think:
    """Return the row of a decision."""
    return Think(worker, 4, 2, [[1]], [[2]], [[0.5]], [0.25], [[3]], data=data, **fields)


@pytest.fixture
def make(hosted: Any, loader: Any, tmp_path: Path) -> Callable[..., Stage]:
    """Return a function that stands a host of a fake brain."""
    return lambda cls=FakeBrain: Stage(hosted, loader, tmp_path, cls)


@pytest.fixture
def stage(make: Any) -> Stage:
    """Return a host of a fake brain."""
    found: Stage = make()
    return found


# -- a phase ----------------------------------------------------------------------------------------------------------


def test_spaces_are_refused_before_the_brain_is_made(make: Any) -> None:
    """A brain that cannot learn with its agent's spaces ends the setup before its constructor imports anything."""

    class Picky(FakeBrain):
        def __init__(self, **params: Any) -> None:
            raise NotImplementedError

        @classmethod
        def check_spaces(cls, sensors: Any, actuators: Any, **params: Any) -> None:
            raise ValueError(f"found {[it.uid for it in (*sensors, *actuators)]}")

    with pytest.raises(AuthorError, match=r"ValueError: found \['w\.s', 'w\.a'\]") as caught:
        make(Picky).setup()

    assert "hook check_spaces" in caught.value.__notes__[0]


def test_shutdown_ends_the_phase(stage: Stage) -> None:
    """After it there is no brain; a second one does nothing."""
    stage.setup()
    answers = [stage.hosted.ask("brain.shutdown", Nothing()) for _ in range(2)]

    assert ([Done(), Done()], None) == (answers, stage.brain)


def test_everybody_gets_an_initial_update_of_his_own(stage: Stage) -> None:
    """An initial update for one muscle alone is none for the next that joins."""
    stage.setup()
    stage.brain.initial_update = lambda muscle: Update(muscle, only=[muscle])

    assert [Thought("a/0", True), Thought("a/1", True)] == [stage.join(0), stage.join(1)]


@pytest.mark.parametrize(("only", "found"), [(["b/0"], "b/0"), ("a/0", "a/0"), ("b/0", "b/0")])
def test_an_update_for_nobody_we_know_is_refused(stage: Stage, only: Any, found: str) -> None:
    """A muscle that there is not is the author's mistake."""
    stage.setup(lambda brain, data: Update(1, only=only))
    with pytest.raises(AuthorError, match=rf"Update\.only: expected a list of some of a/0, a/1, a/2, found '{found}'"):
        stage.think()


def test_what_a_brain_does_to_its_data_is_not_in_the_memory(stage: Stage) -> None:
    """The data that `thinking` gets are its own; the row keeps what came."""
    stage.setup(lambda brain, data: data["seen"].append(data.pop("more")))
    stage.think(data={"seen": [1], "more": 2})

    assert {"seen": [1], "more": 2} == stage.brain.memory.tail(1).additional_data[0]


def test_rewards_may_be_declared_by_the_first_row(stage: Stage) -> None:
    """Where nobody knew the rewards at setup, the first row of each muscle brings them; undeclared ones are refused."""
    stage.setup(rewards=None)
    with pytest.raises(RemoteProtocolError, match=r"think\.rewards: they were not declared"):
        stage.think()
    for worker in (0, 1):
        stage.think(worker, reward_ids=[declared("w.late", UNIT)])

    assert ["w.late"] == list(stage.brain.memory.tail(2).rewards.columns)


def test_who_is_not_awaited_is_refused(stage: Stage) -> None:
    """A row belongs to a round that awaits its worker, and all of a round await the same."""
    stage.setup()
    with pytest.raises(RemoteProtocolError, match=r"worker 0 is not among \[1, 2\]"):
        stage.think(0, round=5, workers=[1, 2])
    stage.think(0, round=5, workers=[0, 1])
    with pytest.raises(RemoteProtocolError, match=r"round 5 awaits \[0, 1\], found \[1, 2\]"):
        stage.think(1, round=5, workers=[1, 2])


def test_an_error_fails_all_of_its_round(stage: Stage) -> None:
    """Everybody whose row was in the round hears of the exception, by name."""
    stage.setup(lambda brain, data: 1 / 0)
    serial = stage.send("brain.think", row(1, round=5, workers=[0, 1]))
    with pytest.raises(AuthorError, match="ZeroDivisionError") as caught:
        stage.think(0, round=5, workers=[0, 1])
    failure = stage.link.replied(serial, "brain.think")

    assert isinstance(failure, Failure)
    assert failure_of(caught.value) == failure
    assert ("author", "brain a, class FakeBrain, step 2, hook thinking") == (failure.kind, failure.where)


@pytest.mark.parametrize("call", ["brain.think", "brain.store", "brain.join"])
def test_what_a_late_thought_raises_fails_the_next_request(stage: Stage, call: str) -> None:
    """Who asks next hears of an exception that was raised while nobody waited for an answer."""
    stage.setup(lambda brain, data: 1 / 0 if data == "bad" else None, sync="pipelined")
    stage.join()
    stage.think(data="bad")
    message = {"brain.think": row(), "brain.store": BrainStore(), "brain.join": BrainJoin(1)}[call]

    with pytest.raises(AuthorError, match="ZeroDivisionError"):
        stage.hosted.ask(call, message)


@pytest.mark.parametrize("hook", ["__init__", "setup", "load", "initial_update", "thinking", "store"])
def test_every_hook_is_named(make: Any, tmp_path: Path, hook: str) -> None:
    """Whatever raises, the failure names brain, class and hook."""
    Models(tmp_path / "earlier").save({"value": np.zeros(2)})
    it = make(type("Breaks", (FakeBrain,), {hook: lambda self, *_, **__: 1 / 0}))

    def play() -> None:
        it.setup(load=str(tmp_path / "earlier"))
        if hook != "thinking":  # the default initial_update calls it too
            it.join()
        it.think()
        it.hosted.ask("brain.store", BrainStore())

    with pytest.raises(AuthorError, match="ZeroDivisionError") as caught:
        play()

    end = f"; model {tmp_path / 'earlier'}" if hook == "load" else ""
    where = (failure_of(caught.value).where or "").replace(", step 2", "")
    assert f"brain a, class Breaks, hook {hook}{end}" == where


# -- models -----------------------------------------------------------------------------------------------------------


def test_a_model_is_stored_twice_where_there_is_a_second_folder(stage: Stage) -> None:
    """What was stored lies in the second folder, too, byte by byte."""
    stage.setup(lambda brain, data: {"w": data})
    stage.think(0, 1)
    files = stage.hosted.ask("brain.store", BrainStore(second=str(stage.folder / "second"))).files

    names = ("model.npz", "model-policy.npz")
    assert [str(stage.folder / "own" / name) for name in names] == [row["path"] for row in files]
    assert [digest_of(stage.folder / "second" / name) for name in names] == [row["sha256"] for row in files]


def test_where_nobody_learns_the_model_is_stored_unchanged(stage: Stage) -> None:
    """A brain that takes no part hands the model on: without a setup, all tags, with no updates of its own."""
    earlier = Models(stage.folder / "earlier")
    earlier.save({"value": np.full(2, 3.0)}, "best")
    earlier.save({"value": np.full(2, 4.0)})
    places = {key: str(stage.folder / name) for key, name in (("source", "earlier"), ("models", "later"))}
    files = stage.hosted.ask("brain.store", BrainStore(**places, second=str(stage.folder / "second"))).files

    assert [("", 0), ("best", 0)] == [(row["tag"], row["updates"]) for row in files]
    digests = {row["tag"]: row["sha256"] for row in earlier.written()}
    assert digests == {row["tag"]: row["sha256"] for row in files}
    assert [["", "best"]] * 2 == [Models(stage.folder / folder).tags() for folder in ("later", "second")]


def test_a_model_that_cannot_be_taken_is_told_with_its_folder(stage: Stage) -> None:
    """One that there is not, one of another form, and a damaged policy: by agent, hook and folder."""
    with pytest.raises(AuthorError, match="there is no model"):
        stage.setup(load=str(stage.folder / "nothing"))
    Models(stage.folder / "earlier").save({"weights": np.zeros(2)})
    with pytest.raises(AuthorError, match="KeyError: 'value'") as caught:
        stage.setup(load=str(stage.folder / "earlier"))
    where = f"brain a, class FakeBrain, hook load; model {stage.folder / 'earlier'}"
    assert where == failure_of(caught.value).where

    (stage.folder / "earlier" / "model-policy.npz").write_bytes(b"boo")
    with pytest.raises(StoreError, match=f"{stage.folder / 'earlier' / 'model-policy.npz'}: the file is damaged"):
        stage.setup(load=str(stage.folder / "earlier"))


# -- learning in arrays, and decisions that are told together ----------------------------------------------------------


def test_what_learning_wishes_for_is_for_all_its_workers(make: Any) -> None:
    """A signal out of `learn` goes out with the answers of all whose rows it had, and with no other."""
    arrays = make(Learner)
    arrays.setup(lambda brain, batch: brain.signal(Signal.RESET, "enough"))
    awaited = {"round": 0, "workers": [0, 1, 2]}
    asked = [arrays.send("brain.think", row(worker, **awaited)) for worker in (0, 1)]
    asked.append(arrays.send("brain.update", UpdateAsked(2, 0, [0, 1, 2])))

    signal = {"signal": "RESET", "reason": "enough"}
    assert [signal, signal, None] == [arrays.link.replied(serial, "brain.think").signal for serial in asked]


def test_decisions_that_were_kept_are_thought_about_one_by_one(stage: Stage) -> None:
    """The brain hears of each in its order, when its row is the newest; the answer says how many may come next."""
    stage.setup(muscles=["a/0"])
    stage.brain.learn_every = 4
    ten, unit = Layout(["x"], [TEN]), Layout(["x"], [UNIT])
    same: dict[str, Any] = {"applied": ten.field([[1]]), "rewards": unit.field([[0.5]])}
    fields = [{"readings": ten.field([[n]]), "next_readings": ten.field([[n + 1]]), **same} for n in range(3)]
    thinks = [replace(row(0, {"n": n}), decision=n, **changed) for n, changed in enumerate(fields)]
    together = [stage.join().together]
    serial = stage.send("brain.think", replace(thinks[2], before=joined(thinks[:2])))
    together += [stage.link.replied(serial, "brain.think").together, stage.think().together]
    rows = stage.brain.memory.tail(4)

    assert [4, 1, 4] == together
    assert [("a/0", {"n": n}, n + 1) for n in range(3)] == [told[:3] for told in stage.brain.log[-4:-1]]
    assert ([0, 1, 2, 1], [1, 2, 3, 3]) == (
        rows.sensor_readings.flat[:, 0].tolist(),
        rows.next_readings.flat[:, 0].tolist(),
    )
    assert [0, 1, 2, 2] == rows.decision_index.tolist()


@pytest.mark.parametrize(
    "before", [[], [[0], [1], [1], [0.5], [None]], [[0, 1], [bytes(3)], [bytes(2)], [bytes(2)], [0, 0], [0, 0]]]
)
def test_what_are_no_decisions_is_refused(stage: Stage, before: list[Any]) -> None:
    """Decisions before another one come as six lists of equal numbers."""
    stage.setup(muscles=["a/0"])
    with pytest.raises(RemoteProtocolError, match=r"think\.before"):
        stage.send("brain.think", replace(row(0), before=before))


@pytest.mark.parametrize("every", [0, 2.0, True])
def test_a_brain_learns_with_every_nth_decision(stage: Stage, every: Any) -> None:
    """`learn_every` is an integer of at least one."""
    stage.setup()
    stage.brain.learn_every = every
    with pytest.raises(AuthorError, match="learn_every: expected an integer >= 1"):
        stage.join()


# -- completed decisions of many bodies -------------------------------------------------------------------------------
@pytest.fixture
def bodies(make: Any) -> Callable[..., Stage]:
    """Return a function that stands a host of a brain of three bodies, two workers."""

    def stand(cls: type[Any] = Learner, rewards: Layout = REWARDS) -> Stage:
        stage: Stage = make(cls)
        ids = dict(
            zip(("sensors", "actuators", "rewards"), map(declarations, (SENSORS, ACTUATORS, rewards)), strict=True)
        )
        own = {"muscles": ["a/0", "a/1"], "workers": 2, "bodies": [[where, b, True] for _, where, b in BODIES]}
        stage.setup(lambda brain, _: len(brain.log), **ids, **own)
        return stage

    return stand


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


def test_rows_of_a_message_are_one_batch(bodies: Any) -> None:
    """A learner gets all of them as arrays, and finds them in its memory, each with its body."""
    stage = bodies()
    thinks = told(1, (0, 0, 5, 1), (1, TERMINATED, 6, 2), (2, TRUNCATED, 7, 7))
    thought = stage.link.replied(stage.send("brain.think", thinks), "brain.think")
    (batch,) = stage.brain.log
    rows = stage.brain.memory[:]

    assert (1, True) == (thought.update, thought.fresh)
    expected = {
        "observations": [[1, 0.1, 0.5], [2, 0.2, 0.5], [7, 0.7, 0.5]],
        "next_observations": [[2, 0.5, 0.1], [3, 0.5, 0.2], [8, 0.5, 0.7]],
        "actions": [[8], [7], [2]],
        "rewards": [[0.5], [1.0], [3.5]],
        "objectives": [0.25, 0.5, np.nan],
        "terminated": [False, True, False],
        "truncated": [False, False, True],
        "bootstrap": [1.0, 0.0, 1.0],
        "step": [5, 6, 7],
        "episode": [3, 4, 5],
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(values, getattr(batch, name))
    assert (["a/1"] * 3, BODIES, [None] * 3) == (batch.muscle, batch.body, list(batch.data))
    assert (["a/1"] * 3, [0, 1, 2], [False, True, True]) == (rows.tag.tolist(), rows.body.tolist(), rows.dones.tolist())
    for name in ("observations", "actions", "terminated", "truncated", "episode"):
        np.testing.assert_array_equal(getattr(batch, name), getattr(rows, name))
    np.testing.assert_array_equal(batch.objectives, rows.objective)
    np.testing.assert_array_equal(batch.next_observations, rows.next_readings.flat)
    np.testing.assert_array_equal(batch.actions, rows.applied_setpoints.flat)
    assert [0.5, 1.0, 3.5] == rows.rewards["r"].tolist()


def test_a_round_is_one_batch_in_the_order_of_workers(bodies: Any) -> None:
    """Whoever comes first: the rows of worker 0 stand before those of worker 1; who has none only asks."""
    stage = bodies()
    asked = [
        stage.send("brain.think", told(1, (2, 0, 4, 1), round=1, workers=[0, 1], data=["x"])),
        stage.send("brain.think", told(0, (0, 0, 5, 2), (1, 0, 6, 3), round=1, workers=[0, 1])),
        stage.send("brain.update", UpdateAsked(0, 2, [0, 1])),
        stage.send("brain.think", told(1, (0, 0, 7, 4), round=2, workers=[0, 1])),
    ]

    first, second = stage.brain.log
    assert (["a/0", "a/0", "a/1"], BODIES) == (first.muscle, first.body)
    assert ([5, 6, 4], [None, None, "x"]) == (first.step.tolist(), list(first.data))
    assert (["a/1"], [[4, 0.4, 0.5]]) == (second.muscle, second.observations.tolist())
    assert [1, 1, 2, 2] == [stage.link.replied(serial, "brain.think").update for serial in asked]
    assert ["a/0", "a/0", "a/1", "a/1"] == stage.brain.memory[:].tag.tolist()


def test_thinking_hears_of_one_row_after_the_other(bodies: Any) -> None:
    """Each is the newest of its muscle in the memory then; in a round in the order of workers and rows."""
    stage = bodies(FakeBrain)
    stage.send("brain.think", told(1, (2, 0, 4, 1), round=1, workers=[0, 1], data=["x"]))
    stage.send("brain.think", told(0, (0, 0, 5, 2), (1, 0, 6, 3), round=1, workers=[0, 1], data=[{"n": 1}, None]))

    assert [("a/0", {"n": 1}, 1, [0]), ("a/0", None, 2, [1]), ("a/1", "x", 3, [2])] == stage.brain.log
    assert [{"n": 1}, None, "x"] == stage.brain.memory[:].additional_data.tolist()


def test_data_in_one_array_are_the_brains_own(bodies: Any) -> None:
    """They come as one array, and the memory's are others."""
    stage, data = bodies(), [[1.0, 2.0], [3.0, 4.0]]
    stage.send("brain.think", told(0, (0, 0, 4, 1), (1, 0, 4, 1), data=serialize(np.array(data), [], "data")))

    assert data == np.asarray(stage.brain.log[0].data).tolist()
    assert data == [it.tolist() for it in stage.brain.memory[:].additional_data]


def test_memories_without_rows_or_rewards(bodies: Any) -> None:
    """A learner that keeps its rows itself pays for no others; without rewards a batch has rows all the same."""
    stage = bodies(type("Forgetful", (Learner,), {"rows": 0}))
    stage.send("brain.think", told(0, (0, 0, 4, 1)))
    assert (1, 0) == (len(stage.brain.log), len(stage.brain.memory))

    stage = bodies(rewards=Layout([], []))
    stage.send("brain.think", told(0, (0, 0, 4, 1), (1, 0, 4, 1), rewards=[]))
    assert ((2, 0), (2, 0)) == (stage.brain.log[0].rewards.shape, stage.brain.memory[:].rewards.flat.shape)


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
def test_rows_that_do_not_fit_each_other_are_refused(bodies: Any, fields: dict[str, Any], match: str) -> None:
    """Nothing of a message whose parts are not of the same bodies reaches the brain or its memory."""
    stage = bodies()
    with pytest.raises(RemoteProtocolError, match=match):
        stage.send("brain.think", told(0, (0, 0, 4, 1), (1, 0, 4, 1), **fields))

    assert ([], 0) == (stage.brain.log, len(stage.brain.memory))
