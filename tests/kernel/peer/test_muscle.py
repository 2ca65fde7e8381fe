"""Muscles at their host: of one body and of many, in arrays and as objects, and programs that answer in their place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from fakepeer import OWN, TEN, UNIT, declarations, declared, muscle_setup

from ganglion.errors import AuthorError, CallFailed, OutOfActionSpaceError, RemoteProtocolError
from ganglion.limits import BODIES_MEMORY_ROWS
from ganglion.peer.agent.decision import Policy, alike, evaluated, heard, setpoints_of, signal_of
from ganglion.peer.agent.muscle import MuscleHost
from ganglion.peer.author import failure_of
from ganglion.peer.step.layout import Cut, Layout
from ganglion.peer.values import deserialize
from ganglion.peer.worker.world import Actor
from ganglion.sdk import ActuatorInformation, Box, Discrete, EvaluationResult, Muscle, Objective, Signal
from ganglion.sdk.models import Models
from ganglion.sdk.seed import words
from ganglion.wire.messages import (
    DECIDE,
    FIRST,
    TERMINATED,
    Act,
    Acted,
    Done,
    Failure,
    MuscleReset,
    Nothing,
    Think,
    Thought,
    UpdateAsked,
)

BRAIN = "r/brain/a"
PAIR, OPEN = Box(-1.0, 1.0, (2,)), Box(-np.inf, np.inf, ())
SENSORS, ACTUATORS = Layout(["s", "p"], [TEN, PAIR]), Layout(["a", "b"], [TEN, UNIT])
REWARDS = Layout(["r", "q"], [Box(-9.0, 9.0, ()), Box(-9.0, 9.0, ())])
NAMES = [("lake", 0), ("lake", 1), ("lake", 2), ("moor", 0)]
BEGIN, GO_ON = FIRST | DECIDE, DECIDE


def put(actuators: list[Any], value: Any) -> list[Any]:
    """Set all actuators."""
    for it in actuators:
        it(value)
    return actuators


class FakeMuscle(Muscle):
    """Propose what it is told to, by default its reading, and write down everything that happens."""

    made: ClassVar[list[FakeMuscle]] = []

    def __init__(self, **params: Any) -> None:
        self.log: list[Any] = []
        self.made.append(self)
        self.proposal: Callable[[list[Any], list[Any]], Any] = lambda sensors, actuators: put(
            actuators, sensors[0].value
        )

    def setup(self) -> None:
        self.log.append("setup")

    def prepare_model(self) -> None:
        self.log.append("prepare_model")
        super().prepare_model()

    def update(self, update: Any) -> None:
        self.log.append(("update", update))

    def propose_actions(self, sensors: list[Any], actuators_available: list[Any]) -> Any:
        self.log.append(("propose", [it.value for it in sensors]))
        return self.proposal(sensors, actuators_available)

    def reset(self) -> None:
        self.log.append("reset")

    def teardown(self) -> None:
        self.log.append("teardown")


class ArrayMuscle(FakeMuscle):
    """Set what each body sees, and half of it; `tells` makes the data."""

    batched = True

    def __init__(self) -> None:
        super().__init__()
        self.tells: Any = lambda numbers: None
        self.columns: Any = lambda numbers: np.column_stack([numbers, numbers / 10])

    def propose_batch(self, batch: Any) -> Any:
        self.log.append(batch)
        numbers = batch.observations[:, 0].astype(np.int64)
        found, data = self.columns(numbers), self.tells(numbers)
        return found if data is None else (found, data)


class FakeObjective(Objective):
    """Return the sum of the newest rewards; `rows` counts."""

    rows = 0

    def __init__(self) -> None:
        pass

    def internal_reward(self, memory: Any, **kwargs: Any) -> Any:
        self.rows += 1
        return float(np.nansum(memory.tail(1).rewards.values.astype(float)))


class FakeObjectives(FakeObjective):
    """Return the first reward, of all bodies at once; `result` makes something else of it."""

    batched = True
    result: ClassVar[Any] = staticmethod(lambda values: values)

    def internal_rewards(self, batch: Any) -> Any:
        return self.result(batch.rewards[:, :1].reshape(-1) if batch.rewards.size else np.zeros(len(batch.rewards)))


class Stage:
    """Stand a host of one fake muscle whose brain answers by a script."""

    def __init__(self, hosted: Any, loader: Any, cls: type[Any] = FakeMuscle, objective: Any = FakeObjective) -> None:
        self.hosted = hosted(MuscleHost(loader(muscle=cls, objective=objective)))
        self.link = self.hosted.link
        self.thoughts: list[Thought | Failure] = []
        think = lambda peer, message: self.thoughts.pop(0) if self.thoughts else Thought()  # noqa: E731
        self.link.answers |= dict.fromkeys(("brain.join", "brain.think", "brain.update"), think)
        self.link.answers["brain.leave"] = lambda peer, message: Done()

    def setup(self, **fields: Any) -> Any:
        return self.hosted.ask("muscle.setup", muscle_setup(**fields))

    def setup_bodies(self, on_error: str = "fail", **fields: Any) -> Any:
        """Begin a phase with the four bodies."""
        bodies = [[where, b, True, words(1, ["body", where, str(b)])] for where, b in NAMES]
        ids = {"sensors": declarations(SENSORS), "actuators": declarations(ACTUATORS, 3, 0.25)}
        own = {"agent": "ada", "worker": 2, "plugin": OWN | {"on_error": on_error}, "rewards": declarations(REWARDS)}
        return self.setup(**{**ids, **own, "bodies": bodies, **fields})

    def act(self, reading: Any = 0, rewards: list[Any] | None = None, **fields: Any) -> Acted:
        found: Acted = self.hosted.ask("muscle.act", Act([[reading]], None if rewards is None else [rewards], **fields))
        return found

    def act_bodies(self, *entries: tuple[int, int, int, float], **fields: Any) -> Acted:
        """Send entries: row, flags, reading, reward."""
        rows, flags, readings, rewards = zip(*entries, strict=True)
        given: dict[str, Any] = {
            "readings": SENSORS.field([[it, [it / 10, 0.5]] for it in readings]),
            "rewards": REWARDS.field([[it, -it] for it in rewards]),
            "rows": np.array(rows, "<u2").tobytes(),
            "flags": bytes(flags),
        }
        found: Acted = self.hosted.ask("muscle.act", Act(**(given | fields)))
        return found

    @property
    def muscle(self) -> Any:
        return self.hosted.host._muscle

    def thought(self) -> list[Think]:
        return [message for _, message in self.link.asked("brain.think")]


@pytest.fixture
def stage(hosted: Any, loader: Any) -> Stage:
    """Return a host of a fake muscle."""
    return Stage(hosted, loader)


@pytest.fixture
def bodies(hosted: Any, loader: Any) -> Stage:
    """Return a host of a muscle that takes arrays, set up with four bodies."""
    found = Stage(hosted, loader, ArrayMuscle, FakeObjectives)
    found.setup_bodies()
    return found


# -- one body ---------------------------------------------------------------------------------------------------------


def test_passing_keeps_the_round_going(stage: Stage) -> None:
    """Who passes has no row: the brain is asked for its news only, and the open decision stays open."""
    stage.setup()
    stage.act(1)
    stage.thoughts = [Thought("new", True, {"signal": "RESET", "reason": "enough"})]
    passed = stage.hosted.ask("muscle.act", Act([], decide=False, round=4, workers=[0, 1], passing=True))

    assert Acted(signal={"signal": "RESET", "reason": "enough"}) == passed
    assert ([(BRAIN, UpdateAsked(0, 4, [0, 1]))], []) == (stage.link.asked("brain.update")[-1:], stage.thought())
    stage.act(2, [0.5], round=5, workers=[0, 1])
    assert [(0, [[1]], [[0.5]], 5)] == [(t.decision, t.readings, t.rewards, t.round) for t in stage.thought()]
    assert ["setup", ("propose", [1]), ("update", "new"), ("propose", [2])] == stage.muscle.log


def test_shutdown_leaves_the_brain_and_tears_down(stage: Stage) -> None:
    """The brain is told, then `teardown` is called, once."""
    stage.setup()
    muscle = stage.muscle
    for _ in range(2):
        stage.hosted.ask("muscle.shutdown", Nothing())

    assert ["setup", "teardown"] == muscle.log
    assert [BRAIN] == [peer for peer, _ in stage.link.asked("brain.leave")]


def infinite(sensors: Any, actuators: Any) -> Any:
    """Set what no actuator can be set to, whatever its space."""
    return [ActuatorInformation(np.inf, OPEN, "w.a")]


@pytest.mark.parametrize(
    ("proposal", "error", "text"),
    [
        (lambda s, a: a, AuthorError, "actuator w.a has no value"),
        (lambda s, a: [], AuthorError, "actuator w.a has no value"),
        (lambda s, a: [*a, ActuatorInformation(1, TEN, "w.x")], AuthorError, "there is no actuator w.x"),
        (lambda s, a: 5, AuthorError, "expected a list of ActuatorInformation"),
        (lambda s, a: a[0](10), OutOfActionSpaceError, "setpoint w.a: .*10"),
        (lambda s, a: [ActuatorInformation(10, Discrete(99), "w.a")], OutOfActionSpaceError, "setpoint w.a: .*10"),
        (lambda s, a: 1 / 0, AuthorError, "ZeroDivisionError"),
        (infinite, AuthorError, r"setpoint w\.a: expected a finite number"),
    ],
)
def test_a_wrong_proposal_is_blamed(stage: Stage, proposal: Any, error: Any, text: str) -> None:
    """A missing, unknown or impossible setpoint is refused by id, with muscle, class, step and hook."""
    stage.setup(**({"actuators": [declared("w.a", OPEN, 0.0)]} if proposal is infinite else {}))
    stage.muscle.proposal = proposal
    with pytest.raises(error, match=text) as caught:
        stage.act()

    assert "muscle a (worker 0), class FakeMuscle, step 0, hook propose_actions" == failure_of(caught.value).where


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
        (np.array([[np.inf]]), AuthorError, r"setpoint w\.a: expected a finite number"),
    ],
)
def test_a_wrong_batch_of_one_is_blamed(hosted: Any, loader: Any, proposal: Any, error: Any, text: str) -> None:
    """A fraction for an integer, another shape, an unknown id or data that cannot travel are the muscle's errors."""
    arrays = Stage(hosted, loader, ArrayMuscle)
    arrays.setup(**({"actuators": [declared("w.a", OPEN, 0.0)]} if "finite" in text else {}))
    arrays.muscle.columns = lambda numbers: proposal
    with pytest.raises(error, match=text) as found:
        arrays.act(1)

    assert "hook propose_batch" in "".join(found.value.__notes__)


