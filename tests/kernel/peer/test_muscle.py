from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, CallFailed, OutOfActionSpaceError, RemoteProtocolError
from ganglion.peer.failure import failure_of
from ganglion.peer.layout import freeze
from ganglion.peer.muscle import MuscleHost
from ganglion.sdk import ActuatorInformation, Box, Discrete, Muscle, Objective
from ganglion.sdk.flow import Mode
from ganglion.sdk.models import Models
from ganglion.sdk.seed import words
from ganglion.wire.messages import (
    Act,
    Acted,
    BrainJoin,
    Done,
    Failure,
    MuscleReset,
    MuscleSetup,
    Nothing,
    Think,
    Thought,
    UpdateAsked,
)

STREAM, OTHER = words(1, ["muscle"]), words(1, ["objective"])
UNIT, TEN, PAIR = Box(0.0, 1.0, ()), Discrete(10), Box(0.0, 1.0, (2,))
BRAIN = "r/brain/a"


def declared(uid: str, space: Any, value: Any = None) -> dict[str, Any]:
    """Return a declaration as it travels."""
    return {"id": uid, "space": space.to_wire()} | ({} if value is None else {"value": value})


class FakeMuscle(Muscle):
    """Propose what it is told to, and write down everything that happens."""

    def __init__(self, **params: Any) -> None:
        self.log: list[Any] = []
        self.proposal: Callable[[FakeMuscle, list[Any], list[Any]], Any] = echo

    def setup(self) -> None:
        self.log.append("setup")

    def prepare_model(self) -> None:
        self.log.append("prepare_model")
        super().prepare_model()

    def update(self, update: Any) -> None:
        self.log.append(("update", update))

    def propose_actions(self, sensors: list[Any], actuators_available: list[Any]) -> Any:
        self.log.append(("propose", [it.value for it in sensors]))
        return self.proposal(self, sensors, actuators_available)

    def reset(self) -> None:
        self.log.append("reset")

    def teardown(self) -> None:
        self.log.append("teardown")


def echo(muscle: FakeMuscle, sensors: list[Any], actuators: list[Any]) -> Any:
    """Set each actuator to the number of the proposal, and send it along."""
    number = sum(entry[0] == "propose" for entry in muscle.log)
    for it in actuators:
        it.value = number
    return actuators, {"number": number}


class FakeObjective(Objective):
    """Return the sum of the newest rewards, and keep the row that it saw."""

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.result: Callable[[float], Any] = lambda total: total

    def internal_reward(self, memory: Any, **kwargs: Any) -> Any:
        shard = memory.tail(1)
        self.rows.append(
            {
                "readings": shard.sensor_readings.values[0].tolist(),
                "setpoints": shard.actuator_setpoints.values[0].tolist(),
                "rewards": shard.rewards.values[0].tolist(),
                "next": shard.next_readings.values[0].tolist(),
                "decision": int(shard.decision_index[0]),
                "episode": int(shard.episode[0]),
                "terminated": bool(shard.terminated[0]),
                "data": shard.additional_data[0],
                "tag": memory.tags,
            }
        )
        return self.result(float(np.nansum(shard.rewards.values.astype(float))))


class Stage:
    """Stand a host of one fake muscle whose brain answers by a script."""

    def __init__(self, hosted: Any, loader: Any, cls: type[Any] = FakeMuscle) -> None:
        self.hosted = hosted(MuscleHost(loader(muscle=cls, objective=FakeObjective)))
        self.link = self.hosted.link
        self.thoughts: list[Thought | Failure] = []
        think = lambda peer, message: self.thoughts.pop(0) if self.thoughts else Thought()  # noqa: E731
        self.link.answers |= {
            "brain.join": think,
            "brain.think": think,
            "brain.update": think,
            "brain.leave": lambda peer, message: Done(),
        }

    def setup(self, **fields: Any) -> Any:
        plugin = {"name": "own", "params": {}}
        chosen: dict[str, Any] = {
            "mode": "train",
            "sensors": [declared("w.s", TEN)],
            "actuators": [declared("w.a", TEN, 3)],
            "rewards": [declared("w.r", UNIT)],
            "brain": BRAIN,
        } | fields
        message = MuscleSetup(
            "r",
            0,
            "one",
            chosen.pop("mode"),
            0,
            "a",
            plugin,
            plugin,
            chosen.pop("sensors"),
            chosen.pop("actuators"),
            chosen.pop("rewards"),
            STREAM,
            OTHER,
            **chosen,
        )
        return self.hosted.ask("muscle.setup", message)

    def act(self, reading: Any = 0, rewards: list[Any] | None = None, **fields: Any) -> Acted:
        rows = None if rewards is None else [rewards]
        found: Acted = self.hosted.ask("muscle.act", Act([[reading]], rows, **fields))
        return found

    def close(self, reading: Any = 0, rewards: list[Any] | None = None, **fields: Any) -> Acted:
        return self.act(reading, rewards, decide=False, closing=True, **fields)

    @property
    def muscle(self) -> Any:
        return self.hosted.host._muscle

    @property
    def objective(self) -> Any:
        return self.hosted.host._objective

    def thought(self) -> list[Think]:
        return [message for _, message in self.link.asked("brain.think")]


