"""Acting: a muscle of many bodies, in arrays and as one object per body; what comes on the wire and what goes out."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.limits import BODIES_MEMORY_ROWS
from ganglion.peer.agent.muscle import MuscleHost
from ganglion.peer.author import failure_of
from ganglion.peer.step.layout import Layout
from ganglion.peer.values import deserialize
from ganglion.sdk import Box, Discrete, Muscle, Objective
from ganglion.sdk.seed import words
from ganglion.wire.messages import (
    DECIDE,
    FIRST,
    TERMINATED,
    TRUNCATED,
    Act,
    Acted,
    BrainJoin,
    Done,
    Failure,
    MuscleSetup,
    Think,
    Thought,
)

UNIT, TEN, PAIR = Box(0.0, 1.0, ()), Discrete(10), Box(-1.0, 1.0, (2,))
SENSORS = Layout(["s", "p"], [TEN, PAIR])
ACTUATORS = Layout(["a", "b"], [TEN, UNIT])
REWARDS = Layout(["r", "q"], [Box(-9.0, 9.0, ()), Box(-9.0, 9.0, ())])
NAMES = ["lake/0", "lake/1", "lake/2", "moor/0"]
BEGIN, GO_ON = FIRST | DECIDE, DECIDE


def declared(layout: Layout, *values: Any) -> list[dict[str, Any]]:
    """Return declarations as they travel."""
    found = [{"id": uid, "space": space.to_wire()} for uid, space in layout.pairs()]
    return [{**one, "value": value} for one, value in zip(found, values, strict=True)] if values else found


class FakeArrays(Muscle):
    """Set what each body sees, and half of it; write down what was asked. `tells` makes the data."""

    batched = True

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.updates: list[Any] = []
        self.tells: Any = lambda numbers: None
        self.proposal: Any = lambda numbers: np.column_stack([numbers, numbers / 10])

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        raise NotImplementedError

    def propose_batch(self, batch: Any) -> Any:
        self.batches.append(batch)
        numbers = batch.readings["s"].astype(np.int64).reshape(-1)
        found, data = self.proposal(numbers), self.tells(numbers)
        return found if data is None else (found, data)

    def update(self, update: Any) -> None:
        self.updates.append(update)


class FakeObject(Muscle):
    """Set what it sees; each object writes down its own calls."""

    made: ClassVar[list[FakeObject]] = []

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.made.append(self)

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        number = sensors[0].value
        self.log.append((number, len(self.memory), round(float(self.rng.random()), 6)))
        actuators_available[0].value = number
        actuators_available[1].value = number / 10
        return actuators_available, {"number": number}

    def reset(self) -> None:
        self.log.append("reset")

    def update(self, update: Any) -> None:
        self.log.append(update)


class FakeObjective(Objective):
    """Return the rewards of the newest row, and how many there are."""

    def __init__(self) -> None:
        pass

    def internal_reward(self, memory: Any, **kwargs: Any) -> Any:
        return float(memory.tail(1).rewards.flat[0].sum()) + 100 * len(memory)


class FakeObjectives(FakeObjective):
    """Return the first reward, of all bodies at once; `result` makes something else of it."""

    batched = True
    result: ClassVar[Any] = staticmethod(lambda values: values)

    def internal_rewards(self, batch: Any) -> Any:
        self.seen = batch
        return self.result(batch.rewards[:, list(self.reward_ids).index("r")])


class Stage:
    """Stand a host of the muscle of four bodies, whose brain answers by a script."""

    def __init__(self, hosted: Any, loader: Any, cls: Any = FakeArrays, objective: Any = FakeObjectives) -> None:
        self.hosted = hosted(MuscleHost(loader(muscle=cls, objective=objective)))
        self.thoughts: list[Thought | Failure] = []
        think = lambda peer, message: self.thoughts.pop(0) if self.thoughts else Thought()  # noqa: E731
        self.hosted.link.answers |= dict.fromkeys(("brain.join", "brain.think", "brain.update"), think)
        self.hosted.link.answers["brain.leave"] = lambda peer, message: Done()

    def setup(self, learns: str = "1111", **fields: Any) -> Any:
        plugin = {"name": "own", "params": {}, "on_error": fields.pop("on_error", "fail")}
        rows = [[*name.split("/"), learn == "1"] for name, learn in zip(NAMES, learns, strict=True)]
        bodies = [[where, int(b), learn, words(1, ["body", where, b])] for where, b, learn in rows]
        chosen: dict[str, Any] = {
            "sensors": declared(SENSORS),
            "actuators": declared(ACTUATORS, 3, 0.25),
            "rewards": declared(REWARDS),
            "bodies": bodies,
            "brain": "r/brain/ada",
            **fields,
        }
        head = ("r", 0, "one", "train", 2, "ada", plugin, plugin)
        parts = [chosen.pop(name) for name in ("sensors", "actuators", "rewards")]
        return self.hosted.ask(
            "muscle.setup", MuscleSetup(*head, *parts, words(1, ["muscle"]), words(1, ["objective"]), **chosen)
        )

    def act(self, *entries: tuple[int, int, int, float], **fields: Any) -> Acted:
        """Send entries: row, flags, reading, reward."""
        found: Acted = self.hosted.ask("muscle.act", entry_message(*entries, **fields))
        return found

    def setpoints(self, acted: Acted, count: int) -> list[list[Any]]:
        assert acted.setpoints is not None
        return ACTUATORS.bodies(acted.setpoints, "setpoints", count)

    def thought(self) -> list[Think]:
        return [message for _, message in self.hosted.link.asked("brain.think")]

    @property
    def muscle(self) -> Any:
        return self.hosted.host._muscle

    def again(self, other: Stage) -> Stage:
        """Let another host go on where this one stands."""
        other.setup()
        other.hosted.host._read_books(self.hosted.host._books())
        return other


def entry_message(*entries: tuple[int, int, int, float], **fields: Any) -> Act:
    """Return a message of entries: row, flags, reading, reward."""
    rows, flags, readings, rewards = zip(*entries, strict=True) if entries else ((), (), (), ())
    given: dict[str, Any] = {
        "readings": SENSORS.field([[it, [it / 10, 0.5]] for it in readings]),
        "rewards": REWARDS.field([[it, -it] for it in rewards]),
        "rows": np.array(rows, "<u2").tobytes(),
        "flags": bytes(flags),
    }
    return Act(**(given | fields))


@pytest.fixture
def stage(hosted: Any, loader: Any) -> Stage:
    """Return a host of a muscle that takes arrays, set up."""
    found = Stage(hosted, loader)
    found.setup()
    return found


@pytest.fixture
def objects(hosted: Any, loader: Any) -> Stage:
    """Return a host of one object per body, set up."""
    FakeObject.made.clear()
    found = Stage(hosted, loader, FakeObject, FakeObjective)
    found.setup()
    return found


def numbers(think: Think) -> tuple[list[int], ...]:
    """Return rows, flags, decisions and episodes."""
    parts = (think.rows, think.flags, think.decisions, think.episodes)
    found = zip(parts, ("<u2", "u1", "<i8", "<i8"), strict=True)
    return tuple(np.frombuffer(part or b"", kind).tolist() for part, kind in found)


# -- arrays -----------------------------------------------------------------------------------------------------------


def test_one_question_is_for_all_bodies_that_decide(stage: Stage) -> None:
    """A batch has the bodies that are asked, with their own decisions and episodes; others are left out."""
    first = stage.act((0, BEGIN, 1, 0), (1, BEGIN, 2, 0), (3, BEGIN, 3, 0))
    second = stage.act((0, GO_ON, 4, 0.5), (2, BEGIN, 5, 0), (3, GO_ON, 6, 0.25))

    assert ([[1, 0.1], [2, 0.2], [3, 0.3]], []) == (stage.setpoints(first, 3), first.objective)
    assert ([[4, 0.4], [5, 0.5], [6, 0.6]], [0.5, 0.25]) == (stage.setpoints(second, 3), second.objective)
    batch = stage.muscle.batches[1]
    assert [("ada", "lake", 0), ("ada", "lake", 2), ("ada", "moor", 0)] == list(batch.bodies)
    assert ([1, 0, 1], [0, 0, 0]) == (batch.step.tolist(), batch.episode.tolist())
    assert [False, True, False] == batch.first.tolist()
    assert [[4, 0.4, 0.5], [5, 0.5, 0.5], [6, 0.6, 0.5]] == batch.observations.tolist()
    assert not batch.observations.flags.writeable
    assert [("ada", *name.split("/")) for name in NAMES] == [(*it[:2], str(it[2])) for it in stage.muscle.bodies]


def test_the_brain_is_told_of_all_completed_decisions_at_once(stage: Stage) -> None:
    """One message has their rows: what each saw, did, earned, and what came of it."""
    stage.act((0, BEGIN, 1, 0), (1, BEGIN, 2, 0), (3, BEGIN, 3, 0), round=4, workers=[0, 2])
    stage.act((0, GO_ON, 4, 0.5), (3, TRUNCATED, 6, 0.25), (3, BEGIN, 7, 0), round=5, workers=[0, 2])
    stage.act((1, TERMINATED, 8, 1), (3, GO_ON, 9, 2), round=6, workers=[0, 2])

    first, second = stage.thought()
    assert ([0, 3], [0, TRUNCATED], [0, 0], [0, 0]) == numbers(first)
    assert ([1, 3], [TERMINATED, 0], [0, 0], [0, 1]) == numbers(second)
    assert (2, 5, [0, 2], [0.5, 0.25]) == (first.worker, first.round, first.workers, first.objective)
    assert [[1, [0.1, 0.5]], [3, [0.3, 0.5]]] == lists(SENSORS.bodies(first.readings, "x", 2))
    assert [[4, [0.4, 0.5]], [6, [0.6, 0.5]]] == lists(SENSORS.bodies(first.next_readings, "x", 2))
    assert [[1, 0.1], [3, 0.3]] == ACTUATORS.bodies(first.applied, "x", 2)
    assert [[0.5, -0.5], [0.25, -0.25]] == REWARDS.bodies(first.rewards, "x", 2)
    assert (declared(REWARDS), None) == (first.reward_ids, second.reward_ids)
    assert [(4, [0, 2])] == [(it.round, it.workers) for _, it in stage.hosted.link.asked("brain.update")]


def lists(rows: list[list[Any]]) -> list[list[Any]]:
    """Return values, arrays as lists."""
    return [[value.tolist() if isinstance(value, np.ndarray) else value for value in row] for row in rows]


def test_bodies_that_do_not_learn_are_judged_and_not_told(hosted: Any, loader: Any) -> None:
    """Of rows that learn nothing the brain hears no more than that the round goes on."""
    stage = Stage(hosted, loader)
    stage.setup(learns="0101")
    stage.act((0, BEGIN, 1, 0), (1, BEGIN, 2, 0), (2, BEGIN, 3, 0))
    assert [1.0, 2.0, 3.0] == stage.act((0, GO_ON, 4, 1), (1, GO_ON, 5, 2), (2, GO_ON, 6, 3)).objective
    assert [1.0, 3.0] == stage.act((0, GO_ON, 4, 1), (2, GO_ON, 6, 3)).objective

    assert [([1], [0], [0], [0])] == [numbers(think) for think in stage.thought()]
    assert [[2.0]] == [think.objective for think in stage.thought()]
    assert 2 == len(stage.hosted.link.asked("brain.update"))


def test_updates_come_before_the_decisions(stage: Stage) -> None:
    """What the brain answers is in force for the decisions of the same message, also where only ends are told."""
    stage.act((0, BEGIN, 1, 0))
    stage.thoughts = [Thought("new", True, {"signal": "RESET", "reason": "enough"})]
    assert {"signal": "RESET", "reason": "enough"} == stage.act((0, TERMINATED, 2, 1)).signal

    assert (["new"], 1) == (stage.muscle.updates, len(stage.muscle.batches))
    assert [BrainJoin(2)] == [message for _, message in stage.hosted.link.asked("brain.join")]


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
def test_data_of_a_body_go_with_its_decision(stage: Stage, tells: Any) -> None:
    """They wait with the open decision, whatever others are told meanwhile, in which form ever."""
    own = [list(np.asarray(it).flat) if isinstance(it, np.ndarray) else it for it in tells(np.array([1, 2]))]
    stage.muscle.tells = tells
    stage.act((0, BEGIN, 1, 0), (1, BEGIN, 2, 0))
    for others in (lambda it: ["x"] * len(it), lambda it: np.ones((len(it), 7)), lambda it: None):
        stage.muscle.tells = others
        stage.act((2, BEGIN, 5, 0))
        stage.act((2, TERMINATED, 5, 0))
    stage.act((0, TERMINATED, 3, 0), (1, TERMINATED, 3, 0))

    found = [it.tolist() if isinstance(it, np.ndarray) else it for it in data_of(stage.thought()[-1])]
    assert own == found
    assert [["x"], [[1.0] * 7], [None]] == [
        [it.tolist() if isinstance(it, np.ndarray) else it for it in data_of(think)] for think in stage.thought()[:-1]
    ]


def data_of(think: Think) -> list[Any]:
    """Return what the muscle added to each decision."""
    assert think.rows is not None
    return [None] * (len(think.rows) // 2) if think.data is None else list(deserialize(think.data, (), "data"))


@pytest.mark.parametrize("data", [5, [1], np.float64(2.0), np.array(3), np.zeros((3, 1))])
def test_data_are_one_value_per_body(stage: Stage, data: Any) -> None:
    """Data of another number of bodies are the muscle's fault."""
    stage.muscle.tells = lambda numbers: data
    with pytest.raises(AuthorError, match=r"propose_batch\[1\]: expected a list of 2 values, one per body"):
        stage.act((0, BEGIN, 1, 0), (1, BEGIN, 2, 0))


