"""Hosts of environments and muscles with several bodies, through the messages of a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, OutOfActionSpaceError, OutOfObservationSpaceError, RemoteProtocolError
from ganglion.peer.agent.muscle import MuscleHost
from ganglion.peer.environment.host import EnvironmentHost
from ganglion.peer.step.layout import declaration
from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Muscle,
    Objective,
    RewardInformation,
    SensorInformation,
    StepBatch,
)
from ganglion.sdk.seed import derive, integer_from_words, words
from ganglion.wire.messages import (
    DECIDE,
    FIRST,
    TERMINATED,
    TRUNCATED,
    Act,
    EnvironmentReset,
    EnvironmentStart,
    EnvironmentUpdate,
    MuscleSetup,
    Thought,
)

STREAM = words(1, ["test"])
UNIT, TEN = Box(0.0, 1.0, ()), Discrete(10)
FREE = Box(-np.inf, np.inf, ())
BODIES = [["ada", 0, 0, None, None, None], ["ada", 0, 1, None, None, None], ["bob", 1, 0, "guard", None, None]]


def rows(*numbers: int) -> bytes:
    """Return numbers of rows as they travel."""
    return np.array(numbers, "<u2").tobytes()


def block(*values: float, dtype: str = "<f8") -> bytes:
    """Return values of bodies as they travel."""
    return np.array(values, dtype).tobytes()


def baseline(bodies: Any = (None,)) -> EnvironmentBaseline:
    """Return the declarations of each of these bodies."""
    return EnvironmentBaseline(
        [SensorInformation(0.5, UNIT, "half", None, body) for body in bodies],
        [ActuatorInformation(0, TEN, "a", None, body) for body in bodies],
        rewards_available=[RewardInformation(0.0, FREE, "gain", None, body) for body in bodies],
    )


class Arrays(Environment):
    """Answer by arrays: readings are a hundredth of the seed's last digits, rewards the setpoints."""

    batched = True

    def __init__(self) -> None:
        self.seeds: list[tuple[list[int], list[int]]] = []
        self.over: Any = False
        self.bad: dict[str, Any] = {}

    def start_environment(self) -> Any:
        return baseline()

    def update(self, actuators: Any) -> Any:
        raise NotImplementedError

    def begin_batch(self, rows: Any, seeds: Any) -> Any:
        self.seeds.append((rows.tolist(), list(seeds)))
        return {"half": np.full(len(rows), 0.25)}

    def update_batch(self, setpoints: Any) -> StepBatch:
        readings = {"half": 0.1 * self.rows}
        rewards = {"gain": setpoints["a"].astype(float)}
        over = self.over if np.ndim(self.over) == 0 else np.asarray(self.over)[self.rows]
        return StepBatch(**{"readings": readings, "rewards": rewards, "terminated": over, **self.bad})


class Objects(Environment):
    """Answer by informations that name their body."""

    def start_environment(self) -> Any:
        return baseline(self._all())

    def _all(self) -> list[Any]:
        return [(body.agent, body.b) for body in self.bodies]

    def update(self, actuators: Any) -> Any:
        given = {it.body: it.value for it in actuators}
        return EnvironmentState(
            [SensorInformation(0.5, UNIT, "half", None, body) for body in given],
            [RewardInformation(float(value), FREE, "gain", None, body) for body, value in given.items()],
            terminated={("bob", 0): True},
        )


class Stage:
    """Stand a host of an environment with three bodies."""

    def __init__(self, hosted: Any, loader: Any, cls: type[Environment]) -> None:
        self.hosted = hosted(EnvironmentHost(loader(environment=cls)))

    def start(self, **fields: Any) -> Any:
        place = ("r", 0, "one", "train", 2, "w", {}, 1, 2, STREAM, STREAM, {"name": "own", "params": {}})
        start = EnvironmentStart(*place, **{"bodies": BODIES, "index": 3, **fields})
        return self.hosted.ask("environment.start", start)

    def update(self, *setpoints: int, of: bytes | None = None) -> Any:
        message = EnvironmentUpdate([block(*setpoints, dtype="<i8")], None, of)
        return self.hosted.ask("environment.update", message)

    @property
    def world(self) -> Any:
        return self.hosted.host._environment