@pytest.fixture
def stage(hosted: Any, loader: Any) -> Stage:
    """Return a host of a fake muscle."""
    return Stage(hosted, loader)


# -- a phase ----------------------------------------------------------------------------------------------------------
def test_in_train_the_newest_update_comes_after_setup(stage: Stage) -> None:
    """A muscle joins its brain once it is set up, and takes what the brain has for it."""
    stage.thoughts = [Thought(42, True)]
    stage.setup()

    assert ["setup", ("update", 42)] == stage.muscle.log
    assert [(BRAIN, BrainJoin(0))] == stage.link.asked("brain.join")


def test_a_brain_that_has_nothing_updates_nothing(stage: Stage) -> None:
    """Without a fresh update `update` is not called."""
    stage.setup()

    assert ["setup"] == stage.muscle.log


def test_passing_keeps_the_round_going(stage: Stage) -> None:
    """Who passes has no row: the brain is asked for its news only, and the open decision stays open."""
    stage.setup()
    stage.act(1)
    stage.thoughts = [Thought("new", True, {"signal": "RESET", "reason": "enough"})]
    passed = stage.hosted.ask("muscle.act", Act([], decide=False, round=4, workers=[0, 1], passing=True))

    assert Acted(signal={"signal": "RESET", "reason": "enough"}) == passed
    assert UpdateAsked(0, 4, [0, 1]) == stage.link.asked("brain.update")[-1][1]
    assert [] == stage.thought()
    stage.act(2, [0.5], round=5, workers=[0, 1])
    assert [(0, [[1]], [[0.5]], 5)] == [(t.decision, t.readings, t.rewards, t.round) for t in stage.thought()]
    assert ["setup", ("propose", [1]), ("update", "new"), ("propose", [2])] == stage.muscle.log


def test_without_a_brain_passing_is_nothing(stage: Stage) -> None:
    """In test nobody awaits a row."""
    stage.setup(mode="test", brain=None)

    assert Acted() == stage.hosted.ask("muscle.act", Act([], decide=False, passing=True))
    assert [] == stage.link.calls()


def test_null_may_be_an_update(stage: Stage) -> None:
    """Whether there is an update is said apart from what it is."""
    stage.thoughts = [Thought(None, True)]
    stage.setup()

    assert ["setup", ("update", None)] == stage.muscle.log


@pytest.mark.parametrize("mode", ["test", "train"])
def test_without_a_brain_the_model_is_prepared(stage: Stage, mode: str, tmp_path: Path) -> None:
    """In test the stored policy, the brain's last update, is given to `update`; nobody is asked."""
    Models(tmp_path).save_value({"w": [1.0, 2.0]}, "policy")
    stage.setup(mode=mode, brain=None, models=str(tmp_path))
    stage.act()
    stage.close(1, [0.5])

    assert ["setup", "prepare_model", ("update", {"w": [1.0, 2.0]}), ("propose", [0])] == stage.muscle.log
    assert [] == stage.link.calls()


def test_without_a_model_nothing_is_prepared(stage: Stage) -> None:
    """Where `load` points at nothing there is no update."""
    stage.setup(mode="test", brain=None)

    assert ["setup", "prepare_model"] == stage.muscle.log