def test_a_map_and_columns_are_the_same_proposal(hosted: Any, loader: Any) -> None:
    """Setpoints by id and as columns make the same blocks."""
    arrays = Stage(hosted, loader, ArrayMuscle)
    arrays.setup(actuators=[declared("w.a", TEN, 3), declared("w.p", PAIR, np.zeros(2).tobytes())])
    arrays.muscle.columns = lambda numbers: np.array([[2.0, 0.25, 0.5]])
    columns = arrays.act(1).setpoints
    arrays.muscle.columns = lambda numbers: {"w.p": np.array([[0.25, 0.5]]), "w.a": np.array([2])}

    assert columns == arrays.act(1, [0.0]).setpoints == [np.array([2]).tobytes(), np.array([0.25, 0.5]).tobytes()]


@pytest.mark.parametrize("act", [Act([]), Act([[1], [1]]), Act([[1, 2]]), Act([["x"]])])
def test_wrong_readings_are_the_callers_fault(stage: Stage, act: Act) -> None:
    """Readings that do not fit the declarations never reach the author."""
    stage.setup()
    with pytest.raises(RemoteProtocolError, match=r"act\.readings"):
        stage.hosted.ask("muscle.act", act)

    assert ["setup"] == stage.muscle.log


def test_rewards_that_were_never_declared_are_refused(stage: Stage, bodies: Stage) -> None:
    """Numbers that nobody has named are no rewards, until a message brings their names."""
    stage.setup(rewards=None)
    stage.act()
    bodies.setup_bodies(rewards=None)
    bodies.act_bodies((0, BEGIN, 1, 0))
    for act in (lambda: stage.act(1, [0.5]), lambda: bodies.act_bodies((0, GO_ON, 1, 0))):
        with pytest.raises(RemoteProtocolError, match=r"act\.rewards: they were not declared"):
            act()

    assert [1.0] == bodies.act_bodies((0, GO_ON, 1, 1), reward_ids=declarations(REWARDS)).objective


