from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, RemoteProtocolError, StoreError
from ganglion.peer.brain import BrainHost
from ganglion.peer.failure import failure_of
from ganglion.sdk import Box, Brain, Discrete, EpisodeSummary, EvaluationResult, Signal, Update
from ganglion.sdk.flow import Mode
from ganglion.sdk.models import Models, digest_of
from ganglion.sdk.seed import generator_from_words, words
from ganglion.wire.messages import (
    BrainEvaluate,
    BrainEvaluated,
    BrainJoin,
    BrainLeave,
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
            ["a/0", "a/1", "a/2"],
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
def test_a_brain_knows_itself(stage: Stage) -> None:
    """Name, declarations, muscles, mode and generator are there; its memory draws from that generator."""
    stage.setup(static_models={"w": {"width": 3}})
    brain = stage.brain

    assert ("a", Mode.TRAIN, ["a/0", "a/1", "a/2"]) == (brain.name, brain.mode, brain.muscles)
    assert (["w.s"], ["w.a"]) == ([it.uid for it in brain.sensors], [it.uid for it in brain.actuators])
    assert ({"w": {"width": 3}}, ["setup"]) == (brain.static_world_models, brain.log)
    assert (generator_from_words(STREAM).random(), brain.rng) == (brain.rng.random(), brain.memory.rng)


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
def test_who_joins_gets_the_initial_update(stage: Stage) -> None:
    """Before the first update a muscle that joins gets what `thinking(muscle, None)` returns."""
    stage.setup(lambda brain, muscle, data: {"for": muscle})

    assert Thought({"for": "a/0"}, True) == stage.join(0)
    assert [("a/0", None, 0)] == stage.brain.log[1:]


def test_who_joins_later_gets_the_newest_update(stage: Stage) -> None:
    """When there is an update for all, a muscle that joins gets it, and nobody thinks."""
    stage.setup(lambda brain, muscle, data: data)
    stage.join(0)
    stage.think(0, "newest")

    assert (Thought("newest", True), 2) == (stage.join(1), len(stage.brain.log[1:]))


def test_everybody_gets_an_initial_update_of_his_own(stage: Stage) -> None:
    """An initial update for one muscle alone is none for the next that joins."""
    stage.setup()
    stage.brain.initial_update = lambda muscle: Update(muscle, only=[muscle])

    assert [Thought("a/0", True), Thought("a/1", True)] == [stage.join(0), stage.join(1)]


def test_no_initial_update_is_no_update(stage: Stage) -> None:
    """None of `initial_update` is answered as nothing fresh."""
    stage.setup()

    assert Thought() == stage.join()


def test_who_joins_again_gets_it_again(stage: Stage) -> None:
    """A muscle made anew in the same phase knows nothing: it gets the newest update."""
    stage.setup(lambda brain, muscle, data: "u")
    stage.join()
    stage.hosted.ask("brain.leave", BrainLeave(0))

    assert Thought("u", True) == stage.join()


def test_an_update_is_sent_once(stage: Stage) -> None:
    """Only what a muscle does not have yet travels."""
    stage.setup(lambda brain, muscle, data: data)
    stage.join()

    assert [Thought("u", True), Thought(), Thought(), Thought("v", True)] == [
        stage.think(0, "u"),
        stage.update(),
        stage.think(0, None),
        stage.think(0, "v"),
    ]


@pytest.mark.parametrize(
    ("value", "fresh"), [(None, False), (0, False), ({}, False), (False, False), ([0], True), (7, True)]
)
def test_what_is_false_is_no_update(stage: Stage, value: Any, fresh: bool) -> None:
    """None and what `bool` calls false are no update."""
    stage.setup()
    stage.join()
    stage.brain.answer = lambda brain, muscle, data: value

    assert fresh == stage.think().fresh


def test_an_array_is_an_update(stage: Stage) -> None:
    """An array of zeros is an update too."""
    stage.setup(lambda brain, muscle, data: np.zeros(1))

    assert {"dtype": "<f8", "shape": [1], "data": bytes(8)} == stage.think().update


def test_an_update_for_some_reaches_only_them(stage: Stage) -> None:
    """Others keep what was for all, and get it if they had not yet."""
    stage.setup()
    for worker in range(3):
        stage.join(worker)
    answers: list[Any] = [{"for": "all"}, Update({"for": "one"}, only=["a/1"])]
    stage.brain.answer = lambda brain, muscle, data: answers.pop(0)
    stage.think(0)
    stage.think(0)

    assert [Thought({"for": "one"}, True), Thought({"for": "all"}, True)] == [stage.update(1), stage.update(2)]


def test_an_update_for_all_replaces_those_for_some(stage: Stage) -> None:
    """The newest counts."""
    stage.setup()
    answers: list[Any] = [Update("old", only=["a/1"]), "new"]
    stage.brain.answer = lambda brain, muscle, data: answers.pop(0)
    stage.think(0)
    stage.think(0)

    assert Thought("new", True) == stage.update(1)


@pytest.mark.parametrize(("only", "found"), [(["b/0"], "b/0"), ("a/0", "a/0"), ("b/0", "b/0")])
def test_an_update_for_nobody_we_know_is_refused(stage: Stage, only: Any, found: str) -> None:
    """A muscle that there is not is the author's mistake."""
    stage.setup(lambda brain, muscle, data: Update(1, only=only))
    with pytest.raises(AuthorError, match=rf"Update\.only: expected a list of some of a/0, a/1, a/2, found '{found}'"):
        stage.think()


def test_an_update_that_cannot_travel_is_refused_with_its_path(stage: Stage) -> None:
    """The message begins with the path, the place names the brain."""
    stage.setup(lambda brain, muscle, data: {"layers": [1, object()]})
    with pytest.raises(AuthorError, match=r"\Aupdate\.layers\[1\]: a builtins\.object cannot travel") as caught:
        stage.think()

    assert "brain a, class FakeBrain, step 2, hook thinking" == failure_of(caught.value).where


# -- rows -------------------------------------------------------------------------------------------------------------
def test_what_a_brain_does_to_its_data_is_not_in_the_memory(stage: Stage) -> None:
    """The data that `thinking` gets are its own; the row keeps what came."""
    stage.setup()
    stage.brain.answer = lambda brain, muscle, data: data and data["seen"].append(data.pop("more"))
    stage.think(data={"seen": [1], "more": 2})

    assert {"seen": [1], "more": 2} == stage.brain.memory.tail(1).additional_data[0]


def test_the_row_is_in_the_memory_when_it_is_thought_about(stage: Stage) -> None:
    """All columns of the row are there, under the muscle's uid, with the data that came."""
    stage.setup()
    rows: list[Any] = []

    def answer(brain: Any, muscle: str, data: Any) -> None:
        shard = brain.memory.tail(1)
        rows.append(
            [
                shard.sensor_readings["w.s"].tolist(),
                shard.actuator_setpoints["w.a"].tolist(),
                shard.applied_setpoints["w.a"].tolist(),
                shard.rewards["w.r"].tolist(),
                shard.objective.tolist(),
                shard.next_readings["w.s"].tolist(),
                [bool(shard.terminated[0]), bool(shard.truncated[0]), bool(shard.dones[0])],
                [int(shard.decision_index[0]), int(shard.episode[0])],
                shard.additional_data[0],
                brain.memory.tags,
            ]
        )

    stage.brain.answer = answer
    stage.think(1, {"d": 1}, truncated=True, proposed=[[7]])

    assert [[[1], [7], [2], [0.5], [0.25], [3], [False, True, True], [2, 4], {"d": 1}, ["a/1"]]] == rows


def test_missing_values_are_missing(stage: Stage) -> None:
    """No objective and a reward that was not given are not numbers in the memory."""
    stage.setup()
    stage.ask("brain.think", Think(0, 0, 0, [[1]], [[2]], [[None]], [None], [[3]]))
    shard = stage.brain.memory.tail(1)

    assert (True, True) == (bool(np.isnan(shard.objective[0])), bool(np.isnan(shard.rewards.values[0, 0])))


def test_rewards_may_be_declared_by_the_first_row(stage: Stage) -> None:
    """Where nobody knew the rewards at setup, the first row of each muscle brings them; undeclared ones are refused."""
    stage.setup(rewards=None)
    with pytest.raises(RemoteProtocolError, match=r"think\.rewards: they were not declared"):
        stage.think()
    for worker in (0, 1):
        stage.think(worker, reward_ids=[declared("w.late", UNIT)])

    assert ["w.late"] == list(stage.brain.memory.tail(2).rewards.columns)


def test_a_wish_for_an_update_is_no_row(stage: Stage) -> None:
    """The first decision of an episode asks without thinking."""
    stage.setup()
    stage.update()

    assert (["setup"], 0) == (stage.brain.log, len(stage.brain.memory))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_round_is_thought_about_in_the_order_of_workers(stage: Stage, order: tuple[int, ...]) -> None:
    """Whatever arrives first: nothing is thought before all are there, then by worker; all get the newest update."""
    stage.setup()
    stage.brain.answer = lambda brain, muscle, data: {"after": len(brain.memory)}
    serials = {}
    early = []
    for worker in order:
        early.append(len(stage.brain.log) - 1)
        if worker == 1:  # begins an episode
            serials[1] = stage.send("brain.update", UpdateAsked(1, 5, [0, 1, 2]))
        else:
            serials[worker] = stage.send("brain.think", row(worker, worker, round=5, workers=[0, 1, 2]))
    answers = [stage.link.replied(serials[w], "brain.think") for w in range(3)]

    assert ([0, 0, 0], [("a/0", 0, 1), ("a/2", 2, 2)]) == (early, stage.brain.log[1:])
    assert [Thought({"after": 2}, True)] * 3 == answers


def test_rounds_do_not_mix(stage: Stage) -> None:
    """A fast worker's row of the next round waits for the others of that round."""
    stage.setup()
    stage.send("brain.think", row(0, "early", round=6, workers=[0, 1]))
    stage.send("brain.think", row(0, "first", round=5, workers=[0, 1]))
    stage.send("brain.think", row(1, "second", round=5, workers=[0, 1]))

    assert ["first", "second"] == [entry[1] for entry in stage.brain.log[1:]]


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
def test_a_signal_goes_to_whose_row_it_answers(stage: Stage) -> None:
    """In a round each worker gets the signal that was given while its row was thought about; it is given once."""
    stage.setup()
    stage.brain.answer = lambda brain, muscle, data: brain.signal(Signal.RESET, muscle) if muscle == "a/1" else None
    serials = [stage.send("brain.think", row(w, round=5, workers=[0, 1])) for w in (0, 1)]
    answers = [stage.link.replied(serial, "brain.think").signal for serial in serials]

    assert [None, {"signal": "RESET", "reason": "a/1"}] == answers
    assert stage.update(1).signal is None


@pytest.mark.parametrize("signal", [Signal.PAUSE, Signal.RESTART, Signal.STOP_SIMULATION, Signal.STOP_PHASE])
def test_a_brain_may_signal_up_to_stop_phase(stage: Stage, signal: Signal) -> None:
    """All that ends no more than the phase passes."""
    stage.setup(lambda brain, muscle, data: brain.signal(signal, "why"))

    assert {"signal": signal.name, "reason": "why"} == stage.think().signal


def test_a_brain_may_not_end_the_run(stage: Stage) -> None:
    """SHUTDOWN is not a brain's to give."""
    stage.setup(lambda brain, muscle, data: brain.signal(Signal.SHUTDOWN))
    with pytest.raises(AuthorError, match="a brain may signal up to STOP_PHASE, found SHUTDOWN") as caught:
        stage.think()

    assert "brain a, class FakeBrain, step 2, hook thinking" == failure_of(caught.value).where


# -- models -----------------------------------------------------------------------------------------------------------
def test_store_writes_model_and_policy(stage: Stage) -> None:
    """The arrays of the brain and its last update are stored side by side, and said with their count of updates."""
    stage.setup(lambda brain, muscle, data: {"w": data})
    stage.think(0, 1)
    stage.think(0, 2)
    stage.brain.value = np.ones(2)
    files = stage.hosted.ask("brain.store", BrainStore()).files
    models = Models(stage.folder / "own")

    assert [("", 2), ("policy", 2)] == [(row["tag"], row["updates"]) for row in files]
    assert ([1.0, 1.0], {"w": 2}) == (models.load()["value"].tolist(), models.load("policy"))


def test_without_an_update_there_is_no_policy(stage: Stage) -> None:
    """A brain that has sent nothing has only a model."""
    stage.setup()

    assert [""] == [row["tag"] for row in stage.hosted.ask("brain.store", BrainStore()).files]


def test_the_policy_is_what_was_sent(stage: Stage) -> None:
    """Arrays that their author goes on changing are stored as they were when they were the update."""
    stage.setup(lambda brain, muscle, data: {"w": brain.value})
    stage.think()
    stage.brain.value += 9.0
    stage.hosted.ask("brain.store", BrainStore())

    assert [0.0, 0.0] == Models(stage.folder / "own").load("policy")["w"].tolist()


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


def test_load_comes_after_setup(stage: Stage) -> None:
    """A model is loaded after `setup`, its policy is the last update, which is the initial one for who joins."""
    models = Models(stage.folder / "earlier")
    models.save({"value": np.full(2, 3.0)})
    models.save_value({"w": 5}, "policy")
    stage.setup(load=str(stage.folder / "earlier"))

    assert (["setup", "load"], [3.0, 3.0]) == (stage.brain.log, stage.brain.value.tolist())
    assert (Thought({"w": 5}, True), ["setup", "load"]) == (stage.join(), stage.brain.log)


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


def test_hooks_may_be_async(hosted: Any, loader: Any, tmp_path: Path) -> None:
    """Every hook may be `async def`; the default initial update awaits an async `thinking`."""

    class Slow(FakeBrain):
        async def setup(self) -> None:  # type: ignore[override]
            self.log.append("setup")

        async def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
            return super().thinking(muscle_id, data_from_muscle)

        async def store(self) -> None:  # type: ignore[override]
            self.log.append("store")

    it = Stage(hosted, loader, tmp_path, Slow)
    it.setup(lambda brain, muscle, data: {"data": data})
    joined, thought = it.join(), it.think(0, 1)
    it.hosted.ask("brain.store", BrainStore())
    log = it.brain.log
    it.hosted.ask("brain.shutdown", Nothing())

    assert (Thought({"data": None}, True), Thought({"data": 1}, True)) == (joined, thought)
    assert ("setup", "store") == (log[0], log[-1])


# -- answers before thoughts -------------------------------------------------------------------------------------------
def count(brain: Any, muscle: str, data: Any) -> int:
    """Return how many rows there are: an update that says which rows it knows."""
    return len(brain.memory)


def test_pipelined_a_round_acts_by_the_update_of_the_round_before(stage: Stage) -> None:
    """Each row is answered at once, with the update of the rounds before it; then the whole round is thought about."""
    stage.setup(count, sync="pipelined")
    stage.join(0), stage.join(1)
    both = [0, 1]
    first = [stage.think(worker, round=1, workers=both) for worker in (1, 0)]
    second = [stage.think(worker, round=2, workers=both) for worker in (0, 1)]
    third = [stage.think(worker, round=3, workers=both) for worker in (1, 0)]

    assert [False, False] == [thought.fresh for thought in first]
    assert [2, 2] == [thought.update for thought in second]
    assert [4, 4] == [thought.update for thought in third]
    asked = [entry[0] for entry in stage.brain.log if isinstance(entry, tuple) and entry[1:] != (None, 0)]
    assert ["a/0", "a/1"] * 3 == asked, "rows are thought about in the order of workers"


def test_pipelined_who_arrives_first_changes_no_answer(stage: Stage) -> None:
    """Within a round the first and the last to ask get the same update."""
    stage.setup(count, sync="pipelined")
    stage.join(0), stage.join(1), stage.join(2)
    found = []
    for number, order in enumerate(itertools.permutations((0, 1, 2))):
        thoughts = {w: stage.think(w, round=number, workers=[0, 1, 2]) for w in order}
        found.append([thoughts[w].update if thoughts[w].fresh else None for w in (0, 1, 2)])

    assert all(row[0] == row[1] == row[2] for row in found)
    assert [None, 3, 6, 9, 12, 15] == [row[0] for row in found]


def test_async_a_row_is_answered_by_what_is_known_and_thought_about_alone(stage: Stage) -> None:
    """An update comes with the next answer, whoever else has or has not asked."""
    stage.setup(count, sync="async")
    stage.join(0), stage.join(1)

    assert not stage.think(0).fresh
    assert stage.think(0).update == 1
    assert stage.think(1).update == 2


def test_a_signal_of_a_thought_comes_with_the_next_answer_to_its_muscle(stage: Stage) -> None:
    """Pipelined, the wish of the thought about a row is carried in the answer to that muscle's next row."""

    def wish(brain: Any, muscle: str, data: Any) -> None:
        if data == "stop":
            brain.signal(Signal.STOP_PHASE, "enough")

    stage.setup(wish, sync="pipelined")
    stage.join()

    assert stage.think(data="stop").signal is None
    assert stage.think().signal == {"signal": "STOP_PHASE", "reason": "enough"}
    assert stage.think().signal is None


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
def test_the_policy_is_the_newest_update(stage: Stage) -> None:
    """A muscle that evaluates gets it as often as it asks; before there is one it gets none."""
    stage.setup(lambda brain, muscle, data: data)
    stage.think(data={"w": 1})
    found = [stage.link.replied(stage.hosted.ask("brain.policy", Nothing()), "brain.policy") for _ in range(2)]

    assert [(True, {"w": 1})] * 2 == [(thought.fresh, thought.update) for thought in found]
    assert {"w": 2} == stage.think(data={"w": 2}).update, "who trains is not concerned"


def test_before_any_update_there_is_no_policy(stage: Stage) -> None:
    """Who asks then is told that there is none."""
    stage.setup()

    assert not stage.hosted.ask("brain.policy", Nothing()).fresh


EPISODE = {
    "worker": 1,
    "episode": 2,
    "steps": 3,
    "objective_mean": 0.5,
    "objective_sum": None,
    "terminated": True,
    "truncated": False,
}


def evaluate(stage: Stage, result: Any) -> Any:
    """Let the brain answer an evaluation with this."""
    stage.setup()
    seen: list[Any] = []
    stage.brain.evaluate = lambda evaluation: seen.append(evaluation) or result  # type: ignore[func-returns-value]
    found = stage.hosted.ask("brain.evaluate", BrainEvaluate(4, [dict(EPISODE)]))
    assert (4, (EpisodeSummary(**EPISODE),)) == (seen[0].number, seen[0].episodes)
    return found


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, BrainEvaluated({})),
        ({"skill": np.float32(0.5)}, BrainEvaluated({"skill": 0.5})),
        (EvaluationResult({"a": 1}, "best", "00ff"), BrainEvaluated({"a": 1.0}, "best", "00ff")),
    ],
)
def test_a_brain_reports_metrics(stage: Stage, result: Any, expected: BrainEvaluated) -> None:
    """It sees the episodes, and gives nothing, a map or a result; numbers travel as such."""
    assert expected == evaluate(stage, result)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"skill": float("nan")}, "metrics.skill: expected a finite number, found nan"),
        ({"skill": "high"}, "metrics.skill: expected a number, found 'high'"),
        ({1: 2.0}, "metrics: the names are texts, found 1"),
        (EvaluationResult([1]), "metrics: expected a map name -> number, found list"),  # type: ignore[arg-type]
    ],
)
def test_wrong_metrics_are_the_brains_fault(stage: Stage, result: Any, text: str) -> None:
    """What cannot be stored is refused by name."""
    with pytest.raises(AuthorError, match=re.escape(text)):
        evaluate(stage, result)


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


