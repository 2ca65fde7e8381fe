"""Environments with bodies at their host: objects, arrays, budgets, resets, declarations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fakepeer import STREAM, TEN, UNIT, environment_start

from ganglion.errors import AuthorError, OutOfObservationSpaceError, RemoteProtocolError
from ganglion.peer.author import failure_of
from ganglion.peer.environment.host import EnvironmentHost
from ganglion.peer.step.arrays import wants_of
from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Reward,
    RewardInformation,
    SensorInformation,
    SimTime,
    StepBatch,
)
from ganglion.sdk.seed import derive, integer_from_words, words
from ganglion.wire.messages import BY_CLOCK, TERMINATED, TRUNCATED, EnvironmentReset, EnvironmentUpdate

FREE = Box(-np.inf, np.inf, ())
BODIES = [["ada", 0, 0, None, None, None], ["ada", 0, 1, None, None, None], ["bob", 1, 0, None, None, None]]
A0, A1, B0 = ("ada", 0), ("ada", 1), ("bob", 0)


def reading(body: Any, value: float = 0.5, uid: str = "half") -> SensorInformation:
    """Return the reading of a body."""
    return SensorInformation(value, UNIT, uid, body=body)


def earned(body: Any, value: float = 1.0) -> RewardInformation:
    """Return the reward of a body."""
    return RewardInformation(value, FREE, "gain", body=body)


def baseline(*sensors: SensorInformation, **fields: Any) -> EnvironmentBaseline:
    """Return declarations; a reward is declared if no other are."""
    actuators = [ActuatorInformation(0, TEN, "a")]
    return EnvironmentBaseline(list(sensors), actuators, **{"rewards_available": [earned(None, 0.0)], **fields})


class Herd(Environment):
    """Answer by informations; each test says what."""

    declares: Callable[[], Any]
    answers: Callable[[list[Any]], Any]

    def start_environment(self) -> Any:
        return type(self).declares()

    def update(self, actuators: list[ActuatorInformation]) -> Any:
        return type(self).answers([it.body for it in actuators])


class Flock(Environment):
    """Answer by arrays: of a body's episode the steps made, in hundredths, never ended by itself."""

    batched = True

    def __init__(self) -> None:
        self.begun: list[tuple[list[int], list[int]]] = []
        self.counts = np.zeros(3)
        self.bad: dict[str, Any] = {}

    def start_environment(self) -> Any:
        return baseline(reading(None))

    def update(self, actuators: Any) -> Any:
        raise NotImplementedError

    def begin_batch(self, rows: Any, seeds: Any) -> Any:
        self.begun.append((rows.tolist(), seeds))
        self.counts[rows] = 0.5
        return {"half": self.counts[rows]}

    def update_batch(self, setpoints: Any) -> StepBatch:
        self.counts[self.rows] += 0.01
        readings, rewards = {"half": self.counts[self.rows]}, {"gain": np.ones(len(self.rows))}
        over = np.zeros(len(self.rows), bool)
        return StepBatch(**{"readings": readings, "rewards": rewards, "terminated": over, **self.bad})


class Pays(Reward):
    """Pay nothing."""

    def __call__(self, state: EnvironmentState) -> RewardInformation:
        return earned(None, 0.0)


class Stage:
    """Stand a host of an environment with three bodies, and start it."""

    def __init__(self, hosted: Any, loader: Any, cls: type[Environment], **fields: Any) -> None:
        self.hosted = hosted(EnvironmentHost(loader(environment=cls, reward=Pays)))
        start = environment_start(**{"bodies": BODIES, "index": 0, **fields})
        self.declared = self.hosted.ask("environment.start", start)

    def update(self, *rows: int) -> Any:
        """Step these bodies."""
        setpoints, of = np.zeros(len(rows), "<i8").tobytes(), np.array(rows, "<u2").tobytes()
        return self.hosted.ask("environment.update", EnvironmentUpdate([setpoints], None, of))

    def reset(self, episode: int = 1, **fields: Any) -> Any:
        """Open the next episodes."""
        return self.hosted.ask("environment.reset", EnvironmentReset(episode, 7, words(2, ["test"]), **fields))

    @property
    def world(self) -> Any:
        """The author's object."""
        return self.hosted.host._environment


def numbers(block: bytes | None, dtype: str = "<f8") -> list[Any]:
    """Return the values of a block."""
    return np.frombuffer(block or b"", dtype).tolist()