@pytest.fixture
def arrays(hosted: Any, loader: Any) -> Stage:
    """Return a host of an environment that answers by arrays."""
    return Stage(hosted, loader, Arrays)


def test_an_environment_knows_its_bodies_and_begins_them_by_seeds(arrays: Stage) -> None:
    """The bodies are named before the start, the first readings are those of all, each with a seed of its own."""
    declared = arrays.start()
    body = arrays.world.bodies[2]

    assert ([block(0.25, 0.25, 0.25)], 3) == (declared.readings, arrays.world.index)
    assert ("bob", 1, 0, "guard") == (body.agent, body.a, body.b, body.role)
    seeds = [integer_from_words(derive(STREAM, "body", *it)) for it in (("ada", 0), ("ada", 1), ("bob", 0))]
    assert [([0, 1, 2], seeds)] == arrays.world.seeds


def test_only_living_bodies_are_stepped(arrays: Stage) -> None:
    """Readings, rewards and flags are those of the rows that take part, in their order."""
    arrays.start()
    arrays.world.over = [True, False, True]
    answer = arrays.update(4, 7, of=rows(1, 2))

    expected = ([block(0.1, 0.2)], [block(4.0, 7.0)], bytes([0, TERMINATED]))
    assert expected == (answer.readings, answer.rewards, answer.flags)


def test_with_each_bodies_begin_anew_within_the_step(arrays: Stage) -> None:
    """Who ended or reached the cap has first readings in the same answer; a body whose budget is spent has none."""
    arrays.start(each={"max_steps": 2, "budget_steps": None, "budget_episodes": 2})
    arrays.world.over = [True, False, False]
    first = arrays.update(1, 1, 1)
    arrays.world.over = False
    second = arrays.update(1, 1, 1)
    arrays.world.over = [True, False, False]
    third = arrays.update(1, 1, 1)

    assert (bytes([1, 0, 0]), rows(0), [block(0.25)]) == (first.flags, first.first_rows, first.first_readings)
    assert (bytes([0, TRUNCATED, TRUNCATED]), rows(1, 2)) == (second.flags, second.first_rows)
    assert (bytes([1, 0, 0]), None) == (third.flags, third.first_rows)
    seed = integer_from_words(derive(STREAM, "body", "ada", 0, "episode", 1))
    assert ([0], [seed]) == arrays.world.seeds[1]


def test_a_reset_begins_all_bodies(arrays: Stage) -> None:
    """Without `each` a reset gives the first readings of all, by seeds below that of the episode."""
    arrays.start()
    arrays.update(1, 1, 1)
    answer = arrays.hosted.ask("environment.reset", EnvironmentReset(1, 5, words(1, ["other"])))

    assert [block(0.25, 0.25, 0.25)] == answer.readings
    assert arrays.world.seeds[0][1] != arrays.world.seeds[1][1]


@pytest.mark.parametrize(
    ("bad", "kind", "text"),
    [
        ({"readings": {"half": np.array([0.5, 2.0, 0.5])}}, OutOfObservationSpaceError, "half of body ada/1"),
        ({"readings": {"half": np.array([0.5, 0.5, np.nan])}}, OutOfObservationSpaceError, "half of body bob/0"),
        ({"readings": {"half": np.zeros(2)}}, AuthorError, r"expected an array of shape \(3,\), found \(2,\)"),
        ({"readings": {}}, AuthorError, "'half' is missing"),
        ({"rewards": {"gain": np.array([0.0, np.inf, 0.0])}}, AuthorError, "expected a finite number"),
        ({"terminated": np.zeros(2, bool)}, AuthorError, "one for each of 3 bodies"),
        ({"terminated": np.array([False, True, False]), "truncated": True}, AuthorError, "both true of body ada/1"),
    ],
)
def test_a_bad_answer_is_refused_by_its_body(arrays: Stage, bad: Any, kind: type[Exception], text: str) -> None:
    """What an author's arrays have wrong is told with the id and the body."""
    arrays.start()
    arrays.world.bad = bad

    with pytest.raises(kind, match=text):
        arrays.update(1, 1, 1)


