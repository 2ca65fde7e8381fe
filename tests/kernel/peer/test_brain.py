from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, RemoteProtocolError, StoreError
from ganglion.peer.agent.brain import BrainHost
from ganglion.peer.agent.transitions import joined
from ganglion.peer.author import failure_of
from ganglion.peer.step.layout import Layout
from ganglion.sdk import Box, Brain, Discrete, Signal, Update
from ganglion.sdk.models import Models, digest_of
from ganglion.sdk.seed import words
from ganglion.wire.messages import (
    BrainJoin,
    BrainSetup,
    BrainStore,
    Done,
    Failure,
    Nothing,
    Think,
    Thought,
    UpdateAsked,
)

STREAM = words(1, ["brain"])
UNIT, TEN = Box(0.0, 1.0, ()), Discrete(10)


def declared(uid: str, space: Any) -> dict[str, Any]:
    """Return a declaration as it travels."""
    return {"id": uid, "space": space.to_wire()}


class FakeBrain(Brain):
    """Answer as a test tells it to, and write down who asked."""

    def __init__(self, **params: Any) -> None:
        self.log: list[Any] = []
        self.answer: Callable[[FakeBrain, str, Any], Any] = lambda brain, muscle, data: None
        self.value = np.zeros(2)

    def setup(self) -> None:
        self.log.append("setup")

    def load(self) -> None:
        self.log.append("load")
        super().load()

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        self.log.append((muscle_id, data_from_muscle, len(self.memory)))
        return self.answer(self, muscle_id, data_from_muscle)

    def arrays(self) -> Any:
        return {"value": self.value}

    def load_arrays(self, arrays: Any) -> None:
        self.value = arrays["value"]


class Stage:
    """Stand a host of one fake brain; muscles ask as `r/muscle/a/<worker>`."""

    def __init__(self, hosted: Any, loader: Any, folder: Path, cls: type[Any] = FakeBrain) -> None:
        self.hosted = hosted(BrainHost(loader(brain=cls)))
        self.link = self.hosted.link
        self.folder = folder

    def setup(self, answer: Any = None, **fields: Any) -> Any:
        plugin = {"name": "own", "params": {}}
        chosen: dict[str, Any] = {"rewards": [declared("w.r", UNIT)]} | fields
        message = BrainSetup(
            "r",
            0,
            "one",
            "train",
            "a",
            plugin,
            [declared("w.s", TEN)],
            [declared("w.a", TEN)],
            chosen.pop("rewards"),
            chosen.pop("muscles", ["a/0", "a/1", "a/2"]),
            3,
            STREAM,
            str(self.folder / "own"),
            **chosen,
        )
        found = self.hosted.ask("brain.setup", message)
        if answer is not None:
            self.brain.answer = answer
        return found

    def send(self, call: str, message: Any) -> int:
        """Ask, and return the serial of what is to be answered; what the handler raises passes through."""
        found: int = self.hosted.ask(call, message, f"r/muscle/a/{message.worker}")
        return found

    def ask(self, call: str, message: Any) -> Any:
        return self.link.replied(self.send(call, message), call)

    def join(self, worker: int = 0) -> Thought:
        found: Thought = self.ask("brain.join", BrainJoin(worker))
        return found

    def think(self, worker: int = 0, data: Any = None, **fields: Any) -> Thought:
        found: Thought = self.ask("brain.think", row(worker, data, **fields))
        return found

    def update(self, worker: int = 0) -> Thought:
        found: Thought = self.ask("brain.update", UpdateAsked(worker))
        return found

    @property
    def brain(self) -> Any:
        return self.hosted.host._brain


def row(worker: int = 0, data: Any = None, **fields: Any) -> Think:
    """Return the row of a decision."""
    return Think(worker, 4, 2, [[1]], [[2]], [[0.5]], [0.25], [[3]], data=data, **fields)


@pytest.fixture
def stage(hosted: Any, loader: Any, tmp_path: Path) -> Stage:
    """Return a host of a fake brain."""
    return Stage(hosted, loader, tmp_path)


