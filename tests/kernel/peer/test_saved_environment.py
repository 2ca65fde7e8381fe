from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fakepeer import MemoryJournalFile

from ganglion.peer.environment.host import EnvironmentHost
from ganglion.peer.journal import compaction
from ganglion.peer.journal.write import Journal, JournalDiffers
from ganglion.peer.participant import Participant
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
from ganglion.sdk.seed import words
from ganglion.wire.messages import EnvironmentReset, EnvironmentStart, EnvironmentUpdate, Failure

STREAM = words(1, ["test"])
LEVEL = Box(-1e9, 1e9, ())
UNIT = Box(0.0, 1.0, ())
STEPS = 60


class Drift(Environment):
    """Drift by all kinds of chance, without end; it counts what it is asked."""

    updates = starts = loads = 0

    def start_environment(self) -> Any:
        type(self).starts += 1
        self.level, self.history, self.steps = 0.0, np.zeros(3), 0
        return self.readings(), [ActuatorInformation(0, Discrete(5), "push")]

    def readings(self) -> list[SensorInformation]:
        return [SensorInformation(self.level, LEVEL, "level"), SensorInformation(self.last(), UNIT, "last")]

    def last(self) -> float:
        return float(self.history[-1] % 1)

    def push(self, by: Any) -> None:
        type(self).updates += 1
        chance = self.rng.normal() + random.random() + np.random.rand()  # noqa: NPY002 - authors may use it
        self.level += float(chance + by + self.sensors[1].space.sample())
        self.history = np.append(self.history, self.level)[-3:]

    def update(self, actuators: list[ActuatorInformation]) -> Any:
        self.push(actuators[0].value)
        self.steps += 1
        time = SimTime(self.steps**2, None)
        return EnvironmentState(self.readings(), [reward(self.level)], world_state=self.level, simtime=time)


def reward(value: float) -> RewardInformation:
    """Return its reward."""
    return RewardInformation(value, LEVEL, "gain")


class Says(Drift):
    """Say what it is."""

    def save_state(self) -> Any:
        return {"level": np.array(self.level), "history": self.history, "steps": self.steps}

    def load_state(self, state: Any) -> None:
        type(self).loads += 1
        self.rng.normal(size=3)  # what is drawn here is not missed
        self.level, self.history, self.steps = float(state["level"]), state["history"], state["steps"]


class SaysLater(Says):
    """Say it in the loop."""

    async def update(self, actuators: list[ActuatorInformation]) -> Any:
        return super().update(actuators)

    async def save_state(self) -> Any:
        return super().save_state()

    async def load_state(self, state: Any) -> None:
        super().load_state(state)