def test_a_muscle_knows_itself(stage: Stage) -> None:
    """Its uid has the worker, its name is the agent's; the actuators carry their no-op, the sensors no value."""
    stage.setup(static_models={"w": {"width": 3}})
    muscle = stage.muscle

    assert ("a/0", "a", 0, Mode.TRAIN) == (muscle.uid, muscle.name, muscle.worker, muscle.mode)
    assert [("w.s", None)] == [(it.uid, it.value) for it in muscle.sensors]
    assert [("w.a", 3)] == [(it.uid, it.value) for it in muscle.actuators]
    assert {"w": {"width": 3}} == muscle.static_world_models


def test_muscle_and_objective_draw_from_streams_of_their_own(stage: Stage) -> None:
    """One more draw of an objective changes no decision."""
    stage.setup()

    assert stage.muscle.seed != stage.objective.seed
    assert ("a/0", 0) == (stage.objective.uid, stage.objective.worker)


def test_shutdown_leaves_the_brain_and_tears_down(stage: Stage) -> None:
    """The brain is told, then `teardown` is called, once."""
    stage.setup()
    muscle = stage.muscle
    for _ in range(2):
        stage.hosted.ask("muscle.shutdown", Nothing())

    assert ("teardown", 1) == (muscle.log[-1], muscle.log.count("teardown"))
    assert [BRAIN] == [peer for peer, _ in stage.link.asked("brain.leave")]


@pytest.mark.parametrize(("call", "message"), [("muscle.act", Act([[0]])), ("muscle.reset", MuscleReset(1))])
def test_setup_comes_first(stage: Stage, call: str, message: Any) -> None:
    """Before its setup there is no muscle."""
    with pytest.raises(RemoteProtocolError, match=r"expected muscle\.setup first"):
        stage.hosted.ask(call, message)


# -- decisions --------------------------------------------------------------------------------------------------------
def test_the_first_decision_asks_for_the_newest_update(stage: Stage) -> None:
    """Without a row the brain is asked for its update only, and it is applied before the decision."""
    stage.setup()
    stage.thoughts = [Thought("new", True)]
    answer = stage.act(4, round=3, workers=[0, 1])

    assert ["setup", ("update", "new"), ("propose", [4])] == stage.muscle.log
    assert [(BRAIN, UpdateAsked(0, 3, [0, 1]))] == stage.link.asked("brain.update")
    assert Acted([[1]]) == answer


def test_a_decision_is_completed_by_the_next(stage: Stage) -> None:
    """The next act brings rewards and readings: objective, row and data go to the brain, its update comes back."""
    stage.setup()
    stage.act(4)
    stage.thoughts = [Thought("new", True, {"signal": "RESET", "reason": "enough"})]
    answer = stage.act(5, [0.25], round=1, workers=[0])

    assert [Think(0, 0, 0, [[4]], [[1]], [[0.25]], [0.25], [[5]], data={"number": 1}, round=1, workers=[0])] == [
        replace_ids(think) for think in stage.thought()
    ]
    assert Acted([[2]], None, [0.25], {"signal": "RESET", "reason": "enough"}) == answer
    assert [("update", "new"), ("propose", [5])] == stage.muscle.log[-2:]


def replace_ids(think: Think) -> Think:
    """Return the row without the declarations of its rewards."""
    import dataclasses

    return dataclasses.replace(think, reward_ids=None)


def test_rewards_are_declared_to_the_brain_once(stage: Stage) -> None:
    """The first row says what rewards there are, later ones do not."""
    stage.setup()
    stage.act()
    stage.act(1, [0.1])
    stage.act(2, [0.2])

    assert [["w.r"], None] == [
        think.reward_ids and [row["id"] for row in think.reward_ids] for think in stage.thought()
    ]


def test_rewards_may_come_with_the_first_act_that_brings_some(stage: Stage) -> None:
    """Where environments declare their rewards by the first update, the second act tells them."""
    stage.setup(rewards=None)
    stage.act()
    answer = stage.act(1, [0.5], reward_ids=[declared("w.late", UNIT)])

    assert ([0.5], ["w.late"]) == (answer.objective, [row["id"] for row in stage.thought()[0].reward_ids or []])


def test_rewards_that_were_never_declared_are_refused(stage: Stage) -> None:
    """Numbers that nobody has named are no rewards."""
    stage.setup(rewards=None)
    stage.act()
    with pytest.raises(RemoteProtocolError, match=r"act\.rewards: they were not declared"):
        stage.act(1, [0.5])