@pytest.mark.parametrize(
    ("proposal", "text"),
    [
        ([[1, 0.5], [10, 0.5]], "setpoint a: expected a value of Discrete.10., found 10"),
        ([[1, 0.5], [-1, 0.5]], "setpoint a: .* found -1"),
        ([[1, 0.5], [1, 1.5]], "setpoint b: .* found 1.5"),
        ([[1, 0.5], [1.5, 0.5]], "setpoint a: .* found 1.5"),
        ([[1, 0.5], [1, np.nan]], "setpoint b: .* found nan"),
        ([[1, 0.5], [np.nan, 0.5]], "setpoint a: .* found nan"),
    ],
)
def test_wrong_setpoints_are_blamed_with_their_body(stage: Stage, proposal: Any, text: str) -> None:
    """What does not fit is refused by id and body, with muscle, class, step and hook; no decision is open then."""
    stage.muscle.proposal = lambda numbers: np.array(proposal)
    with pytest.raises(AuthorError, match=text) as caught:
        stage.act((0, BEGIN, 1, 0), (2, BEGIN, 2, 0))

    where = "body lake/2; muscle ada (worker 2), class FakeArrays, step 0, hook propose_batch"
    assert where == failure_of(caught.value).where
    assert not stage.hosted.host._acting._open.any()


