"""Hosts of environments whose bodies answer by arrays, through the messages of a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, OutOfObservationSpaceError, RemoteProtocolError
from ganglion.peer.environment.host import EnvironmentHost
from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentBaseline,
    RewardInformation,
    SensorInformation,
    StepBatch,
)
from ganglion.sdk.seed import derive, integer_from_words, words
from ganglion.wire.messages import TERMINATED, TRUNCATED, EnvironmentReset, EnvironmentStart, EnvironmentUpdate

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