def test_the_row_is_complete_when_the_objective_is_asked(stage: Stage) -> None:
    """`memory.tail(1)` is the decision: readings, applied setpoints, rewards, what came of it, data, numbers."""
    stage.setup()
    stage.act(4)
    stage.act(5, [0.25])

    assert [
        {
            "readings": [4],
            "setpoints": [1],
            "rewards": [0.25],
            "next": [5],
            "decision": 0,
            "episode": 0,
            "terminated": False,
            "data": {"number": 1},
            "tag": ["a/0"],
        }
    ] == stage.objective.rows


def test_the_objective_stands_in_the_memory(stage: Stage) -> None:
    """What `internal_reward` returned is in the row from then on; None is missing."""
    stage.setup()
    stage.act()
    stage.act(1, [0.25])
    stage.objective.result = lambda total: None
    answer = stage.act(2, [0.5])
    objective = stage.muscle.memory.tail(2).objective

    assert ([None], 0.25, True) == (answer.objective, float(objective[0]), bool(np.isnan(objective[1])))


@pytest.mark.parametrize("result", [float("nan"), "much", [1.0, 2.0]])
def test_an_objective_is_a_number(stage: Stage, result: Any) -> None:
    """Anything else that `internal_reward` returns is blamed on it."""
    stage.setup()
    stage.act()
    stage.objective.result = lambda total: result
    with pytest.raises(AuthorError, match="internal_reward: expected one number or None") as caught:
        stage.act(1, [0.5])

    assert (failure_of(caught.value).where or "").endswith("step 0, hook internal_reward")


def test_a_failing_objective_is_blamed_on_its_class(stage: Stage) -> None:
    """The failure names the objective and its class, not the muscle's."""
    stage.setup()
    stage.act()
    stage.objective.result = lambda total: 1 / 0
    with pytest.raises(AuthorError) as caught:
        stage.act(1, [0.5])

    assert (
        "objective of a (worker 0), class FakeObjective, step 0, hook internal_reward" == failure_of(caught.value).where
    )


def test_statistics_go_with_their_decision(stage: Stage) -> None:
    """What the muscle counted while it decided comes with the setpoints, once."""
    stage.setup()

    def proposal(muscle: Any, sensors: Any, actuators: Any) -> Any:
        if len(muscle.log) < 3:
            muscle.add_statistics("entropy", 0.5)
        return echo(muscle, sensors, actuators)

    stage.muscle.proposal = proposal

    assert [{"entropy": 0.5}, None] == [stage.act().statistics, stage.act(1, [0.5]).statistics]


def test_statistics_of_the_brain_go_with_the_decision_that_was_completed(stage: Stage) -> None:
    """What came when nothing was completed waits for the next that is; the end of an episode has them, too."""
    stage.thoughts = [Thought(statistics={"brain.first": 1.0}), Thought(statistics={"brain.loss": 2.0})]
    stage.setup()
    assert stage.act().learned is None
    stage.thoughts = [Thought(statistics={"brain.loss": 3.0}), Thought(), Thought(statistics={"brain.loss": 4.0})]
    found = [stage.act(1, [0.5]), stage.act(2, [0.5])]
    closing = stage.act(3, [0.5], decide=False, closing=True, terminated=True)

    assert {"brain.first": 1.0, "brain.loss": 3.0} == found[0].learned
    assert (None, {"brain.loss": 4.0}) == (found[1].learned, closing.learned)


def test_new_actuators_in_any_order_are_taken(stage: Stage) -> None:
    """The proposal is known by id."""
    stage.setup(actuators=[declared("w.a", TEN), declared("w.b", UNIT)])
    stage.muscle.proposal = lambda muscle, sensors, actuators: [
        ActuatorInformation(0.5, UNIT, "w.b"),
        ActuatorInformation(7, TEN, "w.a"),
    ]

    assert [[7, 0.5]] == stage.act().setpoints