def test_closing_after_settling_judges_nothing_twice(stage: Stage) -> None:
    """A settled decision gets only its flags by the end: in the memory and for the brain."""
    stage.setup()
    stage.act(4)
    stage.act(5, [0.5], decide=False)
    answer = stage.act(5, decide=False, closing=True, truncated=True)
    row = stage.muscle.memory.tail(1)

    assert (None, 1, 1) == (answer.objective, stage.hosted.host._objective.rows, len(stage.muscle.memory))
    assert (False, True, True) == (bool(row.terminated[0]), bool(row.truncated[0]), stage.thought()[0].truncated)


def test_a_failing_brain_is_named(stage: Stage) -> None:
    """What the brain answers with ERROR fails the act, and the brain is the culprit."""
    stage.setup()
    stage.thoughts = [Failure("author", "ValueError: no", "brain a, hook thinking", "Traceback ...")]
    with pytest.raises(CallFailed) as caught:
        stage.act()
    it = failure_of(caught.value)

    expected = ("author", "ValueError: no", "brain a, hook thinking", {"peer": BRAIN})
    assert expected == (it.kind, it.message, it.where, it.data)


@pytest.mark.parametrize("hook", ["__init__", "setup", "update", "reset", "teardown", "prepare_model"])
def test_every_hook_is_named(hosted: Any, loader: Any, hook: str) -> None:
    """Whatever raises, the failure names muscle, class and hook."""
    it = Stage(hosted, loader, type("Breaks", (FakeMuscle,), {hook: lambda self, *_, **__: 1 / 0}))

    def play() -> None:
        it.thoughts = [Thought(1, True)]
        it.setup(brain=None if hook == "prepare_model" else BRAIN)
        it.hosted.ask("muscle.reset", MuscleReset(1))
        it.hosted.ask("muscle.shutdown", Nothing())

    with pytest.raises(AuthorError, match="ZeroDivisionError") as caught:
        play()

    assert f"muscle a (worker 0), class Breaks, hook {hook}" == failure_of(caught.value).where


