"""What of palaestrAI's classes is refused, and what of their updates; skipped where it is not installed."""

from __future__ import annotations

import asyncio
import inspect
import io
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

palaestrai = pytest.importorskip("palaestrai", reason="palaestrAI is not installed: scripts/setup --with palaestrai")

from palaestrai import agent, environment  # noqa: E402 - where it is installed
from palaestrai.agent import Brain, DummyBrain, DummyMuscle  # noqa: E402
from palaestrai.environment import DummyEnvironment, Environment, Reward  # noqa: E402
from palaestrai.experiment import TerminationCondition  # noqa: E402
from palaestrai.simulation import SimulationController  # noqa: E402
from palaestrai.types import Box, SimTime  # noqa: E402

from ganglion.sdk import AuthorError, ResetRequest  # noqa: E402
from ganglion_palaestrai import hosted  # noqa: E402
from ganglion_palaestrai.hosted.parcel import opened, packed  # noqa: E402


class Unnamed(DummyEnvironment):
    """Takes neither uid nor seed."""

    def __init__(self, width: int) -> None:
        super().__init__(uid="", broker_uri="", seed=width)


class Greedy(Reward):
    """Takes three arguments."""

    def __call__(self, sensors: Any, actuators: Any, more: Any) -> Any:
        """Return nothing."""


class Idle(SimulationController):
    """Steers nothing."""


class Watching(TerminationCondition):
    """Asks for evaluations."""

    def evaluation_flow_control(self, *given: Any) -> Any:
        """Return nothing."""


REFUSED = [
    ("muscle", DummyBrain, "expected a subclass of palaestrai.agent.Muscle, and it is a brain of palaestrAI"),
    ("brain", dict, "expected a subclass of palaestrai.agent.Brain"),
    ("brain", Brain, "is abstract: it lacks thinking"),
    ("environment", Environment, "is abstract: it lacks start_environment, update"),
    ("environment", Unnamed, "has a constructor without uid and seed, which palaestrAI gives it, found width"),
    ("reward", Greedy, "has a __call__ of more than two arguments: expected a state, or readings and setpoints"),
    ("controller", Idle, "overrides neither advance nor simulate"),
    ("condition", Watching, "overrides evaluation_flow_control, which is not asked here; use evaluation_objective"),
    ("store", DummyBrain, "whose classes of this kind are not hosted (those are: environment, reward, transformer"),
]


@pytest.mark.parametrize(("kind", "theirs", "said"), REFUSED)
def test_what_cannot_be_played_is_refused(kind: str, theirs: type[Any], said: str) -> None:
    """A class of another kind, an abstract one, and one whose constructor or hooks do not fit are named with why."""
    with pytest.raises(TypeError) as refused:
        hosted.host(kind, theirs)

    assert said in str(refused.value)


def test_a_numpy_that_a_distribution_of_theirs_excludes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pin of numpy, whose it is, what was found and what to install are said before the class is played."""
    monkeypatch.setattr(metadata, "requires", lambda _: ["torch>=2", "numpy<1.5,>=1.2"])

    with pytest.raises(TypeError) as refused:
        hosted.host("muscle", type("Own", (DummyMuscle,), {}))

    whose, found = metadata.version("palaestrai"), metadata.version("numpy")
    assert str(refused.value) == (
        f"needs numpy<1.5,>=1.2, as palaestrai {whose} pins it, found numpy {found}; "
        "pip install 'numpy<1.5,>=1.2' here, and what needs another numpy elsewhere"
    )


class Sized(Reward):
    """Keeps what it was made of."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.given = given

    def __call__(self, state: Any) -> Any:
        """Return nothing."""


SPACE = Box(0.0, 9.0, (1,), np.float32)


class Counted(Environment):
    """Counts, and answers in the short form."""

    def start_environment(self) -> Any:
        self.count = 0
        return [self.seen()], [agent.ActuatorInformation(None, SPACE, f"{self.uid}.move")]

    def seen(self) -> Any:
        return agent.SensorInformation(np.array([self.count], dtype=np.float32), SPACE, f"{self.uid}.count")

    def update(self, actuators: Any) -> Any:
        self.count += 1
        paid = agent.RewardInformation(actuators[0].value, SPACE, "paid")
        return [self.seen()], [paid], self.count == 2