@pytest.mark.parametrize(
    ("proposal", "error", "text"),
    [
        (lambda m, s, a: a, AuthorError, "actuator w.a has no value"),
        (lambda m, s, a: [], AuthorError, "actuator w.a has no value"),
        (lambda m, s, a: [*a, ActuatorInformation(1, TEN, "w.x")], AuthorError, "there is no actuator w.x"),
        (lambda m, s, a: 5, AuthorError, "expected a list of ActuatorInformation"),
        (lambda m, s, a: a[0](10), OutOfActionSpaceError, "setpoint w.a: .*10"),
        (lambda m, s, a: [ActuatorInformation(10, Discrete(99), "w.a")], OutOfActionSpaceError, "setpoint w.a: .*10"),
        (lambda m, s, a: 1 / 0, AuthorError, "ZeroDivisionError"),
    ],
)
def test_a_wrong_proposal_is_blamed(stage: Stage, proposal: Any, error: Any, text: str) -> None:
    """A missing, unknown or impossible setpoint is refused by id, with muscle, class, step and hook."""
    stage.setup()
    stage.muscle.proposal = proposal
    with pytest.raises(error, match=text) as caught:
        stage.act()

    assert "muscle a (worker 0), class FakeMuscle, step 0, hook propose_actions" == failure_of(caught.value).where


def test_what_cannot_travel_is_refused_with_its_path(stage: Stage) -> None:
    """Data for the brain that no message can hold are blamed on the hook that gave them."""
    stage.setup()
    stage.muscle.proposal = lambda muscle, sensors, actuators: (echo(muscle, sensors, actuators)[0], {"net": object()})
    with pytest.raises(AuthorError, match=r"\Apropose_actions\[1\]\.net: a builtins\.object cannot travel"):
        stage.act()


def test_data_are_frozen_when_they_are_returned(stage: Stage) -> None:
    """What an author changes later changes nothing of what the brain gets, and nothing of the muscle's memory."""
    stage.setup()
    kept = {"weights": [1.0], "array": np.zeros(2)}
    stage.muscle.proposal = lambda muscle, sensors, actuators: (echo(muscle, sensors, actuators)[0], kept)
    stage.act()
    kept["weights"].append(2.0)  # type: ignore[union-attr]
    kept["array"] += 1.0  # type: ignore[operator]
    stage.act(1, [0.5])
    remembered = stage.muscle.memory.tail(1).additional_data[0]

    assert {"weights": [1.0], "array": {"dtype": "<f8", "shape": [2], "data": bytes(16)}} == stage.thought()[0].data
    assert ([1.0], [0.0, 0.0]) == (remembered["weights"], remembered["array"].tolist())


def test_large_arrays_travel_apart(stage: Stage) -> None:
    """Data and updates with large arrays use frames of their own, in both directions; what comes is read-only."""
    stage.setup()
    array = np.arange(20_000.0)
    stage.muscle.proposal = lambda muscle, sensors, actuators: (echo(muscle, sensors, actuators)[0], array)
    blobs: list[bytes] = []
    update = freeze({"w": array}, blobs, "update")
    stage.act()
    stage.link.answers["brain.think"] = lambda peer, message: (Thought(update, True), blobs)
    stage.act(1, [0.5])
    got = next(entry[1]["w"] for entry in reversed(stage.muscle.log) if entry[0] == "update")

    assert (array.tobytes(),) == stage.link.calls("brain.think")[0].blobs
    assert (array.tolist(), False) == (got.tolist(), got.flags.writeable)


def test_a_reading_belongs_to_the_bus(stage: Stage) -> None:
    """Arrays among the readings are read-only for the author: what is remembered is what was read."""
    stage.setup(sensors=[declared("w.s", PAIR)])

    def proposal(muscle: Any, sensors: Any, actuators: Any) -> Any:
        with pytest.raises(ValueError, match="read-only"):
            sensors[0].value[0] = 1.0
        return echo(muscle, sensors, actuators)

    stage.muscle.proposal = proposal
    stage.act(bytes(16))
    stage.act(bytes(16), [0.5])

    assert [[bytes(16)]] == stage.thought()[0].readings


@pytest.mark.parametrize("act", [Act([]), Act([[1], [1]]), Act([[1, 2]]), Act([["x"]])])
def test_wrong_readings_are_the_callers_fault(stage: Stage, act: Act) -> None:
    """Readings that do not fit the declarations never reach the author."""
    stage.setup()
    with pytest.raises(RemoteProtocolError, match=r"act\.readings"):
        stage.hosted.ask("muscle.act", act)

    assert ["setup"] == stage.muscle.log


