from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from ganglion.errors import (
    AuthorError,
    LocalProtocolError,
    OutOfActionSpaceError,
    OutOfObservationSpaceError,
    OutOfRewardSpaceError,
    RemoteProtocolError,
)
from ganglion.peer.environment import EnvironmentHost
from ganglion.peer.failure import failure_of
from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Reward,
    RewardInformation,
    SensorInformation,
    SimTime,
    StateTransformer,
    StepBatch,
)
from ganglion.sdk.flow import Mode
from ganglion.sdk.seed import generator_from_words, integer_from_words, words
from ganglion.wire.messages import (
    Done,
    EnvironmentReset,
    EnvironmentStart,
    EnvironmentUpdate,
    EnvironmentUpdated,
    Nothing,
)

STREAM = words(1, ["test"])
UNIT = Box(0.0, 1.0, ())
TEN = Discrete(10)


class FakeWorld(Environment):
    """Count updates; what it answers can be changed by each test."""

    def __init__(self, **params: Any) -> None:
        self.given: list[list[tuple[str, Any]]] = []
        self.step = 0
        self.ended = 0
        self.answer: Callable[[FakeWorld], Any] = plain
        self.begin: Callable[[FakeWorld], Any] = opened

    def start_environment(self) -> Any:
        self.step = 0
        return self.begin(self)

    def update(self, actuators: list[ActuatorInformation]) -> Any:
        self.step += 1
        self.given.append([(it.uid, it.value) for it in actuators])
        return self.answer(self)

    def shutdown(self) -> None:
        self.ended += 1


def sensors(world: FakeWorld) -> list[SensorInformation]:
    """Return its readings."""
    return [SensorInformation(world.step, TEN, "count"), SensorInformation(0.5, UNIT, "half")]


def opened(world: FakeWorld) -> Any:
    """Return what it declares."""
    return sensors(world), [ActuatorInformation(0, TEN, "a"), ActuatorInformation(1.0, UNIT, "b")]


def reward(value: Any = 1.0, uid: str = "gain", space: Any = UNIT) -> RewardInformation:
    """Return one reward."""
    return RewardInformation(value, space, uid)


def plain(world: FakeWorld) -> Any:
    """Return what it answers to an update."""
    return sensors(world), [reward()], world.step >= 3


class Stage:
    """Stand a host of one fake world, and keep what was made."""

    def __init__(self, hosted: Any, loader: Any, **parts: type[Any]) -> None:
        self.parts = parts
        self.hosted = hosted(EnvironmentHost(loader(environment=parts.pop("world", FakeWorld), **parts)))

    def message(self, **fields: Any) -> EnvironmentStart:
        plugin = {"name": "own", "params": {}}
        chosen: dict[str, Any] = {"params": {}, "plugin": plugin, "mode": "train"}
        for part in self.parts:
            chosen[part] = plugin
        chosen |= fields
        return EnvironmentStart(
            "r",
            0,
            "one",
            chosen["mode"],
            2,
            "w",
            chosen["params"],
            1,
            2,
            STREAM,
            STREAM,
            chosen["plugin"],
            chosen.get("reward"),
            chosen.get("transformer"),
        )

    def start(self, **fields: Any) -> Any:
        return self.hosted.ask("environment.start", self.message(**fields))

    def update(self, *row: Any, actuators: list[int] | None = None) -> Any:
        given = list(row) or [0, 0.5]
        return self.hosted.ask("environment.update", EnvironmentUpdate([given], actuators))

    def reset(self, episode: int = 1, stream: bytes = STREAM) -> Any:
        return self.hosted.ask("environment.reset", EnvironmentReset(episode, 7, stream))

    @property
    def world(self) -> Any:
        return self.hosted.host._environment

    @property
    def reward(self) -> Any:
        return self.hosted.host._judgement.reward

    @property
    def transformer(self) -> Any:
        return self.hosted.host._judgement.transformer


@pytest.fixture
def stage(hosted: Any, loader: Any) -> Callable[..., Stage]:
    """Return a function that stands a host, of these parts."""
    return lambda **parts: Stage(hosted, loader, **parts)


# -- declaring --------------------------------------------------------------------------------------------------------
def test_start_declares_in_order(stage: Any) -> None:
    """Sensors, actuators with their no-ops, the first readings and the time are answered; rewards are not known."""
    found = stage().start()

    assert ["count", "half"] == [row["id"] for row in found.sensors]
    assert [("a", 0), ("b", 1.0)] == [(row["id"], row["value"]) for row in found.actuators]
    assert ([[0, 0.5]], None, 0, None) == (found.readings, found.rewards, found.ticks, found.timestamp)


def test_rewards_may_be_declared_at_the_start(stage: Any) -> None:
    """With `rewards_available` the first update declares nothing any more."""

    class Knows(FakeWorld):
        def start_environment(self) -> Any:
            return EnvironmentBaseline(*opened(self), rewards_available=[reward(None)])

    it = stage(world=Knows)
    declared = it.start(reward=None)

    assert (["gain"], None) == ([row["id"] for row in declared.rewards], it.update().reward_ids)