# -- a phase ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("brain.join", BrainJoin(0)),
        ("brain.think", row()),
        ("brain.update", UpdateAsked(0)),
        ("brain.store", BrainStore()),
    ],
)
def test_setup_comes_first(stage: Stage, call: str, message: Any) -> None:
    """Before its setup there is no brain."""
    with pytest.raises(RemoteProtocolError, match=r"expected brain\.setup first"):
        stage.hosted.ask(call, message)


def test_spaces_are_refused_before_the_brain_is_made(hosted: Any, loader: Any, tmp_path: Path) -> None:
    """A brain that cannot learn with its agent's spaces ends the setup before its constructor imports anything."""
    made: list[str] = []

    class Picky(FakeBrain):
        def __init__(self, **params: Any) -> None:
            made.append("made")
            super().__init__(**params)

        @classmethod
        def check_spaces(cls, sensors: Any, actuators: Any, **params: Any) -> None:
            raise ValueError(f"found {[it.uid for it in (*sensors, *actuators)]}")

    with pytest.raises(AuthorError, match=r"ValueError: found \['w\.s', 'w\.a'\]") as caught:
        Stage(hosted, loader, tmp_path, Picky).setup()

    assert "hook check_spaces" in caught.value.__notes__[0]
    assert [] == made


def test_shutdown_ends_the_phase(stage: Stage) -> None:
    """After it there is no brain; a second one does nothing."""
    stage.setup()
    answers = [stage.hosted.ask("brain.shutdown", Nothing()) for _ in range(2)]

    assert ([Done(), Done()], None) == (answers, stage.brain)


# -- updates ----------------------------------------------------------------------------------------------------------


def test_everybody_gets_an_initial_update_of_his_own(stage: Stage) -> None:
    """An initial update for one muscle alone is none for the next that joins."""
    stage.setup()
    stage.brain.initial_update = lambda muscle: Update(muscle, only=[muscle])

    assert [Thought("a/0", True), Thought("a/1", True)] == [stage.join(0), stage.join(1)]


@pytest.mark.parametrize(("only", "found"), [(["b/0"], "b/0"), ("a/0", "a/0"), ("b/0", "b/0")])
def test_an_update_for_nobody_we_know_is_refused(stage: Stage, only: Any, found: str) -> None:
    """A muscle that there is not is the author's mistake."""
    stage.setup(lambda brain, muscle, data: Update(1, only=only))
    with pytest.raises(AuthorError, match=rf"Update\.only: expected a list of some of a/0, a/1, a/2, found '{found}'"):
        stage.think()


# -- rows -------------------------------------------------------------------------------------------------------------
def test_what_a_brain_does_to_its_data_is_not_in_the_memory(stage: Stage) -> None:
    """The data that `thinking` gets are its own; the row keeps what came."""
    stage.setup()
    stage.brain.answer = lambda brain, muscle, data: data and data["seen"].append(data.pop("more"))
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


@pytest.mark.parametrize("sync", ["lockstep", "pipelined"])
def test_who_comes_after_his_round_is_answered_at_once(stage: Stage, sync: str) -> None:
    """A successor passes in a round that the lost muscle may have completed: nothing waits for others any more."""
    stage.setup(sync=sync)
    for worker in (0, 1):
        stage.send("brain.think", row(worker, worker, round=5, workers=[0, 1]))
    late = stage.send("brain.update", UpdateAsked(1, 5, [0, 1]))

    assert Thought() == stage.link.replied(late, "brain.update")
    assert [("a/0", 0, 1), ("a/1", 1, 2)] == stage.brain.log[1:]


def test_the_row_of_a_lost_muscle_counts(stage: Stage) -> None:
    """What it told before it was lost is thought about; its successor is answered in its place."""
    stage.setup()
    stage.send("brain.think", row(1, "told", round=5, workers=[0, 1]))
    successor = stage.send("brain.update", UpdateAsked(1, 5, [0, 1]))
    stage.send("brain.think", row(0, "last", round=5, workers=[0, 1]))

    assert ["last", "told"] == [entry[1] for entry in stage.brain.log[1:]]
    assert Thought() == stage.link.replied(successor, "brain.update")