def whole(bodies: list[Any], gain: float = 1.0, **fields: Any) -> EnvironmentState:
    """Return all that these bodies, or readings, are to show."""
    readings = [it if isinstance(it, SensorInformation) else reading(it) for it in bodies]
    return EnvironmentState(readings, [earned(it.body, gain) for it in readings], **fields)


@pytest.fixture
def herd(hosted: Any, loader: Any) -> Callable[..., Stage]:
    """Return a function that starts bodies that are objects."""

    def start(answers: Any = whole, declares: Any = None, **fields: Any) -> Stage:
        declares = declares or (lambda: baseline(*map(reading, (A0, A1, B0))))
        cls = type("Own", (Herd,), {"answers": staticmethod(answers), "declares": staticmethod(declares)})
        return Stage(hosted, loader, cls, **fields)

    return start


# -- objects ----------------------------------------------------------------------------------------------------------
def test_objects_of_living_bodies_only(herd: Any) -> None:
    """Setpoints, readings, rewards and flags are those of the rows; the order of informations is no matter."""

    def answers(bodies: list[Any]) -> Any:
        assert [A1, B0] == bodies
        sensors = [reading(B0, 0.75), reading(A1, 0.25)]
        flags = {"terminated": {A1: True}, "truncated": {B0: True}}
        return EnvironmentState(sensors, [earned(A1, 3.0), earned(B0, 4.0)], simtime=SimTime(9, None), **flags)

    found = herd(answers).update(1, 2)

    assert ([0.25, 0.75], [3.0, 4.0]) == (numbers(found.readings[0]), numbers(found.rewards[0]))
    assert (bytes([TERMINATED, TRUNCATED]), 9) == (found.flags, found.ticks)
    assert (False, False) == (found.terminated, found.truncated)


def test_wants_travel_as_a_byte_of_each(herd: Any) -> None:
    """Who is not named goes by its clock."""
    found = herd(lambda bodies: whole(bodies, wants={A1: True, B0: False})).update(0, 1, 2)

    assert bytes([BY_CLOCK, 1, 0]) == found.wants
    assert herd().update(0, 1, 2).wants is None


@pytest.mark.parametrize("value", [np.nan, np.inf, True, "1", [1.0]])
def test_groups_get_one_finite_number(herd: Any, value: Any) -> None:
    """It travels by the name of the group; anything else is refused."""
    bodies = [[*row[:5], "herd"] for row in BODIES]
    answers = iter([0.5, value])
    stage = herd(lambda those: whole(those, group_rewards={"herd": next(answers)}), bodies=bodies)

    assert {"herd": 0.5} == stage.update(0, 1, 2).group_rewards
    with pytest.raises(AuthorError, match="group_rewards: herd: expected a finite number"):
        stage.update(0, 1, 2)


@pytest.mark.parametrize("wants", [[True], np.ones(3), np.ones((3, 1), bool), "all"])
def test_wants_of_arrays_are_one_boolean_of_each(wants: Any) -> None:
    """Others are refused."""
    assert bytes([1, 0]) == wants_of(np.array([True, False]), 2)
    with pytest.raises(AuthorError, match="wants: expected a boolean for each of 3 bodies"):
        wants_of(wants, 3)


def test_one_flag_means_all_and_is_the_environments_own(herd: Any) -> None:
    """A flag that is no map ends all bodies; a tuple of three stands for a state."""
    own = herd(lambda bodies: whole(bodies, truncated=True)).update(0, 1, 2)
    short = herd(lambda bodies: ([reading(it) for it in bodies], [earned(it) for it in bodies], True)).update(0, 2)

    assert (bytes([TRUNCATED] * 3), False, True) == (own.flags, own.terminated, own.truncated)
    assert (bytes([TERMINATED] * 2), True, False) == (short.flags, short.terminated, short.truncated)