@pytest.mark.parametrize(
    ("proposal", "text"),
    [
        ([[1, 0.5]], r"expected setpoints of shape \(2, 2\), found \(1, 2\)"),
        ([[1], [1]], r"expected setpoints of shape \(2, 2\), found \(2, 1\)"),
        ([["x", "y"], ["x", "y"]], "setpoint a: .* found 'x'"),
        (None, r"expected setpoints of shape \(2, 2\)"),
        ({"a": np.array([1, 10]), "b": np.array([0.5, 0.5])}, "a of body lake/2|lake/2.*a: .*10"),
        ({"a": np.array([1, 1])}, "setpoint 'b' is missing"),
        ({"a": np.array([1]), "b": np.array([0.5, 0.5])}, r"setpoint 'a': expected an array of shape \(2,\)"),
        ({"a": np.array([1, 1]), "b": np.array([0.5, 0.5]), "c": np.array([1, 1])}, "c"),
    ],
)
def test_wrong_forms_of_setpoints_are_blamed(stage: Stage, proposal: Any, text: str) -> None:
    """Setpoints of another number of bodies, of other ids or of no numbers are the muscle's fault."""
    stage.muscle.proposal = lambda numbers: proposal
    with pytest.raises(AuthorError, match=text) as caught:
        stage.act((0, BEGIN, 1, 0), (2, BEGIN, 2, 0))

    assert "hook propose_batch" in (failure_of(caught.value).where or "")