def test_a_reward_that_was_not_given_is_missing_in_its_row(stage: Stage) -> None:
    """Where an environment waits unstepped its reward is null: not a number in the memory, null for the brain."""
    stage.setup(rewards=[declared("w.r", UNIT), declared("v.r", UNIT)])
    stage.act()
    answer = stage.act(1, [0.5, None])
    row = stage.muscle.memory.tail(1).rewards.values[0]

    assert ([0.5], [[0.5, None]], True) == (answer.objective, stage.thought()[0].rewards, bool(np.isnan(row[1])))


# -- settling and closing ---------------------------------------------------------------------------------------------
def test_settling_judges_at_once(stage: Stage) -> None:
    """With `decide` false before the end only the objective is computed; the brain hears of it with the next act."""
    stage.setup()
    stage.act(4)
    settled = stage.act(5, [0.5], decide=False)
    before = len(stage.thought())
    answer = stage.act(5)
    think = stage.thought()[0]

    assert (Acted(objective=[0.5]), 0, None) == (settled, before, answer.objective)
    assert ([0.5], [[0.5]], 1) == (think.objective, think.rewards, len(stage.objective.rows))


def test_closing_completes_the_last_decision(stage: Stage) -> None:
    """The last act of an episode gives flags and rewards to the last decision; nothing is proposed."""
    stage.setup()
    stage.act(4)
    stage.thoughts = [Thought(signal={"signal": "STOP_PHASE", "reason": "learned"})]
    answer = stage.close(5, [0.5], terminated=True)
    think = stage.thought()[0]

    assert Acted(objective=[0.5], signal={"signal": "STOP_PHASE", "reason": "learned"}) == answer
    assert (True, False, [[5]]) == (think.terminated, think.truncated, think.next_readings)
    assert 1 == sum(entry[0] == "propose" for entry in stage.muscle.log)


def test_closing_after_settling_judges_nothing_twice(stage: Stage) -> None:
    """A settled decision gets only its flags by the end: in the memory and for the brain."""
    stage.setup()
    stage.act(4)
    stage.act(5, [0.5], decide=False)
    answer = stage.close(5, truncated=True)
    row = stage.muscle.memory.tail(1)

    assert (None, 1, 1) == (answer.objective, len(stage.objective.rows), len(stage.muscle.memory))
    assert (False, True, True) == (bool(row.terminated[0]), bool(row.truncated[0]), stage.thought()[0].truncated)


def test_an_update_that_came_with_the_end_is_applied_before_the_next_decision(stage: Stage) -> None:
    """What the brain answered to the last row of an episode is not lost: nothing newer has come in between."""
    stage.setup()
    stage.act()
    stage.thoughts = [Thought("from the last row", True)]
    stage.close(1, [0.5], terminated=True)
    stage.hosted.ask("muscle.reset", MuscleReset(1))
    stage.act()

    assert ["setup", ("propose", [0]), "reset", ("update", "from the last row"), ("propose", [0])] == stage.muscle.log


def test_a_newer_update_replaces_one_not_yet_applied(stage: Stage) -> None:
    """Only the newest update is applied before a decision."""
    stage.setup()
    stage.act()
    stage.thoughts = [Thought("old", True), Thought("new", True)]
    stage.close(1, [0.5], terminated=True)
    stage.hosted.ask("muscle.reset", MuscleReset(1))
    stage.act()

    assert [("update", "new")] == [entry for entry in stage.muscle.log if entry[0] == "update"]


def test_reset_begins_the_next_episode(stage: Stage) -> None:
    """Decisions count from 0 again, rows carry the episode; nothing of the old one is completed by the new."""
    stage.setup()
    stage.act()
    stage.close(1, [0.5], terminated=True)
    stage.hosted.ask("muscle.reset", MuscleReset(1))
    stage.act()
    stage.act(1, [0.75])

    assert [(0, 0), (1, 0)] == [(think.episode, think.decision) for think in stage.thought()]
    assert [(0, 0), (1, 0)] == [(row["episode"], row["decision"]) for row in stage.objective.rows]