class Counts(Reward):
    """Pay what it has counted, which is all that it is."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, state: EnvironmentState) -> RewardInformation:
        self.count += 1
        return RewardInformation(self.count + self.rng.random(), LEVEL, "paid")


class Shifts(StateTransformer):
    """Show what it keeps, and say itself what that is."""

    def __init__(self) -> None:
        self.kept: Any = open  # nothing that is a plain value
        self.sum = 0.0

    def __call__(self, state: EnvironmentState) -> EnvironmentState:
        self.sum += float(state.world_state)
        state.sensor_information[0].value = self.sum
        return state

    def save_state(self) -> Any:
        return {"sum": self.sum}

    def load_state(self, state: Any) -> None:
        self.sum = state["sum"]


class Life:
    """Serve one environment on a journal, as the process of one name does; `killed` lets the next one take it over."""

    def __init__(
        self, link: Any, clock: Any, loader: Any, storage: MemoryJournalFile | None, chosen: dict[str, Any]
    ) -> None:
        self.link, self.chosen = link, chosen
        self.host = EnvironmentHost(loader(**chosen))
        journal = None if storage is None else Journal(storage)
        self.peer = Participant(lambda: link, self.host.handlers(), clock=clock, pulse=False, journal=journal)
        self.host.participant = self.peer
        self.peer.join(self.peer.hello("environment", "e", "?"))

    def turn(self) -> None:
        """Take what comes, and look round."""
        incoming = self.peer._next(0.0)
        if incoming is not None:
            self.peer._take(incoming)
        self.host.tick()

    def close(self) -> None:
        """End the loops of async hooks, as the end of a process would."""
        if hasattr(self.host, "_hooks"):
            self.host._hooks.close()

    def hear(self) -> None:
        """Hear the journal of a predecessor to its end."""
        while self.peer.playing:
            self.turn()

    def ask(self, call: str, message: Any, serial: int) -> Any:
        """Return the answer to a request."""
        self.link.sent.clear()  # another life may have answered the same number
        self.link.request("r/controller/0", f"environment.{call}", message, serial)
        self.turn()
        return self.link.replied(serial)

    def script(self, first: int, last: int) -> list[Any]:
        """Return the answers to the requests from `first` to `last` of a run: start, updates, a reset at number 40."""
        return [self.ask(*self.request(number), number) for number in range(first, last + 1)]

    def request(self, number: int) -> tuple[str, Any]:
        """Return one of them."""
        if number == 1:
            own = {"name": "own", "params": {}}
            parts = [own if part in self.chosen else None for part in ("reward", "transformer")]
            return "start", EnvironmentStart("r", 0, "p", "train", 0, "w", {}, 1, 2, STREAM, STREAM, own, *parts)
        if number == 40:
            return "reset", EnvironmentReset(1, 7, words(2, ["test"]))
        return "update", EnvironmentUpdate([[number % 5]])


@pytest.fixture
def live(link: Any, clock: Any, loader: Any) -> Iterator[Callable[..., Life]]:
    """Return what begins a life on a journal with these classes."""
    lives: list[Life] = []

    def begin(storage: MemoryJournalFile | None = None, **chosen: Any) -> Life:
        lives.append(Life(link, clock, loader, storage, chosen))
        return lives[-1]

    yield begin
    for life in lives:
        life.close()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin journals anew as soon as there is anything on them."""
    for name, value in {"JOURNAL_BEGIN_BYTES": 0, "JOURNAL_BEGIN_S": 0.0, "_TIMES_SIZE": 0, "_TIMES_COST": 0.0}.items():
        monkeypatch.setattr(compaction, name, value)


SPEAKERS: list[dict[str, Any]] = [
    {"environment": Says},
    {"environment": SaysLater},
    {"environment": SaysLater, "reward": Counts, "transformer": Shifts},
]


@pytest.mark.parametrize("chosen", SPEAKERS, ids=lambda chosen: "-".join(c.__name__ for c in chosen.values()))
@pytest.mark.parametrize("killed", [1, 2, 40, 55])
def test_a_successor_goes_on_within_an_episode(live: Any, often: None, chosen: Any, killed: int) -> None:
    """Killed anywhere it goes on bit for bit, and hears no more than its start and what came since the last state."""
    expected = live(None, **chosen).script(1, STEPS)
    storage = MemoryJournalFile()
    live(storage, **chosen).script(1, killed)
    cls = chosen["environment"]
    cls.updates = cls.starts = cls.loads = 0
    successor = live(storage, **chosen)
    successor.hear()
    heard = (cls.starts, cls.updates, cls.loads)

    assert expected[killed:] == successor.script(killed + 1, STEPS)
    assert (1, 0, 0 if killed == 1 else 1) == heard


class Flock(Environment):
    """Move bodies by their seeds and setpoints, each for so many steps as its seed says; it counts what it is asked."""

    batched = True
    updates = loads = 0

    def start_environment(self) -> Any:
        self.levels, self.left = np.zeros(len(self.bodies)), np.zeros(len(self.bodies), np.int64)
        push = [ActuatorInformation(0, Discrete(5), "push")]
        return EnvironmentBaseline([SensorInformation(0.0, LEVEL, "level")], push, rewards_available=[reward(0.0)])

    def begin_batch(self, rows: Any, seeds: Any) -> Any:
        self.levels[rows] = np.array(seeds) % 1000 / 1000 + self.rng.random()
        self.left[rows] = np.array(seeds) % 5 + 1
        return {"level": self.levels[rows]}

    def update(self, actuators: list[ActuatorInformation]) -> Any:
        raise NotImplementedError

    def update_batch(self, setpoints: Any) -> StepBatch:
        type(self).updates += 1
        self.levels[self.rows] += setpoints["push"] + self.rng.random(len(self.rows))
        self.left[self.rows] -= 1
        levels = self.levels[self.rows]
        return StepBatch({"level": levels}, {"gain": -levels}, self.left[self.rows] == 0)