@pytest.mark.parametrize(
    ("setpoints", "of", "text"),
    [((1, 1), None, "expected blocks of 3 bodies"), ((1, 1), rows(2, 1), "ascending"), ((1,), rows(3), "below 3")],
)
def test_an_update_of_other_rows_is_refused(arrays: Stage, setpoints: Any, of: Any, text: str) -> None:
    """Rows that are not ascending, or none of this environment, and blocks of another length are refused."""
    arrays.start()

    with pytest.raises(RemoteProtocolError, match=text):
        arrays.update(*setpoints, of=of)


def test_objects_name_their_bodies(hosted: Any, loader: Any) -> None:
    """An environment without arrays gets and gives informations with a body, and flags by body."""
    stage = Stage(hosted, loader, Objects)
    declared = stage.start()
    answer = stage.update(3, 4, 5)

    assert ([block(0.5, 0.5, 0.5)], 1) == (declared.readings, len(declared.sensors))
    assert ([block(3.0, 4.0, 5.0)], bytes([0, 0, TERMINATED])) == (answer.rewards, answer.flags)


def test_each_needs_arrays(hosted: Any, loader: Any) -> None:
    """An environment without arrays cannot begin single bodies anew, and is refused by name."""
    with pytest.raises(AuthorError, match="episode_end: each needs an environment that is batched"):
        Stage(hosted, loader, Objects).start(each={})


# -- muscles ----------------------------------------------------------------------------------------------------------


class Together(Muscle):
    """Set each actuator to the number of its decision, for all bodies at once."""

    batched = True
    proposal: Any = None

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        raise NotImplementedError

    def propose_batch(self, batch: Any) -> Any:
        self.batch = batch
        return batch.step[:, None] if self.proposal is None else self.proposal


class Single(Muscle):
    """Count the decisions of one body."""

    count = 0

    def reset(self) -> None:
        self.count += 5

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        actuators_available[0].value = self.count
        self.count += 1
        return actuators_available


class Sums(Objective):
    """Add up rewards, of one body or of many."""

    batched = True

    def internal_rewards(self, batch: Any) -> Any:
        return batch.rewards.sum(axis=1)

    def internal_reward(self, memory: Any, **kwargs: Any) -> float:
        return float(memory.tail(1).rewards.values.sum())


class Acting:
    """Stand a host of a muscle with three bodies, of which the last is not learned from."""

    def __init__(self, hosted: Any, loader: Any, cls: type[Muscle]) -> None:
        self.hosted = hosted(MuscleHost(loader(muscle=cls, objective=Sums)))
        self.link = self.hosted.link
        self.link.answers |= dict.fromkeys(
            ("brain.join", "brain.think", "brain.update"), lambda peer, message: Thought()
        )
        plugin = {"name": "own", "params": {}}
        own = [
            [uid, b, learn, words(2, [uid, b])] for uid, b, learn in (("w", 0, True), ("w", 1, True), ("v", 0, False))
        ]
        setup = MuscleSetup(
            "r", 0, "one", "train", 0, "a", plugin, plugin,
            [declaration("s", UNIT)], [declaration("m", TEN, 0)], [declaration("r", FREE)], STREAM, STREAM,
            brain="r/brain/a", bodies=own,
        )  # fmt: skip
        self.hosted.ask("muscle.setup", setup)

    def act(self, of: bytes, flags: list[int], readings: Any, rewards: Any) -> Any:
        message = Act([block(*readings)], [block(*rewards)], rows=of, flags=bytes(flags))
        return self.hosted.ask("muscle.act", message)

    def thoughts(self) -> list[Any]:
        return [message for _, message in self.link.asked("brain.think")]