def test_a_failing_brain_is_named(stage: Stage) -> None:
    """What the brain answers with ERROR fails the act, and the brain is the culprit."""
    stage.setup()
    stage.thoughts = [Failure("author", "ValueError: no", "brain a, hook thinking", "Traceback ...")]
    with pytest.raises(CallFailed) as caught:
        stage.act()
    failure = failure_of(caught.value)

    assert ("author", "ValueError: no", "brain a, hook thinking", {"peer": BRAIN}) == (
        failure.kind,
        failure.message,
        failure.where,
        failure.data,
    )


@pytest.mark.parametrize("hook", ["__init__", "setup", "update", "reset", "teardown", "prepare_model"])
def test_every_hook_is_named(hosted: Any, loader: Any, hook: str) -> None:
    """Whatever raises, the failure names muscle, class and hook."""
    it = Stage(hosted, loader)
    broken = type("Breaks", (FakeMuscle,), {hook: lambda self, *_, **__: 1 / 0})
    it.hosted.host._loader.classes["muscle", "own"] = broken

    def play() -> None:
        it.thoughts = [Thought(1, True)]
        it.setup(brain=None if hook == "prepare_model" else BRAIN)
        it.hosted.ask("muscle.reset", MuscleReset(1))
        it.hosted.ask("muscle.shutdown", Nothing())

    with pytest.raises(AuthorError, match="ZeroDivisionError") as caught:
        play()

    assert f"muscle a (worker 0), class Breaks, hook {hook}" == failure_of(caught.value).where


def test_hooks_may_be_async(hosted: Any, loader: Any) -> None:
    """Every hook of muscle and objective may be `async def`."""

    class Slow(FakeMuscle):
        async def setup(self) -> None:  # type: ignore[override]
            self.log.append("setup")

        async def update(self, update: Any) -> None:  # type: ignore[override]
            self.log.append(("update", update))

        async def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
            return super().propose_actions(sensors, actuators_available)

        async def reset(self) -> None:  # type: ignore[override]
            self.log.append("reset")

        async def teardown(self) -> None:  # type: ignore[override]
            self.log.append("teardown")

    class SlowObjective(FakeObjective):
        async def internal_reward(self, memory: Any, **kwargs: Any) -> Any:
            return 0.125

    it = Stage(hosted, loader)
    it.hosted.host._loader.classes.update({("muscle", "own"): Slow, ("objective", "own"): SlowObjective})
    it.thoughts = [Thought(1, True)]
    it.setup()
    muscle = it.muscle
    it.act()
    answer = it.close(1, [0.5])
    it.hosted.ask("muscle.reset", MuscleReset(1))
    it.hosted.ask("muscle.shutdown", Nothing())

    assert [0.125] == answer.objective
    assert ["setup", ("update", 1), ("propose", [0]), "reset", "teardown"] == muscle.log


# -- evaluations ------------------------------------------------------------------------------------------------------
def test_in_an_evaluation_the_brain_has_the_policy(stage: Stage) -> None:
    """`prepare_model` gets the brain's newest update, before the first episode and wherever it is asked for again."""
    policies = [Thought({"w": 1}, True), Thought({"w": 2}, True)]
    stage.link.answers["brain.policy"] = lambda peer, message: policies.pop(0)
    stage.setup(mode="evaluate", brain=None, policy=BRAIN)
    stage.hosted.ask("muscle.reset", MuscleReset(1))
    stage.hosted.ask("muscle.reset", MuscleReset(2, prepare=True))

    first = ["setup", "prepare_model", ("update", {"w": 1})]
    assert [*first, "reset", "prepare_model", ("update", {"w": 2}), "reset"] == stage.muscle.log
    assert {"brain.policy"} == {e.head.call for e in stage.link.calls()}


def test_without_a_policy_the_model_that_was_loaded_holds(stage: Stage, tmp_path: Path) -> None:
    """A brain that has no update yet leaves the policy with which the phase began."""
    Models(tmp_path).save_value({"w": 3}, "policy")
    stage.link.answers["brain.policy"] = lambda peer, message: Thought()
    stage.setup(mode="evaluate", brain=None, policy=BRAIN, models=str(tmp_path))

    assert ["setup", "prepare_model", ("update", {"w": 3})] == stage.muscle.log


# -- arrays -----------------------------------------------------------------------------------------------------------
class ArrayMuscle(FakeMuscle):
    """Decide on arrays."""

    batched = True

    def propose_batch(self, batch: Any) -> Any:
        self.log.append(batch)
        return self.proposal(self, batch, None)