def test_without_a_policy_the_model_that_was_loaded_holds(stage: Stage, tmp_path: Path) -> None:
    """A brain that has no update yet leaves the policy with which the phase began."""
    Models(tmp_path).save_value({"w": 3}, "policy")
    stage.link.answers["brain.policy"] = lambda peer, message: Thought()
    stage.setup(mode="evaluate", brain=None, policy=BRAIN, models=str(tmp_path))

    assert ["setup", "prepare_model", ("update", {"w": 3})] == stage.muscle.log


# -- many bodies ------------------------------------------------------------------------------------------------------


def test_one_question_is_for_all_bodies_that_decide(bodies: Stage) -> None:
    """A batch has the bodies that are asked, with their own decisions and episodes; others are left out."""
    bodies.act_bodies((0, BEGIN, 1, 0), (1, BEGIN, 2, 0), (3, BEGIN, 3, 0))
    second = bodies.act_bodies((0, GO_ON, 4, 0.5), (2, BEGIN, 5, 0), (3, GO_ON, 6, 0.25))
    batch = bodies.muscle.log[-1]

    expected = ([[4, 0.4], [5, 0.5], [6, 0.6]], [0.5, 0.25])
    assert expected == (ACTUATORS.bodies(second.setpoints or [], "setpoints", 3), second.objective)
    assert [("ada", "lake", 0), ("ada", "lake", 2), ("ada", "moor", 0)] == list(batch.bodies)
    assert ([1, 0, 1], [0, 0, 0], [False, True, False]) == tuple(
        it.tolist() for it in (batch.step, batch.episode, batch.first)
    )
    assert [[4, 0.4, 0.5], [5, 0.5, 0.5], [6, 0.6, 0.5]] == batch.observations.tolist()
    assert not batch.observations.flags.writeable
    assert [("ada", *name) for name in NAMES] == [(*it[:2], int(it[2])) for it in bodies.muscle.bodies]


@pytest.mark.parametrize(
    "tells",
    [
        lambda numbers: list(numbers.tolist()),
        lambda numbers: numbers,
        lambda numbers: np.column_stack([numbers, numbers]),
        lambda numbers: [{"n": it} for it in numbers.tolist()],
        lambda numbers: [None if it % 2 else [it] * it for it in numbers.tolist()],
    ],
)
def test_data_of_a_body_go_with_its_decision(bodies: Stage, tells: Any) -> None:
    """They wait with the open decision, whatever others are told meanwhile, in which form ever."""
    own = [list(np.asarray(it).flat) if isinstance(it, np.ndarray) else it for it in tells(np.array([1, 2]))]
    bodies.muscle.tells = tells
    bodies.act_bodies((0, BEGIN, 1, 0), (1, BEGIN, 2, 0))
    for others in (lambda it: ["x"] * len(it), lambda it: np.ones((len(it), 7)), lambda it: None):
        bodies.muscle.tells = others
        bodies.act_bodies((2, BEGIN, 5, 0))
        bodies.act_bodies((2, TERMINATED, 5, 0))
    bodies.act_bodies((0, TERMINATED, 3, 0), (1, TERMINATED, 3, 0))

    assert [["x"], [[1.0] * 7], [None], own] == [data_of(think) for think in bodies.thought()]


