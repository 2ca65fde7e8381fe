from __future__ import annotations

import asyncio
import itertools
import struct
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakepeer import OWN, TEN, UNIT, environment_start

from ganglion.errors import (
    AuthorError,
    LocalProtocolError,
    OutOfObservationSpaceError,
    OutOfRewardSpaceError,
    RemoteProtocolError,
)
from ganglion.peer.author import ToleratedErrors, failure_of
from ganglion.peer.environment.contract import Judgement
from ganglion.peer.environment.host import EnvironmentHost
from ganglion.peer.environment.trial import try_out
from ganglion.run.plan import EnvironmentPlan, PhasePlan, Plan, PluginPlan
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
    StateTransformer,
    StepBatch,
)
from ganglion.wire.messages import Done, EnvironmentReset, EnvironmentUpdate, Nothing

OPEN = Box(-np.inf, np.inf, ())


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

    def start(self) -> Any:
        return self.hosted.ask("environment.start", environment_start(**dict.fromkeys(self.parts, OWN)))

    def update(self, *row: Any, actuators: list[int] | None = None) -> Any:
        given = list(row) or [0, 0.5]
        return self.hosted.ask("environment.update", EnvironmentUpdate([given], actuators))

    def reset(self) -> Any:
        return self.hosted.ask("environment.reset", EnvironmentReset(1, 7, bytes(32)))

    def answers(self, answer: Any) -> Any:
        """Let the started world answer so, and be updated."""
        if not hasattr(self.hosted.host, "_judgement"):
            self.start()
        self.world.answer = answer
        return self.update()

    @property
    def world(self) -> Any:
        return self.hosted.host._environment

    @property
    def reward(self) -> Any:
        return self.hosted.host._judgement.reward


@pytest.fixture
def stage(hosted: Any, loader: Any) -> Callable[..., Stage]:
    """Return a function that stands a host, of these parts."""
    return lambda **parts: Stage(hosted, loader, **parts)


# -- declaring --------------------------------------------------------------------------------------------------------


def test_without_a_class_nothing_starts(stage: Any) -> None:
    """A start that names no class is refused."""
    with pytest.raises(RemoteProtocolError, match="expected the name of a class"):
        stage().hosted.ask("environment.start", environment_start(plugin=None))


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


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (EnvironmentUpdate([[1, 0.5], [1, 0.5]]), "expected one row of 2 values, found 2 rows"),
        (EnvironmentUpdate([[1]]), "expected one row of 2 values, found 1 values"),
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


def at(*times: SimTime) -> Any:
    """Return what answers with these times, one after the other."""
    return lambda world: EnvironmentState(sensors(world), [reward()], simtime=times[world.step - 1])


def test_ticks_may_be_any_integer(stage: Any) -> None:
    """Ticks of an array library are integers too; what is no integer is the author's fault."""
    it = stage()
    it.start()
    it.world.answer = at(SimTime(np.int64(3), None), SimTime(4.5, None))  # type: ignore[arg-type]

    assert (3, int) == ((ticks := it.update().ticks), type(ticks))
    with pytest.raises(AuthorError, match=r"simtime_ticks: expected an integer, found 4\.5"):
        it.update()


def test_times_with_and_without_a_zone_cannot_be_compared(stage: Any) -> None:
    """An environment that changes its mind about time zones is blamed."""
    it = stage()
    it.start()
    it.world.answer = at(*(SimTime(None, datetime(2030, 1, 2, tzinfo=zone)) for zone in (UTC, None)))

    it.update()
    with pytest.raises(AuthorError, match="cannot be compared"):
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


def both(rows: Any) -> EnvironmentState:
    """Return a state with both flags, set where nobody looks."""
    state = EnvironmentState(rows, [reward()])
    state.terminated = state.truncated = True
    return state


GAIN = [reward()]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda s: (s[:1], GAIN, False), "sensor 'half' is missing"),
        (lambda s: ([*s, SensorInformation(1, TEN, "more")], GAIN, False), "sensor 'more' was not declared"),
        (lambda s: ([s[0], SensorInformation(0.5, UNIT, "other")], GAIN, False), "sensor 'other' was not declared"),
        (lambda s: ([s[0], SensorInformation(None, UNIT, "half")], GAIN, False), "sensor 'half' has no value"),
        (lambda s: ([s[0], s[1], s[1]], GAIN, False), "sensor 'half' is given twice"),
        (lambda s: (s, GAIN), r"expected an EnvironmentState or .sensors, rewards, done., found tuple"),
        (both, "terminated and truncated exclude each other"),
        (lambda s: (s, GAIN, np.array([True, False])), "done: expected a boolean"),
        (lambda s: EnvironmentState(s, GAIN, simtime=3), "simtime: expected a SimTime or None, found 3"),  # type: ignore[arg-type]
        (lambda s: (s, reward(), False), "rewards: expected a list of RewardInformation"),
        (lambda s: ("s", GAIN, False), "sensors: expected a list of SensorInformation, found 's'"),
        (lambda s: (s, [reward(np.inf, space=OPEN)], False), "reward 'gain': expected a finite number"),
    ],
)
def test_an_answer_of_another_form_is_blamed_in_words(stage: Any, answer: Any, text: str) -> None:
    """A missing, unknown, doubled or empty sensor, and any other form: what was expected and found, and the hook."""
    with pytest.raises(AuthorError, match=text) as caught:
        stage().answers(lambda world: answer(sensors(world)))
    assert (failure_of(caught.value).where or "").endswith("step 1, hook update")