@pytest.mark.parametrize(
    ("answers", "kind", "text"),
    [
        (lambda bodies: None, AuthorError, "expected an EnvironmentState, found NoneType"),
        (lambda bodies: whole(bodies[:2]), AuthorError, "sensors: expected those of body bob/0, found none"),
        (lambda bodies: EnvironmentState([reading(it) for it in bodies], [earned(A0)], False), AuthorError, "ada/1"),
        (lambda bodies: whole([*bodies, ("eve", 0)]), AuthorError, "'half': expected one of the bodies as body"),
        (lambda bodies: whole(bodies, wants={("eve", 0): True}), AuthorError, "wants: there is no body .'eve', 0"),
        (lambda bodies: whole(bodies, wants={A1: 1}), AuthorError, "wants: expected a map from .agent, b. to booleans"),
        (lambda bodies: whole(bodies, wants=[A1]), AuthorError, "wants: expected a map from .agent, b. to booleans"),
        (lambda bodies: whole(bodies, group_rewards={"herd": 1.0}), AuthorError, "bodies .none., found 'herd'"),
        (lambda bodies: whole(bodies, group_rewards=[1.0]), AuthorError, "group_rewards: expected a map from groups"),
        (lambda bodies: whole([None]), AuthorError, "expected one of the bodies as body, found None"),
        (lambda bodies: whole(bodies, terminated={("eve", 0): True}), AuthorError, "there is no body .'eve', 0.*bob/0"),
        (
            lambda bodies: whole(bodies, terminated={A1: True}, truncated={A1: True}),
            AuthorError,
            "both true of .* ada/1",
        ),
        (lambda bodies: whole(bodies, gain=np.inf), AuthorError, "body ada/0: expected a finite number"),
        (lambda bodies: whole([reading(it, 2.0) for it in bodies]), OutOfObservationSpaceError, "half of body ada/0"),
        (
            lambda bodies: whole([reading(it, uid=uid) for it in bodies for uid in ("half", "more")]),
            AuthorError,
            "more",
        ),
    ],
)
def test_a_bad_answer_of_objects_is_refused(herd: Any, answers: Any, kind: type[Exception], text: str) -> None:
    """What is missing, strange or out of its space is told by its body, and the hook is named."""
    stage = herd(answers)
    with pytest.raises(kind, match=text) as caught:
        stage.update(0, 1, 2)

    assert (failure_of(caught.value).where or "").endswith("hook update")


def test_bodies_that_take_no_part_are_refused(herd: Any) -> None:
    """A body that has ended gives no readings."""
    with pytest.raises(AuthorError, match="body bob/0 takes no part in this step"):
        herd(lambda bodies: whole([A0, A1, B0])).update(0, 1)


@pytest.mark.parametrize(
    ("declares", "fields", "text"),
    [
        (lambda: baseline(*map(reading, (A0, A1, B0)), rewards_available=None), {}, "rewards at the start"),
        (lambda: baseline(reading(A0), reading(A1), reading(B0, uid="x")), {}, "ada/0 and bob/0 declare different"),
        (lambda: baseline(reading(A1), reading(B0)), {}, "ada/0 and ada/1 declare different sensors"),
        (lambda: baseline(reading(A0), reading(A1)), {}, "ada/0 and bob/0 declare different sensors"),
        (lambda: baseline(reading(A0), reading(A1), reading(None)), {}, "expected one of the bodies as body"),
        (None, {"each": {}}, "episode_end: each needs an environment that is batched"),
    ],
)
def test_declarations_that_do_not_fit_bodies_are_refused(herd: Any, declares: Any, fields: Any, text: str) -> None:
    """All bodies of an environment are declared alike, with their rewards, before anything is decided."""
    with pytest.raises(AuthorError, match=text):
        herd(declares=declares, **fields)


def test_a_reset_of_objects_gives_all_their_readings(herd: Any) -> None:
    """Each reset has first readings of all bodies; other declarations than before are an error."""
    values = iter([0.5, 0.25, 0.25])
    ids = iter(["half", "half", "other"])

    def declares() -> Any:
        value, uid = next(values), next(ids)
        return baseline(*(reading(body, value, uid) for body in (A0, A1, B0)))

    stage = herd(declares=declares)
    found = stage.reset()

    assert ([0.5] * 3, [0.25] * 3) == (numbers(stage.declared.readings[0]), numbers(found.readings[0]))
    with pytest.raises(AuthorError, match="sensors changed between episodes: half is missing"):
        stage.reset(2)


# -- arrays -----------------------------------------------------------------------------------------------------------
def test_bodies_begin_by_seeds_of_their_own(hosted: Any, loader: Any) -> None:
    """The bodies are named before the start; the first readings, and those of a reset, are of all, each with a seed."""
    stage = Stage(hosted, loader, Flock, index=3)
    stage.reset()
    body, bodies = stage.world.bodies[2], (A0, A1, B0)
    seeds = [
        [integer_from_words(derive(stream, "body", *it)) for it in bodies] for stream in (STREAM, words(2, ["test"]))
    ]

    assert ([0.5] * 3, 3) == (numbers(stage.declared.readings[0]), stage.world.index)
    assert ("bob", 1, 0, None) == (body.agent, body.a, body.b, body.role)
    assert [([0, 1, 2], seeds[0]), ([0, 1, 2], seeds[1])] == stage.world.begun