def data_of(think: Think) -> list[Any]:
    """Return what the muscle added to each decision, arrays as lists."""
    assert think.rows is not None
    found = [None] * (len(think.rows) // 2) if think.data is None else deserialize(think.data, (), "data")
    return [it.tolist() if isinstance(it, np.ndarray | np.generic) else it for it in found]


def table(a: Any, b: Any = (0.5, 0.5), **more: Any) -> dict[str, Any]:
    """Return setpoints by id."""
    return {"a": np.array(a), "b": np.array(b), **more}


SHAPE = r"expected setpoints of shape \(2, 2\)"
ONE_EACH = r"propose_batch\[1\]: expected a list of 2 values, one per body"


@pytest.mark.parametrize(
    ("proposal", "text"),
    [
        ([[1, 0.5], [10, 0.5]], "setpoint a: expected a value of Discrete.10., found 10"),
        ([[1, 0.5], [-1, 0.5]], "setpoint a: .* found -1"),
        ([[1, 0.5], [1, 1.5]], "setpoint b: .* found 1.5"),
        ([[1, 0.5], [1.5, 0.5]], "setpoint a: .* found 1.5"),
        ([[1, 0.5], [1, np.nan]], "setpoint b: .* found nan"),
        ([[1, 0.5], [np.nan, 0.5]], "setpoint a: .* found nan"),
        (table([1, 10]), "setpoint a of body lake/2: .* found 10"),
        ([[1, 0.5]], rf"{SHAPE}, found \(1, 2\)"),
        ([[1], [1]], rf"{SHAPE}, found \(2, 1\)"),
        ([["x", "y"], ["x", "y"]], "setpoint a: .* found 'x'"),
        (None, SHAPE),
        ({"a": np.array([1, 1])}, "setpoint 'b' is missing"),
        (table([1]), r"setpoint 'a': expected an array of shape \(2,\)"),
        (table([1, 1], c=np.array([1, 1])), "c"),
        *(((np.ones((2, 2)), data), ONE_EACH) for data in (5, [1], np.float64(2.0), np.array(3), np.zeros((3, 1)))),
    ],
)
def test_what_is_wrong_for_some_bodies_is_blamed(bodies: Stage, proposal: Any, text: str) -> None:
    """Setpoints and data of another number, other ids, no numbers, or out of space: by id, body, class, step, hook."""
    bodies.muscle.columns = lambda numbers: np.array(proposal) if isinstance(proposal, list) else proposal
    with pytest.raises(AuthorError, match=text) as caught:
        bodies.act_bodies((0, BEGIN, 1, 0), (2, BEGIN, 2, 0))

    where = failure_of(caught.value).where or ""
    assert where.endswith("muscle ada (worker 2), class ArrayMuscle, step 0, hook propose_batch")
    assert (text.startswith("setpoint") and "found" in text) == ("body lake/" in f"{where}; {caught.value}")
    assert not bodies.hosted.host._acting._open.any()


@pytest.mark.parametrize(
    ("result", "match"),
    [
        (lambda values: values[:1], r"internal_rewards: expected an array of 2 numbers, found float64 \(1,\)"),
        (lambda values: None, r"expected an array of 2 numbers, found object"),
        (lambda values: ["x", "y"], r"expected an array of 2 numbers"),
        (lambda values: np.where(values > 1, np.nan, values), None),
    ],
)
def test_objectives_are_one_number_per_body(bodies: Stage, monkeypatch: Any, result: Any, match: str | None) -> None:
    """Objectives of another number of bodies are the objective's fault; NaN is none, and travels as null."""
    monkeypatch.setattr(FakeObjectives, "result", staticmethod(result))
    bodies.act_bodies((0, BEGIN, 1, 0), (1, BEGIN, 2, 0))
    entries = ((0, GO_ON, 1, 1), (1, GO_ON, 2, 2))
    if match is None:
        assert [1.0, None] == bodies.act_bodies(*entries).objective
        return
    with pytest.raises(AuthorError, match=match) as caught:
        bodies.act_bodies(*entries)

    assert "objective of ada (worker 2), class FakeObjectives" in (failure_of(caught.value).where or "")


def test_bodies_without_sensors_and_rewards_are_asked(bodies: Stage) -> None:
    """Batches have a row per body all the same."""
    bodies.setup_bodies(sensors=[], rewards=[])
    bodies.muscle.propose_batch = lambda batch: np.full((len(batch.observations), 2), 1)
    for flags in (BEGIN, GO_ON):
        acted = bodies.act_bodies((0, flags, 0, 0), (1, flags, 0, 0), readings=[], rewards=[])

    assert [[1, 1.0], [1, 1.0]] == ACTUATORS.bodies(acted.setpoints or [], "setpoints", 2)
    assert [0.0, 0.0] == acted.objective


def test_a_tolerated_proposal_stays_as_it_was(bodies: Stage) -> None:
    """Bodies that begin get no-ops, others what they did before; data of before are not theirs."""
    bodies.setup_bodies(on_error="continue")
    bodies.muscle.tells = lambda numbers: numbers
    bodies.act_bodies((0, BEGIN, 1, 0))
    bodies.muscle.columns = lambda numbers: 1 / 0
    acted = bodies.act_bodies((0, GO_ON, 4, 1), (1, BEGIN, 5, 0))

    assert [[1, 0.1], [3, 0.25]] == ACTUATORS.bodies(acted.setpoints or [], "setpoints", 2)
    assert ["propose_batch"] == [it["hook"] for it in acted.excused or []]
    bodies.act_bodies((0, TERMINATED, 6, 1))
    assert [[1], [None]] == [data_of(think) for think in bodies.thought()]


PARTS = r"act: expected rows of two bytes and flags of one byte"


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"rows": None}, PARTS),
        ({"flags": None}, PARTS),
        ({"flags": bytes([0])}, PARTS),
        ({"rows": np.array([0, 4], "<u2").tobytes()}, r"act\.rows: expected numbers below 4, found 4"),
        ({"rows": np.array([0, 2], "<u2").tobytes()}, r"act\.rows: body lake/2 has no open decision"),
        ({"readings": SENSORS.field([[1, [0.1, 0.5]]])}, r"act\.readings"),
        ({"readings": []}, r"act\.readings"),
        ({"readings": [b"x", b"y"]}, r"act\.readings"),
        ({"rewards": REWARDS.field([[1.0, 1.0]])}, r"act\.rewards"),
        ({"rewards": None}, r"act\.rewards"),
    ],
)
def test_entries_that_do_not_fit_are_the_callers_fault(bodies: Stage, fields: dict[str, Any], match: str) -> None:
    """Rows, flags, readings and rewards are of the same bodies; nothing of others reaches an author."""
    bodies.act_bodies((0, BEGIN, 1, 0), (1, BEGIN, 2, 0))
    with pytest.raises(RemoteProtocolError, match=match):
        bodies.act_bodies((0, GO_ON, 3, 1), (1, GO_ON, 4, 1), **fields)

    assert (["setup"], 2, []) == (bodies.muscle.log[:1], len(bodies.muscle.log), bodies.thought())