# -- resetting --------------------------------------------------------------------------------------------------------


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

    assert ([[struct.pack("<d", 0.25)]] * 3, 3) == (answers, it.reward.asked)


def test_an_environment_sees_its_reward_as_it_is(stage: Any) -> None:
    """Attributes of the document's reward can be read by its environment."""
    it = stage(reward=FakeReward)
    it.start()

    seen = it.world.reward
    assert (0.5, 0, {}, it.reward.seed) == (seen.scale, seen.asked, dict(seen.params), seen.seed)


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


class Leaves(StateTransformer):
    """Leave something in place of the world's state."""

    left: Any = None

    def __call__(self, state: EnvironmentState) -> EnvironmentState:
        state.world_state = type(self).left(state.world_state)
        return state


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
    with pytest.raises(AuthorError, match=text):
        stage(transformer=Leaves).answers(plain)


# -- hooks ------------------------------------------------------------------------------------------------------------
def test_hooks_may_be_async(stage: Any) -> None:
    """Every hook may be `async def`, of environment, reward and transformer."""

    def slow(owner: type[Any], *names: str) -> type[Any]:
        def made(name: str) -> Any:
            async def hook(self: Any, *args: Any) -> Any:
                await asyncio.sleep(0)
                return getattr(owner, name)(self, *args)

            return hook

        return type("Slow", (owner,), {name: made(name) for name in names})

    it = stage(
        world=slow(FakeWorld, "start_environment", "update", "shutdown"),
        reward=slow(FakeReward, "__call__", "reset"),
        transformer=slow(FakeTransformer, "__call__", "reset"),
    )
    it.start()
    answer = it.update()
    it.reset()
    world = it.world
    it.hosted.ask("environment.shutdown", Nothing())

    blocks = [struct.pack("<q", 3), struct.pack("<d", 0.5)]
    assert (blocks, [struct.pack("<d", 0.25)], 2) == (answer.readings, answer.rewards, world.ended)


@pytest.mark.parametrize("hook", ["__init__", "start_environment", "reset", "shutdown", "reward", "transformer"])
def test_every_hook_is_named(stage: Any, hook: str) -> None:
    """Whatever raises, the failure names the hook."""
    parts: dict[str, type[Any]] = {"world": FakeWorld, "reward": FakeReward, "transformer": FakeTransformer}
    owner = hook if hook in parts else "world"
    name = "__call__" if hook in parts else hook
    parts[owner] = type("Breaks", (parts[owner],), {name: lambda self, *_, **__: 1 / 0})
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


def test_reward_and_transformer_see_the_state_of_a_batched_world(stage: Any) -> None:
    """They are called as for any other, with informations."""

    class Double(Reward):
        def __call__(self, state: EnvironmentState) -> Any:
            return reward(state.rewards[0].value / 2)

    class Half(StateTransformer):
        def __call__(self, state: EnvironmentState) -> EnvironmentState:
            next(it for it in state.sensor_information if it.uid == "half").value = 0.125
            return state

    found = stage(world=ArrayWorld, reward=Double, transformer=Half).answers(batch_of)

    blocks = [struct.pack("<q", 1), struct.pack("<d", 0.125)]
    assert (blocks, [struct.pack("<d", 0.5)]) == (found.readings, found.rewards)


def read(half: Any, count: Any = 0, gain: Any = 1.0) -> Any:
    """Return what answers with these arrays."""
    return lambda world: StepBatch({"half": np.array(half), "count": np.array([count])}, {"gain": np.array([gain])})


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (lambda world: None, AuthorError, "expected a StepBatch"),
        (lambda world: StepBatch({"half": np.array([0.5])}, {}), AuthorError, "'count' is missing"),
        (lambda world: StepBatch({"x": np.array([0.5])}, {}), AuthorError, "'x' was not declared"),
        (read([[0.0, 0.0]]), AuthorError, r"'half': expected an array of shape \(1,\)"),
        (read([2.0]), OutOfObservationSpaceError, "half"),
        (lambda world: batch_of(world, terminated=True, truncated=np.array([True])), AuthorError, "exclude"),
        (lambda world: batch_of(world, terminated=np.array([True, False])), AuthorError, "terminated"),
        (read([0.5], gain=np.nan), OutOfRewardSpaceError, "gain"),
        (read([0.5], gain=np.inf), AuthorError, "reward 'gain': expected a finite number"),
    ],
)
def test_what_is_wrong_with_a_batch_is_said(stage: Any, answer: Any, error: type[Exception], text: str) -> None:
    """An id that is strange or lacks, another shape, a value out of its space, both flags: errors."""
    with pytest.raises(error, match=text):
        stage(world=ArrayWorld).answers(answer)