def test_a_batched_brain_learns_from_a_whole_round_at_once(arrays: Stage) -> None:
    """In lockstep the rows of a round come in one call, in the order of workers, and are in the memory before it."""
    arrays.setup(lambda brain, _, batch: batch.observations + len(batch))
    awaited = {"round": 0, "workers": [0, 1, 2]}
    asked = [arrays.send("brain.think", row(worker, worker * 10, **awaited)) for worker in (2, 0)]
    asked.append(arrays.send("brain.update", UpdateAsked(1, 0, [0, 1, 2])))

    ((batch, remembered),) = arrays.brain.log[1:]
    assert (["a/0", "a/2"], [0, 20], 2) == (batch.muscle, batch.data, remembered)
    assert ([[1], [1]], [[2], [2]], [[3], [3]]) == (
        batch.observations.tolist(), batch.actions.tolist(), batch.next_observations.tolist(),
    )  # fmt: skip
    assert ([0.25, 0.25], [2, 2], [4, 4]) == (
        batch.objectives.tolist(), batch.step.tolist(), batch.episode.tolist(),
    )  # fmt: skip
    answers = [arrays.link.replied(serial, "brain.think") for serial in asked]
    assert 1 == len({str(answer.update) for answer in answers})


def test_a_round_without_a_row_is_nothing_to_learn_from(arrays: Stage) -> None:
    """Who only asks for news gives no row."""
    arrays.setup()
    arrays.update()

    assert ["setup"] == arrays.brain.log