@pytest.mark.parametrize(
    ("value", "match"),
    [(99, "setpoint a: .* found 99"), (None, "actuator a has no value"), (1 / 3, "setpoint a: .* found 0.33")],
)
def test_a_wrong_proposal_of_an_object_names_its_body(hosted: Any, loader: Any, value: Any, match: str) -> None:
    """A missing or impossible setpoint is refused by id and body; each object has its part of the memory."""
    FakeMuscle.made.clear()
    objects = Stage(hosted, loader)
    objects.setup_bodies()
    FakeMuscle.made[0].proposal = lambda sensors, actuators: put(actuators, 0)
    FakeMuscle.made[3].proposal = lambda sensors, actuators: [] if value is None else put(actuators, value)
    with pytest.raises(AuthorError, match=match) as caught:
        objects.act_bodies((0, BEGIN, 1, 0), (3, BEGIN, 2, 0))

    where = "muscle ada (worker 2), class FakeMuscle, step 0, hook propose_actions; body moor/0"
    assert where == failure_of(caught.value).where
    assert [BODIES_MEMORY_ROWS // 4] * 4 == [one.memory.size_limit for one in FakeMuscle.made]


# -- decisions, and programs ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("own", "applied", "found"),
    [
        ([UNIT], [Discrete(3)], True),
        ([PAIR], [Box(0.0, 9.0, (2,))], True),
        ([PAIR], [Box(0, 9, (2,), dtype=np.int32)], False),
        ([PAIR], [UNIT], False),
    ],
)
def test_proposals_stand_in_the_table_of_setpoints_if_they_can_be_read_there(
    own: Any, applied: Any, found: Any
) -> None:
    """Numbers are numbers; bytes are read by the dtype and size of what is applied; ids must be the same."""
    assert found is alike(Layout(["a"], own), Layout(["a"], applied))
    assert not alike(Layout(["b"], own), Layout(["a"], applied))