class Whole(Counted):
    """Answers in the long form, asynchronously, and is reset by itself."""

    def __init__(self, seed: int, uid: str, step: int = 1) -> None:
        super().__init__(uid, "", seed)
        self.step = step

    async def start_environment(self) -> Any:
        sensors, actuators = super().start_environment()
        return environment.EnvironmentBaseline(sensors, actuators, simtime=SimTime(simtime_ticks=0))

    async def update(self, actuators: Any) -> Any:
        sensors, rewards, done = super().update(actuators)
        time = SimTime(simtime_ticks=self.count * self.step)
        return environment.EnvironmentState(sensors, rewards, done, simtime=time, terminated=False, truncated=done)

    async def reset(self, request: Any) -> Any:
        started = await self.start_environment()
        return SimpleNamespace(
            sensors=started.sensors_available, actuators=started.actuators_available, simtime=started.simtime
        )


class Free(Counted):
    """Takes whatever there is."""

    def __init__(self, **given: Any) -> None:
        super().__init__(given["uid"], "", given["seed"])


class Seeded(Counted):
    """Takes a seed alone."""

    def __init__(self, seed: int) -> None:
        super().__init__("part", "", seed)


@pytest.mark.parametrize(("theirs", "params"), [(Counted, {}), (Whole, {"step": 5}), (Free, {}), (Seeded, {})])
def test_every_spelling_of_an_environment_is_played(make: Any, theirs: type[Any], params: dict[str, Any]) -> None:
    """Constructors with any of uid, broker_uri and seed, hooks with or without `async`, short and long answers."""

    async def play() -> list[Any]:
        world = make(hosted.host("environment", theirs), **params)
        found = []
        for episode in range(2):
            hook = world.start_environment() if episode == 0 else world.reset(ResetRequest(1, 7))
            baseline = await hook if inspect.isawaitable(hook) else hook
            found.append([(it.uid, it.value.tolist()) for it in baseline.sensors_available])
            state = None
            while state is None or not state.done:
                baseline.actuators_available[0].value = np.array([3.0], dtype=np.float32)
                hook = world.update(baseline.actuators_available)
                state = await hook if inspect.isawaitable(hook) else hook
                found.append([state.simtime.simtime_ticks, float(np.asarray(state.rewards[0].value).item())])
        return found

    ticks = [params.get("step", 1), 2 * params.get("step", 1)]
    assert asyncio.run(play()) == [[("count", [0.0])], [ticks[0], 3.0], [ticks[1], 3.0]] * 2


def test_numbers_with_underscores_are_numbers_as_in_their_documents(make: Any) -> None:
    """What palaestrAI's reader of YAML takes for an integer is one to its classes; any other text stays."""
    made = make(hosted.host("reward", Sized), size=["1_000_000", "-2_5"], name="a_1", more={"n": "1_", "m": 2})

    assert made.theirs.given == {"size": [1000000, -25], "name": "a_1", "more": {"n": "1_", "m": 2}}


CURE = "cannot travel; send numbers, text, bytes, lists, maps, arrays, tensors, torch modules or io.BytesIO"


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({"layers": [1.0, {"act": max}]}, f"update['layers'][1]['act']: a builtins.builtin_function_or_method {CURE}"),
        ({"rows": (1, object())}, f"update['rows'][1]: a builtins.object {CURE}"),
        ({"array": np.array([None])}, f"update['array']: a numpy.ndarray {CURE}"),
        ({object(): 1}, f"update: key: a builtins.object {CURE}"),
    ],
)
def test_an_update_that_cannot_travel_is_named_by_its_path(update: Any, said: str) -> None:
    """The path to the value that cannot, its class, and what can travel are said."""
    with pytest.raises(AuthorError) as refused:
        packed(update)

    assert str(refused.value) == said


def test_an_update_travels_as_plain_values() -> None:
    """Maps with any keys, tuples, sets, numbers of numpy and files in memory are what they were."""
    file = io.BytesIO(b"dump")
    file.seek(2)
    update = {"$": 1, 2: (1, "a", None), "set": {3, 4}, "number": np.float64(0.5), "file": file}

    found = opened(packed(update), frozenset())

    assert {**found, "file": None} == {**update, "file": None}
    assert (found["file"].getvalue(), found["file"].tell()) == (b"dump", 2)


def test_a_class_of_another_package_is_not_made() -> None:
    """What names a class outside of the trusted packages is refused, and nothing of it is imported."""
    with pytest.raises(AuthorError, match="pathlib:Path: expected a class of harl or torch"):
        opened({"$": "enum", "of": ["pathlib:Path", "x"]}, frozenset({"harl"}))