class FlockSays(Flock):
    """Say what it is."""

    def save_state(self) -> Any:
        return {"levels": self.levels, "left": self.left}

    def load_state(self, state: Any) -> None:
        type(self).loads += 1
        self.levels, self.left = np.array(state["levels"]), np.array(state["left"])


class BodiesLife(Life):
    """Serve an environment whose four bodies have episodes of their own, until the budget of each is spent."""

    def request(self, number: int) -> tuple[str, Any]:
        if number == 1:
            self.living = np.arange(4)
            own = {"name": "own", "params": {}}
            bodies = [["ada", 0, b, None, None, None] for b in range(4)]
            limits = {"max_steps": 4, "budget_steps": 50, "budget_episodes": None}
            named = {"bodies": bodies, "index": 0, "each": limits}
            return "start", EnvironmentStart("r", 0, "p", "train", 0, "w", {}, 1, 2, STREAM, STREAM, own, **named)
        rows = np.arange(number % 2, 4)  # not all bodies take part in each step
        return "update", EnvironmentUpdate([(rows % 5).tobytes()], None, rows.astype("<u2").tobytes())


@pytest.mark.parametrize(("cls", "loads"), [(FlockSays, 1), (Flock, 0)])
@pytest.mark.parametrize("killed", [2, 17, 39])
def test_bodies_go_on_within_their_episodes(
    link: Any, clock: Any, loader: Any, often: None, cls: Any, loads: int, killed: int
) -> None:
    """A successor has the steps, episodes and budgets of each body; who says nothing is replayed from the start."""

    def live(storage: Any) -> BodiesLife:
        return BodiesLife(link, clock, loader, storage, {"environment": cls})

    expected = live(None).script(1, 48)
    storage = MemoryJournalFile()
    live(storage).script(1, killed)
    cls.updates = cls.loads = 0
    successor = live(storage)
    successor.hear()

    assert (0 if loads else killed - 1, loads) == (cls.updates, cls.loads)
    assert expected[killed:] == successor.script(killed + 1, 48)
    assert 40 > len([answer for answer in expected[1:] if answer.first_rows is not None]) > 10


class NoMap(Says):
    """Return no map."""

    def save_state(self) -> Any:
        return [1.0]


class NoArrays(Says):
    """Return what cannot travel."""

    def save_state(self) -> Any:
        return {"nets": [1.0, object()]}


class NoName(Says):
    """Return a map of numbers."""

    def save_state(self) -> Any:
        return {3: 1.0}


class Raises(Says):
    """Fail to say it."""

    def save_state(self) -> Any:
        raise KeyError("level")


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (NoMap, "environment w: save_state: expected a map of names and arrays, or other plain values, found list"),
        (NoArrays, "environment w: save_state: nets[1]: a object is no plain value: expected a map of names"),
        (NoName, "found 3 as a name"),
        (Raises, "KeyError: 'level'"),
    ],
)
def test_what_is_no_state_answers_the_next_request(live: Any, often: None, cls: Any, said: str) -> None:
    """Who returns no map of arrays fails by name: the hook is told, and where in the state it is."""
    failure = live(MemoryJournalFile(), environment=cls).script(1, 3)[-1]

    assert isinstance(failure, Failure)
    assert ("author", True) == (failure.kind, said in failure.message), failure.message
    assert f"class {cls.__qualname__}" in failure.where
    assert "hook save_state" in failure.where


def test_who_does_not_take_its_state_is_named(live: Any, often: None, monkeypatch: Any, capsys: Any) -> None:
    """Then a successor ends as one that does otherwise; its last words are the author's traceback."""
    storage = MemoryJournalFile()
    live(storage, environment=Says).script(1, 9)

    def fails(self: Any, state: Any) -> None:
        raise RuntimeError("no such level")

    monkeypatch.setattr(Says, "load_state", fails)
    successor = live(storage, environment=Says)
    with pytest.raises(JournalDiffers, match="environment w: load_state: RuntimeError: no such level"):
        successor.hear()
    printed = capsys.readouterr().err

    assert "in fails" in printed
    assert "class Says, step 8, hook load_state" in printed