def test_rewards_are_declared_by_the_first_update(stage: Any) -> None:
    """The first update names ids and spaces of its rewards, later ones do not."""
    it = stage()
    it.start()

    assert [["gain"], None] == [
        found and [row["id"] for row in found] for found in (it.update().reward_ids, it.update().reward_ids)
    ]


def test_an_object_knows_itself_before_its_constructor_runs(stage: Any) -> None:
    """Names, worker, mode, seed and generator are there in the constructor, of the object's own stream."""
    seen: dict[str, Any] = {}

    class Curious(FakeWorld):
        def __init__(self, size: int) -> None:
            super().__init__()
            seen.update(uid=self.uid, worker=self.worker, mode=self.mode, seed=self.seed, size=size)
            seen.update(draw=self.rng.random(), reward=self.reward, params=dict(self.params))

    stage(world=Curious).start(params={"size": 3}, mode="test")

    assert {
        "uid": "w",
        "worker": 2,
        "mode": Mode.TEST,
        "seed": integer_from_words(STREAM),
        "size": 3,
        "draw": generator_from_words(STREAM).random(),
        "reward": None,
        "params": {"size": 3},
    } == seen


def test_global_generators_are_seeded_too(stage: Any) -> None:
    """Authors who draw from `random` or numpy's global generator draw the same in each run."""

    def draws() -> tuple[float, float]:
        stage().start()
        return random.random(), float(np.random.random())  # noqa: NPY002 - authors may use it

    assert draws() == draws()


def test_spaces_draw_from_streams_of_their_own(stage: Any) -> None:
    """Sampling a declared space gives the same in each run, and not the same for each sensor."""

    def samples() -> list[float]:
        it = stage()
        it.start()
        return [information.space.sample() for information in (*it.world.sensors, *it.world.actuators)]

    class Apart(FakeWorld):
        def start_environment(self) -> Any:
            return [SensorInformation(0.0, Box(0.0, 1.0, ()), uid) for uid in "xy"], []

    it = stage(world=Apart)
    it.start()
    x, y = (information.space.sample() for information in it.world.sensors)

    assert samples() == samples()
    assert x != y


def test_static_world_models_are_told(stage: Any) -> None:
    """What does not change during a phase comes with the declarations."""

    class Known(FakeWorld):
        def start_environment(self) -> Any:
            return EnvironmentBaseline(*opened(self), SimTime(5, None), {"width": 3})

    found = stage(world=Known).start()

    assert ({"width": 3}, 5) == (found.static_model, found.ticks)


@pytest.mark.parametrize("kind", ["sensor", "actuator"])
def test_an_id_is_declared_once(stage: Any, kind: str) -> None:
    """Two declarations with one id are refused by its name."""

    class Twice(FakeWorld):
        def start_environment(self) -> Any:
            found = opened(self)
            found[kind == "actuator"].append(found[kind == "actuator"][0])
            return found

    with pytest.raises(AuthorError, match=f"{kind} '(count|a)' is declared twice"):
        stage(world=Twice).start()


def test_a_baseline_has_its_form(stage: Any) -> None:
    """Anything but a baseline or two lists is refused by its type."""

    class Wrong(FakeWorld):
        def start_environment(self) -> Any:
            return []

    with pytest.raises(AuthorError, match=r"expected an EnvironmentBaseline or .sensors, actuators., found list"):
        stage(world=Wrong).start()


def test_a_process_may_bring_its_own_class(hosted: Any, loader: Any) -> None:
    """Where somebody else started the process, the class is the process's, whatever the document says of it."""
    here = hosted(EnvironmentHost(loader(environment__mine=FakeWorld), "mine"))
    message = EnvironmentStart("r", 0, "one", "train", 0, "w", {}, 1, 2, STREAM, STREAM)

    assert 2 == len(here.ask("environment.start", message).sensors)


def test_without_a_class_nothing_starts(hosted: Any, loader: Any) -> None:
    """A start that names no class is refused."""
    here = hosted(EnvironmentHost(loader()))
    message = EnvironmentStart("r", 0, "one", "train", 0, "w", {}, 1, 2, STREAM, STREAM)

    with pytest.raises(RemoteProtocolError, match="expected the name of a class"):
        here.ask("environment.start", message)


@pytest.mark.parametrize(
    ("call", "message"),
    [("environment.update", EnvironmentUpdate([[]])), ("environment.reset", EnvironmentReset(1, 0))],
)
def test_start_comes_first(stage: Any, call: str, message: Any) -> None:
    """Before the start there is nothing to update or reset."""
    with pytest.raises(RemoteProtocolError, match=r"expected environment\.start first"):
        stage().hosted.ask(call, message)