def test_who_is_not_awaited_is_refused(stage: Stage) -> None:
    """A row belongs to a round that awaits its worker, and all of a round await the same."""
    stage.setup()
    with pytest.raises(RemoteProtocolError, match=r"worker 0 is not among \[1, 2\]"):
        stage.think(0, round=5, workers=[1, 2])
    stage.send("brain.think", row(0, round=5, workers=[0, 1]))
    with pytest.raises(RemoteProtocolError, match=r"round 5 awaits \[0, 1\], found \[1, 2\]"):
        stage.think(1, round=5, workers=[1, 2])


def test_an_error_fails_all_of_its_round(stage: Stage) -> None:
    """Everybody whose row was in the round hears of the exception, by name."""
    stage.setup(lambda brain, muscle, data: 1 / 0)
    serial = stage.send("brain.think", row(1, round=5, workers=[0, 1]))
    with pytest.raises(AuthorError, match="ZeroDivisionError") as caught:
        stage.send("brain.think", row(0, round=5, workers=[0, 1]))
    failure = stage.link.replied(serial, "brain.think")

    assert isinstance(failure, Failure)
    assert failure_of(caught.value) == failure
    assert ("author", "brain a, class FakeBrain, step 2, hook thinking") == (failure.kind, failure.where)


# -- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signal", [Signal.PAUSE, Signal.RESTART, Signal.STOP_SIMULATION, Signal.STOP_PHASE])
def test_a_brain_may_signal_up_to_stop_phase(stage: Stage, signal: Signal) -> None:
    """All that ends no more than the phase passes."""
    stage.setup(lambda brain, muscle, data: brain.signal(signal, "why"))

    assert {"signal": signal.name, "reason": "why"} == stage.think().signal


# -- models -----------------------------------------------------------------------------------------------------------


def test_a_model_is_stored_twice_where_there_is_a_second_folder(stage: Stage) -> None:
    """What was stored lies in the second folder, too, byte by byte."""
    stage.setup(lambda brain, muscle, data: {"w": data})
    stage.think(0, 1)
    files = stage.hosted.ask("brain.store", BrainStore(second=str(stage.folder / "second"))).files

    assert [str(stage.folder / "own" / name) for name in ("model.npz", "model-policy.npz")] == [
        row["path"] for row in files
    ]
    second = [digest_of(stage.folder / "second" / name) for name in ("model.npz", "model-policy.npz")]
    assert second == [row["sha256"] for row in files]


def test_where_nobody_learns_the_model_is_stored_unchanged(stage: Stage) -> None:
    """A brain that takes no part hands the model on: without a setup, all tags, with no updates of its own."""
    earlier = Models(stage.folder / "earlier")
    earlier.save({"value": np.full(2, 3.0)}, "best")
    earlier.save({"value": np.full(2, 4.0)})
    source, second = str(stage.folder / "earlier"), str(stage.folder / "second")
    store = BrainStore(source=source, models=str(stage.folder / "later"), second=second)
    files = stage.hosted.ask("brain.store", store).files

    digests = {row["tag"]: row["sha256"] for row in earlier.written()}
    assert [("", 0), ("best", 0)] == [(row["tag"], row["updates"]) for row in files]
    assert digests == {row["tag"]: row["sha256"] for row in files}
    for folder in ("later", "second"):
        assert ["", "best"] == Models(stage.folder / folder).tags()


def test_a_model_of_another_form_is_told_with_its_folder(stage: Stage) -> None:
    """A model that the brain cannot take over names agent, hook and folder; so does a damaged policy."""
    Models(stage.folder / "earlier").save({"weights": np.zeros(2)})
    with pytest.raises(AuthorError, match="KeyError: 'value'") as caught:
        stage.setup(load=str(stage.folder / "earlier"))
    where = failure_of(caught.value).where or ""
    assert where.startswith("brain a, class FakeBrain")
    assert where.endswith(f"hook load; model {stage.folder / 'earlier'}")

    (stage.folder / "earlier" / "model-policy.npz").write_bytes(b"boo")
    with pytest.raises(StoreError, match=f"{stage.folder / 'earlier' / 'model-policy.npz'}: the file is damaged"):
        stage.setup(load=str(stage.folder / "earlier"))