@pytest.mark.parametrize(
    ("result", "match"),
    [
        (lambda values: values[:1], r"internal_rewards: expected an array of 2 numbers, found float64 \(1,\)"),
        (lambda values: None, r"expected an array of 2 numbers, found object"),
        (lambda values: ["x", "y"], r"expected an array of 2 numbers"),
    ],
)
def test_objectives_are_one_number_per_body(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, result: Any, match: str
) -> None:
    """Objectives of another number of bodies are the objective's fault."""
    monkeypatch.setattr(FakeObjectives, "result", staticmethod(result))
    stage.act((0, BEGIN, 1, 0), (1, BEGIN, 2, 0))
    with pytest.raises(AuthorError, match=match) as caught:
        stage.act((0, GO_ON, 1, 1), (1, GO_ON, 2, 2))

    assert "objective of ada (worker 2), class FakeObjectives" in (failure_of(caught.value).where or "")


def test_bodies_without_sensors_and_rewards_are_asked(
    hosted: Any, loader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches have a row per body all the same."""
    monkeypatch.setattr(FakeObjectives, "internal_rewards", lambda self, batch: np.zeros(len(batch.rewards)))
    stage = Stage(hosted, loader)
    stage.setup(sensors=[], rewards=[])
    stage.muscle.propose_batch = lambda batch: np.full((len(batch.observations), 2), 1)
    for flags in (BEGIN, GO_ON):
        acted = stage.act((0, flags, 0, 0), (1, flags, 0, 0), readings=[], rewards=[])

    assert ([[1, 1.0], [1, 1.0]], [0.0, 0.0]) == (stage.setpoints(acted, 2), acted.objective)


def test_nan_is_no_objective(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It travels as null."""
    monkeypatch.setattr(FakeObjectives, "result", staticmethod(lambda values: np.where(values > 1, np.nan, values)))
    stage.act((0, BEGIN, 1, 0), (1, BEGIN, 2, 0))

    assert [1.0, None] == stage.act((0, GO_ON, 1, 1), (1, GO_ON, 2, 2)).objective


def test_a_tolerated_proposal_stays_as_it_was(hosted: Any, loader: Any) -> None:
    """Bodies that begin get no-ops, others what they did before; data of before are not theirs."""
    stage = Stage(hosted, loader)
    stage.setup(on_error="continue")
    stage.muscle.tells = lambda numbers: numbers
    stage.act((0, BEGIN, 1, 0))
    stage.muscle.proposal = lambda numbers: 1 / 0
    acted = stage.act((0, GO_ON, 4, 1), (1, BEGIN, 5, 0))

    assert [[1, 0.1], [3, 0.25]] == stage.setpoints(acted, 2)
    assert ["propose_batch"] == [it["hook"] for it in acted.excused or []]
    stage.act((0, TERMINATED, 6, 1))
    assert [[1], [None]] == [data_of(think) for think in stage.thought()]


# -- what callers do wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"rows": None}, r"act: expected rows of two bytes and flags of one byte"),
        ({"flags": None}, r"act: expected rows of two bytes and flags of one byte"),
        ({"flags": bytes([0])}, r"act: expected rows of two bytes and flags of one byte"),
        ({"rows": np.array([0, 4], "<u2").tobytes()}, r"act\.rows: expected numbers below 4, found 4"),
        ({"rows": np.array([0, 2], "<u2").tobytes()}, r"act\.rows: body lake/2 has no open decision"),
        ({"readings": SENSORS.field([[1, [0.1, 0.5]]])}, r"act\.readings"),
        ({"readings": []}, r"act\.readings"),
        ({"readings": [b"x", b"y"]}, r"act\.readings"),
        ({"rewards": REWARDS.field([[1.0, 1.0]])}, r"act\.rewards"),
        ({"rewards": None}, r"act\.rewards"),
    ],
)
def test_entries_that_do_not_fit_are_the_callers_fault(stage: Stage, fields: dict[str, Any], match: str) -> None:
    """Rows, flags, readings and rewards are of the same bodies; nothing of others reaches an author."""
    stage.act((0, BEGIN, 1, 0), (1, BEGIN, 2, 0))
    with pytest.raises(RemoteProtocolError, match=match):
        stage.act((0, GO_ON, 3, 1), (1, GO_ON, 4, 1), **fields)

    assert (1, []) == (len(stage.muscle.batches), stage.thought())