def test_shutdown_ends_the_phase(stage: Any) -> None:
    """The author's shutdown is called once; a second one, or one before the start, does nothing."""
    it = stage()
    first = it.hosted.ask("environment.shutdown", Nothing())
    it.start()
    world = it.world
    for _ in range(2):
        it.hosted.ask("environment.shutdown", Nothing())

    assert (Done(), 1, None) == (first, world.ended, it.world)


# -- stepping ---------------------------------------------------------------------------------------------------------
def test_setpoints_come_in_declared_order(stage: Any) -> None:
    """An update of all actuators gives all, one of some gives these, in declared order."""
    it = stage()
    it.start()
    it.update(4, 0.25)
    it.update(0.75, 3, actuators=[1, 0])
    it.update(0.5, actuators=[1])

    assert [[("a", 4), ("b", 0.25)], [("a", 3), ("b", 0.75)], [("b", 0.5)]] == it.world.given


def test_an_update_without_setpoints_is_a_step(stage: Any) -> None:
    """Where no agent acts on this environment it is updated all the same."""
    it = stage()
    it.start()
    answer = it.hosted.ask("environment.update", EnvironmentUpdate([[]], []))

    assert ([[]], [[1, 0.5]]) == (it.world.given, answer.readings)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (EnvironmentUpdate([[1, 0.5], [1, 0.5]]), "expected one row, found 2"),
        (EnvironmentUpdate([[1]]), "expected a list of 2 values, found 1 values"),
        (EnvironmentUpdate([["x", 0.5]]), "update.setpoints.a"),
        (EnvironmentUpdate([[1]], [2]), "update.actuators"),
        (EnvironmentUpdate([[1]], [-1]), "update.actuators"),
    ],
)
def test_a_wrong_update_is_refused(stage: Any, message: EnvironmentUpdate, text: str) -> None:
    """Setpoints that do not fit the declarations are the caller's fault; the author's code is not called."""
    it = stage()
    it.start()
    with pytest.raises(RemoteProtocolError, match=text):
        it.hosted.ask("environment.update", message)

    assert [] == it.world.given


def test_a_setpoint_outside_its_space_is_refused_by_id(stage: Any) -> None:
    """A number that the actuator's space does not contain never reaches the author."""
    it = stage()
    it.start()
    with pytest.raises(OutOfActionSpaceError, match="setpoint b"):
        it.update(1, 1.5)

    assert [] == it.world.given


def test_ticks_count_updates(stage: Any) -> None:
    """Without a time of its own an environment's ticks are the updates of the episode."""
    it = stage()
    it.start()

    assert [1, 2, 0, 1] == [it.update().ticks, it.update().ticks, it.reset().ticks, it.update().ticks]


def test_flags_are_answered(stage: Any) -> None:
    """The third of a tuple means terminated."""
    it = stage()
    it.start()

    assert [(False, False), (False, False), (True, False)] == [
        (answer.terminated, answer.truncated) for answer in (it.update() for _ in range(3))
    ]


def test_there_is_no_update_after_the_end(stage: Any) -> None:
    """An ended episode is not stepped; after a reset it goes on."""
    it = stage()
    it.start()
    it.world.answer = lambda world: EnvironmentState(sensors(world), [reward()], truncated=True)
    it.update()
    with pytest.raises(LocalProtocolError, match="environment w: update after the end of its episode"):
        it.update()
    it.world.answer = plain
    it.reset()

    assert [1] == [it.update().ticks]
    assert 2 == len(it.world.given)


def test_simtime_never_falls(stage: Any) -> None:
    """Ticks that fall within an episode are refused with both times; a reset begins anew."""
    it = stage()
    it.start()
    times = iter([5, 5, 4])
    it.world.answer = lambda world: EnvironmentState(sensors(world), [reward()], simtime=SimTime(next(times), None))
    it.update()
    it.update()
    with pytest.raises(AuthorError, match=r"simtime fell from .*=5.* to .*=4"):
        it.update()


def test_a_timestamp_travels_as_text(stage: Any) -> None:
    """A date and time inside the environment is answered in ISO 8601."""
    it = stage()
    it.start()
    it.world.answer = lambda world: EnvironmentState(
        sensors(world), [reward()], simtime=SimTime(None, datetime(2030, 1, 2, tzinfo=UTC))
    )
    answer = it.update()

    assert (None, "2030-01-02T00:00:00+00:00") == (answer.ticks, answer.timestamp)


def test_ticks_may_be_any_integer(stage: Any) -> None:
    """Ticks of an array library are integers too; what is no integer is the author's fault."""
    it = stage()
    it.start()
    times: list[Any] = [np.int64(3), 4.5]
    it.world.answer = lambda world: EnvironmentState(
        sensors(world), [reward()], simtime=SimTime(times[world.step - 1], None)
    )

    assert (3, int) == ((ticks := it.update().ticks), type(ticks))
    with pytest.raises(AuthorError, match=r"simtime_ticks: expected an integer, found 4\.5"):
        it.update()


