from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fakepeer import OWN, MemoryJournalFile, environment_start

from ganglion.peer.environment.host import EnvironmentHost
from ganglion.peer.journal import compaction
from ganglion.peer.journal.write import Journal, JournalDiffers
from ganglion.peer.participant import Participant
from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentState,
    Reward,
    RewardInformation,
    SensorInformation,
    SimTime,
    StateTransformer,
)
from ganglion.sdk.seed import words
from ganglion.wire.messages import EnvironmentReset, EnvironmentUpdate, Failure

LEVEL = Box(-1e9, 1e9, ())
UNIT = Box(0.0, 1.0, ())


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
    """Say in the loop what it is."""

    async def save_state(self) -> Any:
        return {"level": np.array(self.level), "history": self.history, "steps": self.steps}

    async def load_state(self, state: Any) -> None:
        type(self).loads += 1
        self.rng.normal(size=3)  # what is drawn here is not missed
        self.level, self.history, self.steps = float(state["level"]), state["history"], state["steps"]


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
        """Return the answers to the requests from `first` to `last` of a run: start, updates, a reset at number 20."""
        found = []
        for number in range(first, last + 1):
            call, message = "update", EnvironmentUpdate([[number % 5]])
            if number == 1:
                call, message = (
                    "start",
                    environment_start(**{part: OWN for part in self.chosen if part != "environment"}),
                )
            elif number == 20:
                call, message = "reset", EnvironmentReset(1, 7, words(2, ["test"]))
            found.append(self.ask(call, message, number))
        return found


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


ALL: dict[str, Any] = {"environment": Says, "reward": Counts, "transformer": Shifts}


@pytest.mark.parametrize("killed", [1, 2, 20, 25])
def test_a_successor_goes_on_within_an_episode(live: Any, often: None, killed: int) -> None:
    """Killed anywhere it goes on bit for bit, and hears no more than its start and what came since the last state."""
    expected = live(None, **ALL).script(1, 30)
    storage = MemoryJournalFile()
    live(storage, **ALL).script(1, killed)
    Says.updates = Says.starts = Says.loads = 0
    successor = live(storage, **ALL)
    successor.hear()

    assert (1, 0, 0 if killed == 1 else 1) == (Says.starts, Says.updates, Says.loads)
    assert expected[killed:] == successor.script(killed + 1, 30)


def raises(_: Any) -> Any:
    """Fail to say it."""
    raise KeyError("level")


SAID = "environment w: save_state: "


@pytest.mark.parametrize(
    ("save", "said"),
    [
        (lambda _: [1.0], f"{SAID}expected a map of names and arrays, or other plain values, found list"),
        (lambda _: {"nets": [1.0, object()]}, f"{SAID}nets[1]: a object is no plain value: expected a map of names"),
        (lambda _: {3: 1.0}, "found 3 as a name"),
        (raises, "KeyError: 'level'"),
    ],
)
def test_what_is_no_state_answers_the_next_request(live: Any, often: None, save: Any, said: str) -> None:
    """Who returns no map of arrays fails by name: the hook is told, and where in the state it is."""
    failure = live(MemoryJournalFile(), environment=type("Own", (Says,), {"save_state": save})).script(1, 3)[-1]

    assert isinstance(failure, Failure)
    assert ("author", True) == (failure.kind, said in failure.message), failure.message
    assert "class Own" in failure.where
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