@pytest.mark.parametrize("cls", [Together, Single])
def test_decisions_of_bodies_are_made_and_completed(hosted: Any, loader: Any, cls: type[Muscle]) -> None:
    """One message completes the decisions of bodies and makes their next; the brain hears of those that are learned."""
    stage = Acting(hosted, loader, cls)
    begun = stage.act(rows(0, 1, 2), [DECIDE | FIRST] * 3, (0.1, 0.2, 0.3), (0, 0, 0))
    going = stage.act(rows(0, 1, 2), [DECIDE, TERMINATED, DECIDE], (0.4, 0.5, 0.6), (1, 2, 3))
    anew = stage.act(rows(0, 1, 2), [DECIDE, DECIDE | FIRST, TRUNCATED], (0.7, 0.8, 0.9), (4, 0, 6))

    assert ([block(0, 0, 0, dtype="<i8")], []) == (begun.setpoints, begun.objective)
    assert ([block(1, 1, dtype="<i8")], [1.0, 2.0, 3.0]) == (going.setpoints, going.objective)
    last = [2, 0] if cls is Together else [2, 6]
    assert ([block(*last, dtype="<i8")], [4.0, 6.0]) == (anew.setpoints, anew.objective)
    first, second = stage.thoughts()
    assert (rows(0, 1), bytes([0, TERMINATED]), [1.0, 2.0]) == (first.rows, first.flags, first.objective)
    assert ([block(0.1, 0.2)], [block(0.4, 0.5)]) == (first.readings, first.next_readings)
    assert (rows(0), [block(0.4)], [block(0.7)]) == (second.rows, second.readings, second.next_readings)


def test_an_array_muscle_sees_who_begins(hosted: Any, loader: Any) -> None:
    """The batch names the bodies, their decisions and episodes, and says which begin."""
    stage = Acting(hosted, loader, Together)
    stage.act(rows(0, 2), [DECIDE | FIRST] * 2, (0.1, 0.3), (0, 0))
    stage.act(rows(0, 1), [DECIDE, DECIDE | FIRST], (0.4, 0.5), (1, 0))
    batch = stage.hosted.host._muscle.batch

    assert [("a", "w", 0), ("a", "w", 1)] == list(batch.bodies)
    assert ([False, True], [1, 0], [0, 0]) == (batch.first.tolist(), batch.step.tolist(), batch.episode.tolist())


@pytest.mark.parametrize(
    ("proposal", "kind", "text"),
    [
        (np.array([[1], [99]]), OutOfActionSpaceError, "m"),
        (np.array([[1]]), AuthorError, r"expected setpoints of shape \(2, 1\)"),
        ({"m": np.array([1, 12])}, OutOfActionSpaceError, "m of body w/1"),
    ],
)
def test_a_bad_proposal_is_refused(hosted: Any, loader: Any, proposal: Any, kind: type[Exception], text: str) -> None:
    """A setpoint outside of its space and an array of another shape are refused by id."""
    stage = Acting(hosted, loader, Together)
    stage.hosted.host._muscle.proposal = proposal

    with pytest.raises(kind, match=text):
        stage.act(rows(0, 1), [DECIDE | FIRST] * 2, (0.1, 0.2), (0, 0))


@pytest.mark.parametrize(
    ("of", "flags", "readings", "text"),
    [
        (rows(0), [DECIDE], (0.1,), "body w/0 has no open decision"),
        (rows(7), [DECIDE | FIRST], (0.1,), "expected numbers below 3, found 7"),
        (rows(0, 1), [DECIDE | FIRST], (0.1, 0.2), "flags of one byte for each body"),
        (rows(0), [DECIDE | FIRST], (0.1, 0.2), "readings"),
    ],
)
def test_a_message_of_other_rows_is_refused(
    hosted: Any, loader: Any, of: bytes, flags: list[int], readings: Any, text: str
) -> None:
    """Rows, flags and blocks that do not fit each other are refused, and nothing is decided."""
    with pytest.raises(RemoteProtocolError, match=text):
        Acting(hosted, loader, Together).act(of, flags, readings, (0,) * len(readings))