def test_times_with_and_without_a_zone_cannot_be_compared(stage: Any) -> None:
    """An environment that changes its mind about time zones is blamed."""
    it = stage()
    it.start()
    zones = [UTC, None]
    it.world.answer = lambda world: EnvironmentState(
        sensors(world), [reward()], simtime=SimTime(None, datetime(2030, 1, 2, tzinfo=zones[world.step - 1]))
    )

    it.update()
    with pytest.raises(AuthorError, match="cannot be compared"):
        it.update()


def test_readings_come_in_any_order(stage: Any) -> None:
    """Sensors are known by id, not by place."""
    it = stage()
    it.start()
    it.world.answer = lambda world: (sensors(world)[::-1], [reward()], False)

    assert [[1, 0.5]] == it.update().readings


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda rows: rows[:1], "sensor 'half' is missing"),
        (lambda rows: [*rows, SensorInformation(1, TEN, "more")], "sensor 'more' was not declared"),
        (lambda rows: [rows[0], SensorInformation(0.5, UNIT, "other")], "sensor 'other' was not declared"),
        (lambda rows: [rows[0], SensorInformation(None, UNIT, "half")], "sensor 'half' has no value"),
        (lambda rows: [rows[0], rows[1], rows[1]], "sensor 'half' is given twice"),
    ],
)
def test_all_declared_sensors_are_answered(stage: Any, change: Any, text: str) -> None:
    """A missing, unknown, doubled or empty sensor is refused by id."""
    it = stage()
    it.start()
    it.world.answer = lambda world: (change(sensors(world)), [reward()], False)
    with pytest.raises(AuthorError, match=text):
        it.update()


@pytest.mark.parametrize(
    ("row", "error", "text"),
    [
        (lambda: SensorInformation(1.5, UNIT, "half"), OutOfObservationSpaceError, "reading half: .*1.5"),
        (lambda: SensorInformation(1.5, Box(0.0, 9.0, ()), "half"), OutOfObservationSpaceError, "reading half: .*1.5"),
        (lambda: SensorInformation(float("nan"), UNIT, "half"), OutOfObservationSpaceError, "reading half: .*nan"),
    ],
)
def test_a_reading_outside_its_space_is_refused(stage: Any, row: Any, error: Any, text: str) -> None:
    """A value that the declared space does not contain is refused by id, whatever space the author wrote beside it."""
    it = stage()
    it.start()
    it.world.answer = lambda world: ([sensors(world)[0], row()], [reward()], False)
    with pytest.raises(error, match=text):
        it.update()


def test_a_reward_outside_its_declared_space_is_refused(stage: Any) -> None:
    """The first update declares a reward's space; later values must lie in it."""
    it = stage()
    it.start()
    it.world.answer = lambda world: (
        sensors(world),
        [reward(3.0 * world.step - 3.0, "gain", Box(0.0, 3.0 * world.step, ()))],
        False,
    )
    it.update()
    it.update()
    with pytest.raises(OutOfRewardSpaceError, match=r"reward gain: .*6\.0"):
        it.update()


def test_a_value_of_an_equal_space_is_taken(stage: Any) -> None:
    """Spaces may be made anew in each step."""
    it = stage()
    it.start()
    it.world.answer = lambda world: (
        [SensorInformation(2, Discrete(10), "count"), SensorInformation(1, Box(0.0, 1.0, ()), "half")],
        [reward()],
        False,
    )

    assert [[2, 1.0]] == it.update().readings


@pytest.mark.parametrize(
    ("rewards", "text"),
    [([], "reward 'gain' is missing"), ([("gain", 1.0), ("luck", 1.0)], "reward 'luck' was not declared")],
)
def test_rewards_stay_as_declared(stage: Any, rewards: list[tuple[str, float]], text: str) -> None:
    """An update with other rewards than the first is refused by id."""
    it = stage()
    it.start()
    it.update()
    it.world.answer = lambda world: (sensors(world), [reward(v, uid) for uid, v in rewards], False)
    with pytest.raises(AuthorError, match=text):
        it.update()


def test_a_state_has_its_form(stage: Any) -> None:
    """Anything but a state or a tuple of three is refused by its type."""
    it = stage()
    it.start()
    it.world.answer = lambda world: (sensors(world), [reward()])
    with pytest.raises(AuthorError, match=r"expected an EnvironmentState or .sensors, rewards, done., found tuple"):
        it.update()


def test_what_an_author_keeps_changes_nothing_later(stage: Any) -> None:
    """Arrays are copied when they are returned."""
    image = np.zeros(3)

    class Seeing(FakeWorld):
        def start_environment(self) -> Any:
            return [SensorInformation(image, Box(0.0, 1.0, (3,)), "image")], []

    it = stage(world=Seeing)
    readings = it.start().readings
    image += 1.0

    assert [[bytes(24)]] == readings