def test_a_batched_brain_may_do_without_the_memory(arrays: Stage) -> None:
    """With a limit of 0 rows go to `learn` only."""
    arrays.setup()
    arrays.brain.memory.size_limit = 0
    arrays.think()

    assert [(1, 0)] == [(len(batch), remembered) for batch, remembered in arrays.brain.log[1:]]


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


def test_what_goes_wrong_in_learn_is_blamed_on_it(arrays: Stage) -> None:
    """The error names the hook."""

    def fail(brain: Any, _: str, batch: Any) -> None:
        raise ValueError("no")

    arrays.setup(fail)
    with pytest.raises(AuthorError, match="ValueError: no") as found:
        arrays.send("brain.think", row())

    assert "hook learn" in "".join(found.value.__notes__)


def test_the_default_array_form_is_the_other_one(hosted: Any, loader: Any, tmp_path: Path) -> None:
    """A brain that says `batched` and has only `thinking` is asked by it, row by row, with its own signals."""

    class Thinks(FakeBrain):
        batched = True

    stage = Stage(hosted, loader, tmp_path, Thinks)
    stage.setup(lambda brain, muscle, _: brain.signal(Signal.RESET) if muscle == "a/1" else None)
    awaited = {"round": 0, "workers": [0, 1]}
    asked = [stage.send("brain.think", row(worker, **awaited)) for worker in (0, 1)]

    assert [("a/0", None, 1), ("a/1", None, 2)] == stage.brain.log[1:]
    assert [False, True] == [stage.link.replied(serial, "brain.think").signal is not None for serial in asked]


def test_statistics_go_out_with_the_answer_about_their_row(stage: Stage) -> None:
    """Each thought may note the same key anew; what an initial update notes goes with the first answer."""

    def answer(brain: FakeBrain, muscle: str, data: Any) -> Any:
        brain.add_statistics("rows", len(brain.memory))

    stage.setup(answer)
    assert {"brain.rows": 0.0} == stage.join(0).statistics
    assert {"brain.rows": 0.0} == stage.join(1).statistics
    assert [{"brain.rows": 1.0}, {"brain.rows": 2.0}] == [stage.think(n).statistics for n in (0, 1)]
    assert stage.update(0).statistics is None