def test_a_brain_may_have_no_model_to_load(stage: Stage) -> None:
    """A folder without a model is the brain's own error, by name."""
    with pytest.raises(AuthorError, match="there is no model"):
        stage.setup(load=str(stage.folder / "nothing"))


# -- hooks ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("hook", ["__init__", "setup", "load", "initial_update", "thinking", "store"])
def test_every_hook_is_named(hosted: Any, loader: Any, tmp_path: Path, hook: str) -> None:
    """Whatever raises, the failure names brain, class and hook."""
    Models(tmp_path / "earlier").save({"value": np.zeros(2)})
    broken = type("Breaks", (FakeBrain,), {hook: lambda self, *_, **__: 1 / 0})
    it = Stage(hosted, loader, tmp_path, broken)

    def play() -> None:
        it.setup(load=str(tmp_path / "earlier"))
        if hook != "thinking":  # the default initial_update calls it too
            it.join()
        it.think()
        it.hosted.ask("brain.store", BrainStore())

    with pytest.raises(AuthorError, match="ZeroDivisionError") as caught:
        play()
    where = failure_of(caught.value).where or ""

    end = f"hook {hook}" + (f"; model {tmp_path / 'earlier'}" if hook == "load" else "")
    assert (True, True) == (where.startswith("brain a, class Breaks"), where.endswith(end))


# -- answers before thoughts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["brain.think", "brain.store", "brain.join"])
def test_what_a_late_thought_raises_fails_the_next_request(stage: Stage, call: str) -> None:
    """Who asks next hears of an exception that was raised while nobody waited for an answer."""

    def fail(brain: Any, muscle: str, data: Any) -> None:
        if data == "bad":
            raise ValueError("no gradient")

    stage.setup(fail, sync="pipelined")
    stage.join()
    stage.think(data="bad")
    message = {"brain.think": row(), "brain.store": BrainStore(), "brain.join": BrainJoin(1)}[call]

    with pytest.raises(AuthorError, match="no gradient"):
        stage.hosted.ask(call, message)


# -- evaluations ------------------------------------------------------------------------------------------------------


# -- arrays -----------------------------------------------------------------------------------------------------------
class ArrayBrain(FakeBrain):
    """Learn from arrays, and keep them."""

    batched = True

    def learn(self, batch: Any) -> Any:
        self.log.append((batch, len(self.memory)))
        return self.answer(self, "", batch)


@pytest.fixture
def arrays(hosted: Any, loader: Any, tmp_path: Path) -> Stage:
    """Return a host of a brain that learns from arrays."""
    return Stage(hosted, loader, tmp_path, ArrayBrain)


def test_what_learning_wishes_for_is_for_all_its_workers(arrays: Stage) -> None:
    """A signal out of `learn` goes out with the answers of all whose rows it had, and with no other."""

    def wish(brain: Any, _: str, batch: Any) -> None:
        brain.signal(Signal.RESET, "enough")

    arrays.setup(wish)
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
    blocks: dict[str, Any] = {"applied": ten.field([[1]]), "rewards": unit.field([[0.5]])}
    changes = (
        {"decision": n, "readings": ten.field([[n]]), "next_readings": ten.field([[n + 1]]), **blocks} for n in range(3)
    )
    thinks = [replace(row(0, {"n": n}), **changed) for n, changed in enumerate(changes)]
    together = [stage.join().together]
    together.append(stage.ask("brain.think", replace(thinks[2], before=joined(thinks[:2]))).together)
    together.append(stage.think().together)
    rows = stage.brain.memory.tail(4)

    assert [4, 1, 4] == together
    assert [("a/0", {"n": n}, n + 1) for n in range(3)] == stage.brain.log[-4:-1]
    assert [[0], [1], [2], [1]] == rows.sensor_readings.flat.tolist()
    assert [[1], [2], [3], [3]] == rows.next_readings.flat.tolist()
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
        stage.send("brain.join", BrainJoin(0))