# -- resetting --------------------------------------------------------------------------------------------------------
def test_reset_begins_the_next_episode_in_place(stage: Any) -> None:
    """The same object is reset with the episode's number and seed, and gives the readings of decision 0."""
    it = stage()
    it.start()
    world = it.world
    it.update()
    answer = it.reset(4)

    assert EnvironmentUpdated([[0, 0.5]], [], ticks=0) == answer
    assert (world, 4, 1) == (it.world, it.world.episode, world.ended)


def test_an_own_reset_gets_episode_and_seed(stage: Any) -> None:
    """The seed of an episode is that of its stream; a caller without streams gives a plain one."""
    seen: list[tuple[int, int]] = []

    class Own(FakeWorld):
        def reset(self, request: Any) -> Any:
            seen.append((request.episode, request.seed))
            return opened(self)

    it = stage(world=Own)
    it.start()
    it.reset(1)
    it.reset(2, b"")

    assert [(1, integer_from_words(STREAM)), (2, 7)] == seen


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda s, a: (s[:1], a), "sensors changed between episodes: half is missing"),
        (lambda s, a: (s[::-1], a), "sensors changed between episodes: the order was count, half and is half, count"),
        (lambda s, a: ([*s, SensorInformation(1, TEN, "more")], a), "sensors changed between episodes: more is new"),
        (
            lambda s, a: (s, [a[0], ActuatorInformation(1.0, Box(0.0, 2.0, ()), "b")]),
            r"actuators changed between episodes: the space of b was Box\(low=0.0, high=1.0, .* and is Box\(.*high=2.0",
        ),
    ],
)
def test_declarations_stay_between_episodes(stage: Any, change: Any, text: str) -> None:
    """Ids, spaces and order are those of the first episode, else the difference is named."""
    it = stage()
    it.start()
    it.world.begin = lambda world: change(*opened(world))
    with pytest.raises(AuthorError, match=text):
        it.reset()


def test_rewards_stay_between_episodes(stage: Any) -> None:
    """A later baseline declares the rewards of the first update, or leaves them out."""

    def begin(world: FakeWorld, *rewards: RewardInformation) -> Any:
        return EnvironmentBaseline(*opened(world), rewards_available=list(rewards) or None)

    it = stage()
    it.start()
    it.update()
    for rewards in ((), (reward(),)):
        it.world.begin = lambda world, rewards=rewards: begin(world, *rewards)
        it.reset()
    it.world.begin = lambda world: begin(world, reward(1.0, "other"))

    with pytest.raises(AuthorError, match="rewards changed between episodes: gain is missing") as caught:
        it.reset()
    assert (failure_of(caught.value).where or "").endswith("hook reset")


def test_flags_are_looked_at_when_they_leave(stage: Any) -> None:
    """Both flags set on a state that was made without them are refused, too."""

    def both(world: FakeWorld) -> EnvironmentState:
        state = EnvironmentState(sensors(world), [reward()])
        state.terminated = state.truncated = True
        return state

    it = stage()
    it.start()
    it.world.answer = both
    with pytest.raises(AuthorError, match="terminated and truncated exclude each other"):
        it.update()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda s: (s, [reward()], np.array([True, False])), "done: expected a boolean"),
        (lambda s: EnvironmentState(s, [reward()], simtime=3), "simtime: expected a SimTime or None, found 3"),  # type: ignore[arg-type]
        (lambda s: (s, reward(), False), "rewards: expected a list of RewardInformation"),
        (lambda s: ("s", [reward()], False), "sensors: expected a list of SensorInformation, found 's'"),
    ],
)
def test_an_answer_of_another_form_is_blamed_in_words(stage: Any, answer: Any, text: str) -> None:
    """What was expected, what was found and the hook are told."""
    it = stage()
    it.start()
    it.world.answer = lambda world: answer(sensors(world))
    with pytest.raises(AuthorError, match=text) as caught:
        it.update()
    assert (failure_of(caught.value).where or "").endswith("step 1, hook update")


@pytest.mark.parametrize("failed", [False, 0])
def test_a_shutdown_that_failed_is_an_error(stage: Any, failed: Any) -> None:
    """Whoever says so is believed, at the end of the phase and in the default reset."""

    class Stuck(FakeWorld):
        def shutdown(self) -> Any:
            return failed

    text = "shutdown: expected None or True, found .*it says that it failed"
    it = stage(world=Stuck)
    it.start()
    with pytest.raises(AuthorError, match=text):
        it.reset()
    with pytest.raises(AuthorError, match=text):
        it.hosted.ask("environment.shutdown", Nothing())
    assert it.world is None