@pytest.mark.parametrize(
    ("bad", "kind", "text"),
    [
        ({"readings": {"half": np.array([0.5, 2.0, 0.5])}}, OutOfObservationSpaceError, "half of body ada/1"),
        ({"readings": {"half": np.array([0.5, 0.5, np.nan])}}, OutOfObservationSpaceError, "half of body bob/0"),
        ({"readings": {"half": np.zeros(2)}}, AuthorError, r"expected an array of shape \(3,\), found \(2,\)"),
        ({"readings": {}}, AuthorError, "'half' is missing"),
        ({"readings": {"half": np.full(3, 0.5), "x": np.zeros(3)}}, AuthorError, "'x' was not declared"),
        ({"rewards": {"gain": np.array([0.0, np.inf, 0.0])}}, AuthorError, "expected a finite number"),
        ({"terminated": np.zeros(2, bool)}, AuthorError, "one for each of 3 bodies"),
        ({"terminated": np.array([False, True, False]), "truncated": True}, AuthorError, "both true of body ada/1"),
    ],
)
def test_a_bad_answer_of_arrays_is_refused_by_its_body(
    hosted: Any, loader: Any, bad: Any, kind: type[Exception], text: str
) -> None:
    """What an author's arrays have wrong is told with the id and the body."""
    stage = Stage(hosted, loader, Flock)
    stage.world.bad = bad

    with pytest.raises(kind, match=text):
        stage.update(0, 1, 2)


@pytest.mark.parametrize(
    ("count", "of", "text"), [(2, None, "expected blocks of 3 bodies"), (2, (2, 1), "ascending"), (1, (3,), "below 3")]
)
def test_an_update_of_other_rows_is_refused(hosted: Any, loader: Any, count: int, of: Any, text: str) -> None:
    """Rows that are not ascending, or none of this environment, and blocks of another length are refused."""
    rows = None if of is None else np.array(of, "<u2").tobytes()
    message = EnvironmentUpdate([np.ones(count, "<i8").tobytes()], None, rows)

    with pytest.raises(RemoteProtocolError, match=text):
        Stage(hosted, loader, Flock).hosted.ask("environment.update", message)


# -- budgets ----------------------------------------------------------------------------------------------------------
def each(**limits: Any) -> dict[str, Any]:
    """Return limits of bodies with episodes of their own."""
    return {"max_steps": None, "budget_steps": None, "budget_episodes": None, **limits}