def test_rewards_that_were_never_declared_are_refused(hosted: Any, loader: Any) -> None:
    """Numbers that nobody has named are no rewards."""
    stage = Stage(hosted, loader)
    stage.setup(rewards=None)
    stage.act((0, BEGIN, 1, 0))
    with pytest.raises(RemoteProtocolError, match=r"act\.rewards: they were not declared"):
        stage.act((0, GO_ON, 1, 0))
    assert [1.0] == stage.act((0, GO_ON, 1, 1), reward_ids=declared(REWARDS)).objective


# -- one object per body ----------------------------------------------------------------------------------------------


def test_objects_are_one_per_body(objects: Stage) -> None:
    """Each has its memory, its stream, its objective and its reset; the answers are as of arrays."""
    objects.act((0, BEGIN, 1, 0), (3, BEGIN, 2, 0))
    second = objects.act((0, TERMINATED, 3, 0.5), (0, BEGIN, 4, 0), (3, GO_ON, 5, 0.25))
    third = objects.act((0, GO_ON, 6, 1), (3, GO_ON, 7, 1))

    assert [[4, 0.4], [5, 0.5]] == objects.setpoints(second, 2)
    assert ([100.0, 100.0], [200.0, 200.0]) == (second.objective, third.objective)
    lake, quiet, _, moor = FakeObject.made
    assert [1, "reset", 4, 6] == [it if it == "reset" else it[0] for it in lake.log]
    assert [(2, 0), (5, 1), (7, 2)] == [it[:2] for it in moor.log]
    assert (4, []) == (len(FakeObject.made), quiet.log)
    assert {BODIES_MEMORY_ROWS // 4} == {one.memory.size_limit for one in FakeObject.made}
    assert lake.log[0][2] != moor.log[0][2]
    assert [[{"number": 1}, {"number": 2}], [{"number": 4}, {"number": 5}]] == list(map(data_of, objects.thought()))


def test_objects_hear_updates(objects: Stage) -> None:
    """An update is for the object of each body."""
    objects.thoughts = [Thought("new", True)]
    objects.act((0, BEGIN, 1, 0))

    assert ["new"] * 4 == [muscle.log[0] for muscle in FakeObject.made]


@pytest.mark.parametrize(
    ("value", "match"),
    [(99, "setpoint a: .* found 99"), (None, "actuator a has no value"), (1 / 3, "setpoint a: .* found 0.33")],
)
def test_a_wrong_proposal_of_an_object_names_its_body(objects: Stage, value: Any, match: str) -> None:
    """A missing or impossible setpoint is refused by id and body, whoever finds it."""

    def propose(sensors: Any, actuators_available: Any) -> Any:
        return [] if value is None else [it(value) for it in actuators_available]

    FakeObject.made[3].propose_actions = propose  # type: ignore[method-assign]
    with pytest.raises(AuthorError, match=match) as caught:
        objects.act((0, BEGIN, 1, 0), (3, BEGIN, 2, 0))

    where = "muscle ada (worker 2), class FakeObject, step 0, hook propose_actions; body moor/0"
    assert where == failure_of(caught.value).where


def test_arrays_with_an_objective_of_objects(hosted: Any, loader: Any) -> None:
    """An objective that is not batched is one per body, with a memory of its own, beside one muscle for all."""
    stage = Stage(hosted, loader, FakeArrays, FakeObjective)
    stage.setup()
    stage.act((0, BEGIN, 1, 0), (1, BEGIN, 2, 0))
    stage.act((0, GO_ON, 1, 1))
    assert [200.0, 100.0] == stage.act((0, GO_ON, 1, 1), (1, GO_ON, 2, 1)).objective
    assert 3 == len(stage.muscle.batches)


# -- going on elsewhere -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tells", [lambda it: None, lambda it: it, lambda it: it.tolist()])
def test_a_successor_goes_on_with_open_decisions(stage: Stage, hosted: Any, loader: Any, tells: Any) -> None:
    """What a snapshot has of bodies is all that the next messages need, and no longer the predecessor's."""
    stage.muscle.tells = tells
    stage.act((0, BEGIN, 1, 0), (1, BEGIN, 2, 0))
    stage.act((0, TERMINATED, 3, 1), (0, BEGIN, 3, 0))
    stage.thought().clear()
    other = stage.again(Stage(hosted, loader))
    other.muscle.tells = tells
    entries = [(0, GO_ON, 4, 0.5), (1, TRUNCATED, 5, 0.25), (1, BEGIN, 6, 0), (2, BEGIN, 7, 0)]

    assert stage.act(*entries) == other.act(*entries)
    assert stage.act((0, GO_ON, 4, 0.5), (2, GO_ON, 5, 0)) == other.act((0, GO_ON, 4, 0.5), (2, GO_ON, 5, 0))
    assert stage.thought()[1:] == other.thought()
    assert stage.muscle.batches[-1].episode.tolist() == other.muscle.batches[-1].episode.tolist()