# -- rewards ----------------------------------------------------------------------------------------------------------
class FakeReward(Reward):
    """Count how often it is asked."""

    def __init__(self, **params: Any) -> None:
        self.asked = 0
        self.resets = 0
        self.scale = 0.5

    def __call__(self, state: EnvironmentState) -> Any:
        self.asked += 1
        return reward(0.25, "own")

    def reset(self) -> None:
        self.resets += 1


def test_the_reward_replaces_the_environments(stage: Any) -> None:
    """The document's reward is called once per update, not for the baseline; what it returns stands."""
    it = stage(reward=FakeReward)
    it.start()
    before = it.reward.asked
    answer = it.update()

    assert (0, 1, [[0.25]], ["own"]) == (
        before,
        it.reward.asked,
        answer.rewards,
        [row["id"] for row in answer.reward_ids],
    )


def test_an_environment_may_call_its_reward_itself(stage: Any) -> None:
    """What the environment got of its reward during the update stands; there is no second call."""

    class Asking(FakeWorld):
        def update(self, actuators: Any) -> Any:
            state = EnvironmentState(sensors(self), [])
            assert self.reward is not None
            found = self.reward(state)
            state.rewards = [found]  # type: ignore[list-item]
            return state

    it = stage(world=Asking, reward=FakeReward)
    it.start()
    answers = [it.update().rewards for _ in range(3)]

    assert ([[[0.25]]] * 3, 3) == (answers, it.reward.asked)


def test_an_environment_sees_its_reward_as_it_is(stage: Any) -> None:
    """Attributes of the document's reward can be read by its environment."""
    it = stage(reward=FakeReward)
    it.start()

    assert (0.5, 0, {}, it.reward.seed) == (
        it.world.reward.scale,
        it.world.reward.asked,
        dict(it.world.reward.params),
        it.world.reward.seed,
    )


def test_reset_reaches_reward_and_transformer(stage: Any) -> None:
    """Both begin the episode with their environment."""
    it = stage(reward=FakeReward, transformer=FakeTransformer)
    it.start()
    it.reset()

    assert (1, 1) == (it.reward.resets, it.transformer.resets)


def test_parts_draw_from_streams_of_their_own(stage: Any) -> None:
    """Reward, transformer and environment have three different seeds."""
    it = stage(reward=FakeReward, transformer=FakeTransformer)
    it.start()

    assert 3 == len({it.reward.seed, it.transformer.seed, it.world.seed})


# -- transformers -----------------------------------------------------------------------------------------------------
class FakeTransformer(StateTransformer):
    """Double the count."""

    def __init__(self, **params: Any) -> None:
        self.resets = 0

    def __call__(self, state: EnvironmentState) -> Any:
        for it in state.sensor_information:
            if it.uid == "count":
                it.value = 2 * it.value + 1
        return state

    def reset(self) -> None:
        self.resets += 1


class FakeBaselineTransformer(FakeTransformer):
    """Double the count of decision 0 too."""

    baseline = True


@pytest.mark.parametrize(("kind", "counts"), [(FakeTransformer, [0, 3, 0]), (FakeBaselineTransformer, [1, 3, 1])])
def test_the_transformer_comes_last(stage: Any, kind: type[Any], counts: list[int]) -> None:
    """What it returns is seen of every update; of the baselines only if it says so."""
    it = stage(transformer=kind)
    found = [it.start().readings, it.update().readings, it.reset().readings]

    assert counts == [readings[0][0] for readings in found]


def test_the_transformer_may_change_rewards_but_no_flags(stage: Any) -> None:
    """Flags belong to the environment."""

    class Ends(FakeTransformer):
        def __call__(self, state: EnvironmentState) -> Any:
            state.terminated = True
            return state

    it = stage(transformer=Ends)
    it.start()
    with pytest.raises(AuthorError, match="the transformer changed terminated or truncated, which it may not"):
        it.update()


class Leaves(StateTransformer):
    """Leave something in place of the world's state."""

    left: Any = None

    def __call__(self, state: EnvironmentState) -> EnvironmentState:
        state.world_state = type(self).left(state.world_state)
        return state