# -- judgement --------------------------------------------------------------------------------------------------------
class Eight(StateTransformer):
    """Show eight."""

    baseline = True

    def __call__(self, state: EnvironmentState) -> Any:
        state.sensor_information[0].value = 8
        return state


def judgement(loader: Any, reward: type[Any] | None = None, transformer: type[Any] | None = None) -> Judgement:
    """Return what these two classes make."""
    parts = {kind: cls for kind, cls in (("reward", reward), ("transformer", transformer)) if cls is not None}
    start = environment_start(**dict.fromkeys(parts, OWN))
    return Judgement(loader(**parts), start, ToleratedErrors(lambda: None, "r"), {"uid": "w"})


def test_a_transformer_may_see_baselines(loader: Any) -> None:
    """With `baseline` true it changes the readings of decision 0; time and declarations stay."""
    given = EnvironmentBaseline([SensorInformation(1, TEN, "s")], [], SimTime(5, None), {"a": 1})
    found = judgement(loader, None, Eight).baseline(given)

    assert (8, 5, {"a": 1}) == (found.sensors_available[0].value, found.simtime.simtime_ticks, found.static_world_model)


@pytest.mark.parametrize("hook", ["__init__", "reset"])
@pytest.mark.parametrize("kind", ["reward", "transformer"])
def test_every_hook_names_its_own_class(loader: Any, kind: str, hook: str) -> None:
    """What reward or transformer raise is not blamed on the environment."""
    broken = type("Broken", (FakeReward if kind == "reward" else Eight,), {hook: lambda self, *_, **__: 1 / 0})

    with pytest.raises(AuthorError) as caught:
        judgement(loader, **{kind: broken}).reset()
    assert f"{kind} of environment w (worker 2), class Broken, hook {hook}" == failure_of(caught.value).where


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (None, "the transformer: expected an EnvironmentState, found NoneType"),
        (EnvironmentState([], [], terminated=True), "the transformer changed terminated or truncated"),
    ],
)
def test_a_baseline_is_held_to_what_a_state_is(loader: Any, made: Any, text: str) -> None:
    """What the transformer returns for decision 0 is looked at as any other."""
    kind = type("Strange", (Eight,), {"__call__": lambda self, state: made})

    with pytest.raises(AuthorError, match=text):
        judgement(loader, None, kind).baseline(EnvironmentBaseline([], []))


# -- trial ------------------------------------------------------------------------------------------------------------
_NUMBERS = itertools.count()
WORLD = """from ganglion.sdk import *
class World(Environment):
    def start_environment(self):
        {start}
        return [SensorInformation({sensor}, Discrete(2), "x")], [ActuatorInformation({noop}, Discrete(2), "y")]
    def update(self, actuators): raise NotImplementedError
    def shutdown(self):
        {shutdown}
"""

Order = Callable[..., dict[str, Any]]


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """Return a function that makes the order of a trial of an author's class with these lines."""

    def make(**lines: Any) -> dict[str, Any]:
        module = f"trial_{next(_NUMBERS)}"
        text = WORLD.format(**{"start": "pass", "sensor": 0, "noop": 0, "shutdown": "pass", **lines})
        (tmp_path / f"{module}.py").write_text(text)
        environment = EnvironmentPlan("hill", PluginPlan(f"{module}:World"))
        phase = PhasePlan(0, "one", [environment], [], PluginPlan("vanilla"), [], [], workers=2)
        plan = Plan("x", "x", "1", [phase], folder=str(tmp_path))
        return {"plan": plan.to_map(), "phase": 0, "environment": "hill", "worker": 0}

    return make


def test_rewards_of_the_first_update_are_unknown(order: Order) -> None:
    """An environment that does not declare its rewards at the start says so."""
    assert try_out(order(), sys.stderr)["rewards"] is None


BAD = [
    ({"start": "return 1 / 0"}, "hook start_environment: ZeroDivisionError: division by zero"),
    ({"start": "return 3"}, "expected an EnvironmentBaseline or (sensors, actuators), found int"),
    (
        {"start": "raise SystemExit(4)"},
        "environment hill (worker 0), class World, hook start_environment: SystemExit: 4",
    ),
    ({"sensor": 2}, "hook start_environment: reading x: expected a value of Discrete(2), found 2"),
    ({"noop": -1}, "hook start_environment: setpoint y: expected a value of Discrete(2), found -1"),
    ({"sensor": None}, "sensor 'x' has no value"),
    ({"shutdown": "raise OSError('busy')"}, "hook shutdown: OSError: busy"),
]


@pytest.mark.parametrize(("lines", "message"), BAD)
def test_what_goes_wrong_is_the_answer(order: Order, lines: dict[str, Any], message: str) -> None:
    """What an author's code raises, and values outside their spaces, are told with the environment and the hook."""
    found = try_out(order(**lines), sys.stderr)

    assert message in found["message"]
    assert "hill" in found["message"]