@pytest.fixture
def arrays(hosted: Any, loader: Any) -> Stage:
    """Return a host of a muscle that decides on arrays."""
    return Stage(hosted, loader, ArrayMuscle)


def test_a_batched_muscle_gets_arrays_and_returns_them(arrays: Stage) -> None:
    """It sees one row per body, and never an object; what it proposes travels as in the form with objects."""
    arrays.setup(sensors=[declared("w.s", TEN), declared("w.t", TEN)])
    arrays.muscle.proposal = lambda muscle, batch, _: (batch.observations[:, :1] + 1.0, [{"n": 1}])
    acted = arrays.hosted.ask("muscle.act", Act([[4, 5]]))
    arrays.hosted.ask("muscle.act", Act([[6, 7]], [[0.5]]))

    batch = arrays.muscle.log[1]
    assert [[5]] == acted.setpoints
    assert ([[4, 5]], np.int64) == (batch.observations.tolist(), batch.observations.dtype)
    assert [5] == batch.readings["w.t"].tolist()
    assert ([("a", 0)], [0], [0], Mode.TRAIN) == (
        batch.bodies, batch.step.tolist(), batch.episode.tolist(), batch.mode,
    )  # fmt: skip
    (think,) = arrays.thought()
    assert ([[4, 5]], [[5]], [[6, 7]], {"n": 1}) == (
        think.readings, think.applied, think.next_readings, think.data,
    )  # fmt: skip
    assert [[4, 5], [5], {"n": 1}] == [arrays.objective.rows[0][k] for k in ("readings", "setpoints", "data")]


@pytest.mark.parametrize(
    ("proposal", "error", "text"),
    [
        (np.array([[0.5]]), OutOfActionSpaceError, "w.a"),
        (np.array([[11.0]]), OutOfActionSpaceError, "w.a"),
        (np.array([[1.0, 2.0]]), AuthorError, r"shape \(1, 1\)"),
        ({"w.a": np.array([1]), "w.x": np.array([1])}, AuthorError, "w.x"),
        ({}, AuthorError, "w.a"),
        ((np.array([[1.0]]), "ab"), AuthorError, "one per body"),
        ((np.array([[1.0]]), [{"n": {1, 2}}]), AuthorError, r"propose_batch\[1\].n"),
    ],
)
def test_a_wrong_batch_proposal_is_refused_by_name(
    arrays: Stage, proposal: Any, error: type[Exception], text: str
) -> None:
    """A fraction for an integer, another shape, an unknown id or data that cannot travel are the muscle's errors."""
    arrays.setup()
    arrays.muscle.proposal = lambda muscle, batch, _: proposal
    with pytest.raises(error, match=text) as found:
        arrays.act(1)

    assert "hook propose_batch" in "".join(found.value.__notes__)


def test_a_map_and_columns_are_the_same_proposal(arrays: Stage) -> None:
    """Setpoints by id and as columns make the same row."""
    arrays.setup(actuators=[declared("w.a", TEN, 3), declared("w.p", PAIR, np.zeros(2).tobytes())])
    arrays.muscle.proposal = lambda muscle, batch, _: np.array([[2.0, 0.25, 0.5]])
    columns = arrays.act(1).setpoints
    arrays.muscle.proposal = lambda muscle, batch, _: {"w.p": np.array([[0.25, 0.5]]), "w.a": np.array([2])}

    assert columns == arrays.act(1, [0.0]).setpoints == [[2, np.array([0.25, 0.5]).tobytes()]]


@pytest.mark.parametrize("form", ["stage", "arrays"])
def test_an_infinite_setpoint_is_refused(form: str, request: Any) -> None:
    """Also where the space has no bounds that would."""
    stage = request.getfixturevalue(form)
    stage.setup(actuators=[declared("w.a", Box(-np.inf, np.inf, ()), 0.0)])

    def infinite(muscle: Any, seen: Any, actuators: Any) -> Any:
        if actuators is None:
            return np.array([[np.inf]])
        actuators[0].value = np.inf
        return actuators

    stage.muscle.proposal = infinite
    with pytest.raises(AuthorError, match=r"setpoint w\.a: expected a finite number"):
        stage.act(1)