def test_what_a_transformer_leaves_is_for_the_store(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The world's state is for reward and transformer; what the last one leaves of it is answered as plain values."""
    answer = lambda world: EnvironmentState(  # noqa: E731
        sensors(world), [reward()], world_state={"voltage": np.array([1.0, 2.0]), "step": np.int64(world.step)}
    )
    found = []
    for transformer, left in ((None, None), (Leaves, lambda state: state), (Leaves, lambda state: None)):
        monkeypatch.setattr(Leaves, "left", staticmethod(left))
        it = stage(**({} if transformer is None else {"transformer": transformer}))
        it.start()
        it.world.answer = answer
        found.append([it.update().world_state, it.update().world_state])

    states = [{"voltage": [1.0, 2.0], "step": step} for step in (1, 2)]
    assert [[None, None], states, [None, None]] == found


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (object(), "world_state: expected numbers, text, booleans, lists, maps or arrays, found object"),
        ({1: 2}, "world_state: expected text as keys of a map, found int"),
        (np.zeros(100_000), r"world_state: .*limit world_state_values"),
    ],
)
def test_what_cannot_be_stored_is_blamed(stage: Any, left: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transformer that leaves what no store can keep is told so, with step and environment."""
    monkeypatch.setattr(Leaves, "left", staticmethod(lambda state: left))
    it = stage(transformer=Leaves)
    it.start()

    with pytest.raises(AuthorError, match=text):
        it.update()


def test_the_transformer_returns_a_state(stage: Any) -> None:
    """Anything else is refused by its type."""

    class Forgets(FakeTransformer):
        baseline = False

        def __call__(self, state: EnvironmentState) -> Any:
            return None

    it = stage(transformer=Forgets)
    it.start()
    with pytest.raises(AuthorError, match="the transformer: expected an EnvironmentState, found NoneType"):
        it.update()


# -- hooks ------------------------------------------------------------------------------------------------------------
def test_hooks_may_be_async(stage: Any) -> None:
    """Every hook may be `async def`, of environment, reward and transformer."""

    class Slow(FakeWorld):
        async def start_environment(self) -> Any:
            await asyncio.sleep(0)
            return opened(self)

        async def update(self, actuators: Any) -> Any:
            await asyncio.sleep(0)
            self.step += 1
            return plain(self)

        async def shutdown(self) -> None:  # type: ignore[override]
            self.ended += 1

    class SlowReward(FakeReward):
        async def __call__(self, state: Any) -> Any:
            return reward(0.75, "own")

    class SlowTransformer(FakeTransformer):
        async def __call__(self, state: Any) -> Any:
            return state

        async def reset(self) -> None:  # type: ignore[override]
            self.resets += 1

    it = stage(world=Slow, reward=SlowReward, transformer=SlowTransformer)
    it.start()
    answer = it.update()
    it.reset()
    world = it.world
    it.hosted.ask("environment.shutdown", Nothing())

    assert ([[0.75]], 2) == (answer.rewards, world.ended)


def raises(text: str) -> Any:
    """Raise, as an author's code does."""
    raise ZeroDivisionError(text)


@pytest.mark.parametrize("slow", [False, True])
def test_an_exception_is_blamed_on_its_author(stage: Any, slow: bool) -> None:
    """The failure names environment, worker, class, step and hook, and shows the author's part of the traceback."""

    class Breaks(FakeWorld):
        def update(self, actuators: Any) -> Any:
            self.step += 1
            return plain(self) if self.step < 2 else raises("by nothing")

    class SlowlyBreaks(Breaks):
        async def update(self, actuators: Any) -> Any:
            return super().update(actuators)

    it = stage(world=SlowlyBreaks if slow else Breaks)
    it.start()
    it.update()
    with pytest.raises(AuthorError) as caught:
        it.update()
    it.hosted.ask("environment.shutdown", Nothing())
    failure = failure_of(caught.value)
    lines = (failure.traceback or "").splitlines()

    assert ("author", "ZeroDivisionError: by nothing") == (failure.kind, failure.message)
    assert failure.where is not None
    assert failure.where.startswith("environment w (worker 2), class ")
    assert failure.where.endswith("Breaks, step 2, hook update")
    assert (__file__, "ZeroDivisionError: by nothing") == (lines[1].split('"')[1], lines[-1])


@pytest.mark.parametrize("hook", ["__init__", "start_environment", "reset", "shutdown", "reward", "transformer"])
def test_every_hook_is_named(stage: Any, hook: str) -> None:
    """Whatever raises, the failure names the hook."""
    parts: dict[str, type[Any]] = {"world": FakeWorld, "reward": FakeReward, "transformer": FakeTransformer}
    owner = hook if hook in parts else "world"
    name = "__call__" if hook in parts else hook
    parts[owner] = type("Breaks", (parts[owner],), {name: lambda self, *_, **__: raises("no")})
    it = stage(**parts)

    def play() -> None:
        it.start()
        it.update()
        if hook != "shutdown":  # the default reset calls it too
            it.reset()
        it.hosted.ask("environment.shutdown", Nothing())

    with pytest.raises(AuthorError) as caught:
        play()

    assert (failure_of(caught.value).where or "").endswith(f"hook {hook}")


def test_a_fault_of_an_answer_names_the_class(stage: Any) -> None:
    """What an author returned wrongly is blamed like what he raised."""
    it = stage()
    it.start()
    it.world.answer = lambda world: ([], [], False)
    with pytest.raises(AuthorError) as caught:
        it.update()

    assert "environment w (worker 2), class FakeWorld, step 1, hook update" == failure_of(caught.value).where


# -- arrays -----------------------------------------------------------------------------------------------------------
class ArrayWorld(FakeWorld):
    """Step all bodies at once."""

    batched = True

    def update(self, actuators: list[ActuatorInformation]) -> Any:
        raise NotImplementedError

    def update_batch(self, setpoints: Any) -> Any:
        self.step += 1
        self.given.append({uid: (array.tolist(), array.dtype) for uid, array in setpoints.items()})
        return self.answer(self)


def batch_of(world: FakeWorld, **fields: Any) -> StepBatch:
    """Return what a batched world answers."""
    readings = {"half": np.array([0.5]), "count": np.array([world.step])}
    return StepBatch(readings, {"gain": np.array([1.0])}, **{"terminated": world.step >= 3, **fields})


def array_stage(hosted: Any, loader: Any, answer: Any = batch_of, **parts: Any) -> Stage:
    """Return a started host of a batched world."""
    stage = Stage(hosted, loader, world=ArrayWorld, **parts)
    stage.start()
    stage.world.answer = answer
    return stage


def test_a_batched_world_gives_the_rows_of_the_other_form(hosted: Any, loader: Any) -> None:
    """Arrays by id, in any order, make the rows that objects make; its rewards are declared by the first step."""
    stage = Stage(hosted, loader)
    stage.start()
    arrays = array_stage(hosted, loader)
    objects = [stage.update() for _ in range(3)]
    found = [arrays.update() for _ in range(3)]

    assert [(u.readings, u.rewards, u.terminated, u.truncated, u.ticks) for u in objects] == [
        (u.readings, u.rewards, u.terminated, u.truncated, u.ticks) for u in found
    ]
    assert ["gain"] == [declared["id"] for declared in found[0].reward_ids]
    assert [None, None] == [u.reward_ids for u in found[1:]]
    assert {"a": ([0], np.int64), "b": ([0.5], np.float64)} == arrays.world.given[0]
    with pytest.raises(LocalProtocolError, match="after the end"):
        arrays.update()


def test_a_batched_world_gets_what_one_agent_gives(hosted: Any, loader: Any) -> None:
    """Under taking turns only the setpoints of this step are there."""
    arrays = array_stage(hosted, loader)
    arrays.update(0.25, actuators=[1])

    assert [{"b": ([0.25], np.float64)}] == arrays.world.given


def test_reward_and_transformer_see_the_state_of_a_batched_world(hosted: Any, loader: Any) -> None:
    """They are called as for any other, with informations."""

    class Double(Reward):
        def __call__(self, state: EnvironmentState) -> Any:
            return reward(state.rewards[0].value / 2)

    class Half(StateTransformer):
        def __call__(self, state: EnvironmentState) -> EnvironmentState:
            next(it for it in state.sensor_information if it.uid == "half").value = 0.125
            return state

    arrays = array_stage(hosted, loader, reward=Double, transformer=Half)
    found = arrays.update()

    assert ([[1, 0.125]], [[0.5]]) == (found.readings, found.rewards)


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (lambda world: None, AuthorError, "expected a StepBatch"),
        (lambda world: StepBatch({"half": np.array([0.5])}, {}), AuthorError, "'count' is missing"),
        (lambda world: StepBatch({"x": np.array([0.5])}, {}), AuthorError, "'x' was not declared"),
        (
            lambda world: StepBatch({"half": np.zeros((1, 2)), "count": np.array([0])}, {}),
            AuthorError,
            r"'half': expected an array of shape \(1,\)",
        ),
        (
            lambda world: StepBatch({"half": np.array([2.0]), "count": np.array([0])}, {}),
            OutOfObservationSpaceError,
            "half",
        ),
        (lambda world: batch_of(world, terminated=True, truncated=np.array([True])), AuthorError, "exclude"),
        (lambda world: batch_of(world, terminated=np.array([True, False])), AuthorError, "terminated"),
        (
            lambda world: StepBatch(batch_of(world).readings, {"gain": np.array([np.nan])}),
            OutOfRewardSpaceError,
            "gain",
        ),
    ],
)
def test_what_is_wrong_with_a_batch_is_said(
    hosted: Any, loader: Any, answer: Any, error: type[Exception], text: str
) -> None:
    """An id that is strange or lacks, another shape, a value out of its space, both flags: errors."""
    arrays = array_stage(hosted, loader, answer)
    with pytest.raises(error, match=text):
        arrays.update()


def test_an_infinite_reward_is_refused(hosted: Any, loader: Any) -> None:
    """Also where the space has no bounds that would, and in either form."""
    wide = Box(-np.inf, np.inf, ())
    stage = Stage(hosted, loader)
    stage.start()
    stage.world.answer = lambda world: (sensors(world), [reward(np.inf, space=wide)], False)
    arrays = array_stage(
        hosted, loader, lambda world: StepBatch(batch_of(world).readings, {"gain": np.array([np.inf])})
    )
    for one in (stage, arrays):
        with pytest.raises(AuthorError, match="reward 'gain': expected a finite number"):
            one.update()