def test_the_newest_policy_comes_from_the_brain(tmp_path: Path) -> None:
    """Everything else, and the policy of a brain that has none, from the files."""
    files = Models(tmp_path)
    files.save_value("stored", "policy")
    files.save({"a": np.zeros(1)}, "other")
    fresh = Policy(lambda: (True, "fresh"), files)

    assert ("fresh", ["a"]) == (fresh.load("policy"), list(fresh.load("other")))
    assert "stored" == Policy(lambda: (False, None), files).load("policy")
    assert Policy(lambda: (False, None), None).load() is None


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


WORLD = Layout(["world.torque", "world.force"], [Box(-2.0, 2.0, ()), OPEN])


def actor(brain: str | None = BRAIN) -> Actor:
    """Return the muscle of a program, as its controller has it."""
    return Actor("ada", "r/muscle/ada/0", {"brain": brain}, Cut([], [], []), WORLD, [(0, 0), (0, 1)], program=True)


def test_answer_of_a_program_is_as_ours() -> None:
    """Integers become floats where floats are declared, also in what was proposed and in the objective."""
    answer = Acted([[1, 2.5]], [[-1, 0]], [3], {"signal": "RESET", "reason": "so"}, {"x": 1.0})
    (found,) = heard([actor()], [answer])

    told = [WORLD.rows(field) for field in (found.setpoints or [], found.proposed or [])]
    assert "[[1.0, 2.5]] [[-1.0, 0.0]] [3.0]" == f"{told[0]} {told[1]} {found.objective}"
    assert (answer.signal, answer.statistics) == (found.signal, found.statistics)
    assert [1.0, 2.5] == WORLD.values(setpoints_of(actor(), found), "setpoints")


ROW, NUMBER = "expected one row of 2 values, found ", "objective: expected a list of one finite number or nil"
WISH = "signal: expected a signal up to STOP_PHASE"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Acted([[1.0]]), f"setpoints: {ROW}1 values"),
        (Acted([]), f"setpoints: {ROW}0 rows"),
        (Acted([7, 7]), f"setpoints: {ROW}2 rows"),
        (Acted([[3.0, 0.0]]), "setpoints.world.torque: expected a value of Box"),
        (Acted([["a", 0.0]]), "setpoints.world.torque"),
        (Acted([[0.0, float("inf")]]), "setpoints.world.force: expected a finite number"),
        (Acted(proposed=[[1.0]]), f"proposed: {ROW}1 values"),
        (Acted(objective=[]), f"{NUMBER}, found []"),
        (Acted(objective=[True]), f"{NUMBER}, found [True]"),
        (Acted(objective=[float("nan")]), NUMBER),
        (Acted(objective=[[1.0]]), f"{NUMBER}, found [[1.0]]"),
        (Acted(signal={"signal": "SHUTDOWN"}), WISH),
        (Acted(signal={"signal": 7}), WISH),
        (Acted(signal={"signal": "RESET", "reason": 7}), "and a reason in text"),
        (Acted(excused=[{"hook": "x"}]), "excused: expected issuer, hook and reason as text"),
        (Acted(statistics={}, signal={"signal": "RESET"}), "there is no brain that could signal"),
    ],
)
def test_what_cannot_be_taken_is_blamed_on_the_program(answer: Acted, text: str) -> None:
    """A wrong answer is an error of the muscle that gave it; signals are wishes of a brain that there is."""
    with pytest.raises(CallFailed) as caught:
        heard([actor(None if "no brain" in text else BRAIN)], [answer])

    assert text in str(caught.value)
    assert "r/muscle/ada/0" == caught.value.culprit
