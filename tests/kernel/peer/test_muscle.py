from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, CallFailed, OutOfActionSpaceError, RemoteProtocolError
from ganglion.peer.agent.decision import evaluated, heard, setpoints_of, signal_of
from ganglion.peer.agent.muscle import MuscleHost
from ganglion.peer.author import failure_of
from ganglion.peer.step.layout import Cut, Layout
from ganglion.peer.worker.world import Actor
from ganglion.sdk import ActuatorInformation, Box, Discrete, EvaluationResult, Muscle, Objective, Signal
from ganglion.sdk.models import Models
from ganglion.sdk.seed import words
from ganglion.wire.messages import (
    Act,
    Acted,
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


def test_rewards_that_were_never_declared_are_refused(stage: Stage) -> None:
    """Numbers that nobody has named are no rewards."""
    stage.setup(rewards=None)
    stage.act()
    with pytest.raises(RemoteProtocolError, match=r"act\.rewards: they were not declared"):
        stage.act(1, [0.5])


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


@pytest.mark.parametrize("act", [Act([]), Act([[1], [1]]), Act([[1, 2]]), Act([["x"]])])
def test_wrong_readings_are_the_callers_fault(stage: Stage, act: Act) -> None:
    """Readings that do not fit the declarations never reach the author."""
    stage.setup()
    with pytest.raises(RemoteProtocolError, match=r"act\.readings"):
        stage.hosted.ask("muscle.act", act)

    assert ["setup"] == stage.muscle.log


# -- settling and closing ---------------------------------------------------------------------------------------------


def test_closing_after_settling_judges_nothing_twice(stage: Stage) -> None:
    """A settled decision gets only its flags by the end: in the memory and for the brain."""
    stage.setup()
    stage.act(4)
    stage.act(5, [0.5], decide=False)
    answer = stage.close(5, truncated=True)
    row = stage.muscle.memory.tail(1)

    assert (None, 1, 1) == (answer.objective, len(stage.objective.rows), len(stage.muscle.memory))
    assert (False, True, True) == (bool(row.terminated[0]), bool(row.truncated[0]), stage.thought()[0].truncated)


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


# -- evaluations ------------------------------------------------------------------------------------------------------


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
    """Setpoints by id and as columns make the same blocks."""
    arrays.setup(actuators=[declared("w.a", TEN, 3), declared("w.p", PAIR, np.zeros(2).tobytes())])
    arrays.muscle.proposal = lambda muscle, batch, _: np.array([[2.0, 0.25, 0.5]])
    columns = arrays.act(1).setpoints
    arrays.muscle.proposal = lambda muscle, batch, _: {"w.p": np.array([[0.25, 0.5]]), "w.a": np.array([2])}

    assert columns == arrays.act(1, [0.0]).setpoints == [np.array([2]).tobytes(), np.array([0.25, 0.5]).tobytes()]


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


# -- thought ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("found", [EvaluationResult([1.0]), {1: 1.0}, {"a": "x"}, {"a": float("nan")}])  # type: ignore[arg-type]
def test_other_metrics_are_refused(found: Any) -> None:
    """The message says where."""
    with pytest.raises(AuthorError, match="metrics"):
        evaluated(found)


def test_a_brain_wishes_up_to_the_end_of_the_phase() -> None:
    """The end of the run is nothing that a brain may wish for."""
    assert {"signal": "STOP_PHASE", "reason": "done"} == signal_of(Signal.STOP_PHASE, "done")
    with pytest.raises(AuthorError, match="up to STOP_PHASE, found SHUTDOWN"):
        signal_of(Signal.SHUTDOWN, "")


# -- acted ------------------------------------------------------------------------------------------------------------
BOX = {"type": "box", "shape": [], "dtype": "<f8", "low": -2.0, "high": 2.0}
OPEN = {**BOX, "low": "-inf", "high": "inf"}
ACTUATORS = [{"id": "world.torque", "space": BOX}, {"id": "world.force", "space": OPEN}]

LAYOUT = Layout.of(ACTUATORS)


def _actor(program: bool = True, brain: str | None = "r/brain/ada") -> Actor:
    return Actor("ada", "r/muscle/ada/0", {"brain": brain}, Cut([], [], []), LAYOUT, [(0, 0), (0, 1)], program=program)


def test_answer_of_a_program_is_as_ours() -> None:
    """Integers become floats where floats are declared, also in what was proposed and in the objective."""
    answer = Acted([[1, 2.5]], [[-1, 0]], [3], {"signal": "RESET", "reason": "so"}, {"x": 1.0})
    (found,) = heard([_actor()], [answer])

    told = [None if field is None else LAYOUT.rows(field) for field in (found.setpoints, found.proposed)]
    assert "[[1.0, 2.5]] [[-1.0, 0.0]] [3.0]" == f"{told[0]} {told[1]} {found.objective}"
    assert (answer.signal, answer.statistics) == (found.signal, found.statistics)
    assert [1.0, 2.5] == LAYOUT.values(setpoints_of(_actor(), found), "setpoints")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Acted([[1.0]]), "setpoints: expected one row of 2 values, found 1 values"),
        (Acted([]), "setpoints: expected one row of 2 values, found 0 rows"),
        (Acted([7, 7]), "setpoints: expected one row of 2 values, found 2 rows"),
        (Acted([[3.0, 0.0]]), "setpoints.world.torque: expected a value of Box"),
        (Acted([["a", 0.0]]), "setpoints.world.torque"),
        (Acted([[0.0, float("inf")]]), "setpoints.world.force: expected a finite number"),
        (Acted(proposed=[[1.0]]), "proposed: expected one row of 2 values, found 1 values"),
        (Acted(objective=[]), "objective: expected a list of one finite number or nil, found []"),
        (Acted(objective=[True]), "objective: expected a list of one finite number or nil, found [True]"),
        (Acted(objective=[float("nan")]), "objective: expected a list of one finite number or nil"),
        (Acted(objective=[[1.0]]), "objective: expected a list of one finite number or nil, found [[1.0]]"),
        (Acted(signal={"signal": "SHUTDOWN"}), "signal: expected a signal up to STOP_PHASE"),
        (Acted(signal={"signal": 7}), "signal: expected a signal up to STOP_PHASE"),
        (Acted(signal={"signal": "RESET", "reason": 7}), "and a reason in text"),
        (Acted(excused=[{"hook": "x"}]), "excused: expected issuer, hook and reason as text"),
    ],
)
def test_what_cannot_be_taken_is_blamed_on_the_program(answer: Acted, text: str) -> None:
    """A wrong answer is an error of the muscle that gave it, and says what was expected and found."""
    with pytest.raises(CallFailed) as caught:
        heard([_actor()], [answer])

    assert text in str(caught.value)
    assert "r/muscle/ada/0" == caught.value.culprit


def test_wish_without_a_brain_is_refused() -> None:
    """Signals are wishes of a brain, which its muscle hands on: without one there is none."""
    with pytest.raises(CallFailed, match="there is no brain that could signal"):
        heard([_actor(brain=None)], [Acted(signal={"signal": "RESET"})])