def flow(stage: Stage, *steps: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Return flags and rows begun anew, of each step of these rows."""
    answers = [stage.update(*rows) for rows in steps]
    return [(list(it.flags), numbers(it.first_rows, "<u2")) for it in answers]


def test_a_budget_of_steps_is_each_bodys_own(hosted: Any, loader: Any) -> None:
    """The last step of a body's budget truncates its episode, which nobody begins anew."""
    stage = Stage(hosted, loader, Flock, each=each(max_steps=2, budget_steps=3))
    found = flow(stage, (0, 1, 2), (0, 2), (1, 2), (0, 1))

    assert [([0, 0, 0], []), ([2, 2], [0, 2]), ([2, 2], [1]), ([2, 2], [])] == found


def test_a_reset_begins_bodies_that_are_not_over(hosted: Any, loader: Any) -> None:
    """With `each` a reset says how far each body is; zeros stand for those whose budget is spent."""
    stage = Stage(hosted, loader, Flock, each=each(max_steps=1, budget_episodes=2))
    flow(stage, (0, 1), (0,))
    far = {"budget_episodes": [2, 2, 2], "episodes": [2, 2, 1], "made": [2, 1, 0]}
    found = stage.reset(each=each(max_steps=1) | far)

    assert [0.0, 0.0, 0.5] == numbers(found.readings[0])
    rows, seeds = stage.world.begun[-1]
    assert ([2], [integer_from_words(derive(STREAM, "body", *B0, "episode", 1))]) == (rows, seeds)


# -- bodies that come and go ------------------------------------------------------------------------------------------
SPARE = {"dynamic": [["bob", 1, None, None, None]] * 2, "used": {"bob": 4}}
B5, B6, B7 = ("bob", 5), ("bob", 6), ("bob", 7)


def test_objects_spawn_and_retire_bodies(herd: Any) -> None:
    """A body that comes has a free row and takes part from the next step on; that of one that is gone is given away."""
    script = iter(
        [
            {"spawned": {B5: [reading(None, 0.25)], B6: [reading(B6, 0.75)]}, "terminated": {}, "truncated": {}},
            {"retired": {B5: "truncated", A1: "terminated"}, "spawned": {B7: [reading(B7)]}},
            {},
        ]
    )
    given: list[Any] = []

    def answers(bodies: list[Any]) -> Any:
        given.append(bodies)
        return whole(bodies, **next(script))

    stage = herd(answers, **SPARE)
    first, second, third = stage.update(0, 1, 2), stage.update(0, 1, 2, 3, 4), stage.update(0, 2, 3, 4)

    assert ([[3, 5], [4, 6]], [0.25, 0.75]) == (first.spawned, numbers(first.spawned_readings[0]))
    assert ([0, 1, 0, 2, 0], [[3, 7]], None) == (list(second.flags), second.spawned, third.spawned)
    assert [[A0, A1, B0], [A0, A1, B0, B5, B6], [A0, B0, B7, B6]] == given
    assert (7, [A0, A1, B0, B7, B6]) == (stage.world.used["bob"], [(it.agent, it.b) for it in stage.world.bodies])
    stage.reset()
    assert [A0, A1, B0] == [(body.agent, body.b) for body in stage.world.bodies]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"spawned": {("ada", 2): [reading(None)]}}, "ada/w/2: the document has no bodies.dynamic of agent `ada` in"),
        ({"spawned": {("bob", 4): [reading(None)]}}, "bob/w/4: expected a number above 4, which none has had"),
        ({"spawned": {B6: [reading(None)], B5: [reading(None)]}}, "bob/w/5: expected a number above 6"),
        ({"spawned": {body: [reading(None)] for body in (B5, B6, B7)}}, "bob/w/7: expected at most 2 at a time"),
        ({"spawned": {B5: [reading(B0)]}}, "body bob/w/5: found sensors of .'bob', 0"),
        ({"spawned": {B5: []}}, "'half' is missing"),
        ({"spawned": [B5]}, "expected a map from .agent, b. to sensors, found list"),
        ({"retired": {B5: "terminated"}}, "body bob/w/5 takes no part in this step"),
        ({"retired": {A0: "gone"}}, "body ada/w/0: expected terminated or truncated, found 'gone'"),
        ({"retired": {A0: "truncated"}, "terminated": {A0: True}}, "found both of body ada/w/0"),
        ({"terminated": {A0: True}, "over": "done"}, "over: expected one of terminated, truncated or None"),
    ],
)
def test_bodies_that_cannot_come_or_go_are_refused(herd: Any, fields: dict[str, Any], text: str) -> None:
    """What no document allows, numbers that were used, and flags that exclude each other are told by the body."""
    with pytest.raises(AuthorError, match=text):
        herd(lambda bodies: whole(bodies, **fields), **SPARE).update(0, 1, 2)


def test_an_episode_that_is_over_ends_all_bodies_in_their_own_way(herd: Any) -> None:
    """Who has no flag of its own gets that of the environment."""
    found = herd(lambda bodies: whole(bodies, terminated={A1: True}, over="truncated")).update(0, 1, 2)

    assert ([2, 1, 2], False, True) == (list(found.flags), found.terminated, found.truncated)


class Spawning(Flock):
    """Spawn a body in each step, retire the oldest one in the third."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = np.zeros(5)

    def update_batch(self, setpoints: Any) -> StepBatch:
        found = super().update_batch(setpoints)
        found.spawned = [("bob", self.used["bob"] + 1)]
        if len(self.rows) == 5:
            found.retired = {B5: "terminated"}
        return found


def test_arrays_begin_spawned_bodies_by_their_rows(hosted: Any, loader: Any) -> None:
    """`begin_batch` is asked for their first readings; with `each` who is retired does not begin anew."""
    stage = Stage(hosted, loader, Spawning, each=each(max_steps=2), **SPARE)
    found = [stage.update(*rows) for rows in ((0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3, 4))]

    assert [[[3, 5]], [[4, 6]], [[3, 7]]] == [it.spawned for it in found]
    assert [[], [0, 1, 2], []] == [numbers(it.first_rows, "<u2") for it in found]
    assert [[0, 1, 2], [3], [0, 1, 2], [4], [3]] == [rows for rows, _ in stage.world.begun]
    seed = integer_from_words(derive(STREAM, "body", "bob", 7, "episode", 0))
    assert [seed] == stage.world.begun[-1][1]
