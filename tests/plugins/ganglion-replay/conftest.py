"""Recorded episodes: spooled as the governor does, and in a store as a run leaves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakepeer import Hosted

from ganglion import registry
from ganglion.peer.agent.brain import BrainHost
from ganglion.peer.results.records import declaration_rows, pack
from ganglion.sdk import Brain, Filter
from ganglion.sdk.flow import Mode
from ganglion.sdk.seed import words
from ganglion.sdk.spaces import Box, Discrete
from ganglion.testing.stage import Classes
from ganglion.wire.messages import BrainJoin, BrainPretrain, BrainPretrained, BrainSetup, Thought
from ganglion_replay.spool import Episode as Spooled
from ganglion_replay.spool import Source, Spool


@pytest.fixture
def hosted() -> type[Hosted]:
    """Return the class that stands a host on a fake link."""
    return Hosted


@pytest.fixture
def loader() -> Callable[..., Classes]:
    """Return a function that makes a loader of `kind=class` or `kind__name=class`; the name is else `own`."""

    def make(**classes: type[Any]) -> Classes:
        split = {key.partition("__")[::2]: cls for key, cls in classes.items()}
        return Classes(classes={(kind, name or "own"): cls for (kind, name), cls in split.items()})

    return make


# -- recorded episodes ------------------------------------------------------------------------------------------------
COUNT, LAMPS, PRIZE = Discrete(9), Box(-1.0, 1.0, (2,), np.float32), Box(-9.0, 9.0, ())


def recorded_source(**changed: Any) -> Source:
    """Return an entry whose agent sees a count and two lamps, and sets a count."""
    given: dict[str, Any] = {
        "at": "run.yml:3:4: a.replay.0",
        "run": "old-1",
        "agent": "a",
        "environment": "w",
        "phase": 0,
        "phase_name": "one",
        "repeat": 1,
        "strict": True,
        "sensors": [["w.s", COUNT.to_string()], ["w.lamps", LAMPS.to_string()]],
        "actuators": [["w.a", COUNT.to_string()]],
        "rewards": [["w.r", PRIZE.to_string()]],
    }
    return Source(**(given | changed))


def recorded_episode(number: int = 0, steps: int = 3, worker: int = 0, final: bool = True) -> Spooled:
    """Return an episode in which everything tells where it belongs; it terminates."""
    rows = steps + final
    count = np.arange(rows, dtype=float) + number
    return Spooled(
        Mode.TEST,
        worker,
        0,
        number,
        100 + number,
        np.stack([count, 0.1 * count, -0.1 * count], axis=1),
        {
            "actions": (np.arange(steps)[:, np.newaxis] + number) % 9,
            "rewards": 0.5 * np.arange(steps)[:, np.newaxis] + number,
            "objectives": np.where(np.arange(steps) == 0, np.nan, np.arange(steps)),
            "terminated": np.arange(steps) == steps - 1,
            "truncated": np.zeros(steps, bool),
            "ticks": np.arange(steps),
        },
    )


@pytest.fixture
def spooled(tmp_path: Path) -> Callable[..., BrainPretrain]:
    """Return a function that spools episodes, source by source, and returns what a brain is told of them."""

    def spool(*entries: tuple[Source, Sequence[Spooled]]) -> BrainPretrain:
        made = Spool(tmp_path / "replay", "asked")
        for source, episodes in entries or [(recorded_source(), [recorded_episode(i) for i in range(3)])]:
            made.begin(source)
            for episode in episodes:
                made.add(episode)
        return BrainPretrain(str(tmp_path / "replay"), made.close())

    return spool


class Archive:
    """Write runs into a store as a kernel does; `uri` is where."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"sqlite:///{folder / 'ganglion.db'}"

    def run(
        self,
        run: str,
        uid: str = "farm",
        phases: Sequence[tuple[str, str]] = (("one", "test"),),
        status: str | None = "finished",
        episodes: int = 2,
        workers: int = 1,
        spoil: Callable[[list[Any]], list[Any] | None] = lambda record: record,
    ) -> None:
        with registry.load("store", "sqlite").writer(self.uri, run) as writer:
            head = {"uid": uid, "experiment": uid, "seed": "7", "document": "", "started": "2026-01-01"}
            records: list[list[Any]] = [["run", head]]
            for index, (name, mode) in enumerate(phases):
                records += self._phase(index, name, mode, workers, episodes)
            records += [["end", status, "", "2026-01-02"]] if status is not None else []
            writer.apply("governor", [kept for record in records if (kept := spoil(record)) is not None])
            writer.commit()

    def remove(self, run: str) -> None:
        registry.load("store", "sqlite").remove(self.uri, [run])

    def _phase(self, index: int, name: str, mode: str, workers: int, episodes: int) -> list[list[Any]]:
        columns = {"sensor": [("w.s", COUNT), ("w.lamps", LAMPS)], "actuator": [("w.a", COUNT)]}
        columns["reward"] = [("w.r", PRIZE)]
        records: list[list[Any]] = []
        for place in (["w", None], [None, "a"]):
            for kind, declared in columns.items():
                rows = declaration_rows([{"id": uid, "space": space.to_wire()} for uid, space in declared])
                records.append(["declare", index, *place, kind, rows])
        records.append(["phase", index, name, mode, "running", None])
        for worker in range(workers):
            for episode in range(episodes):
                records += self._episode(index, mode, worker, episode)
        return [*records, ["phase", index, name, mode, "finished", "max_episodes"]]

    def _episode(self, index: int, mode: str, worker: int, episode: int) -> list[list[Any]]:
        steps = [[i, i, i, None, self.sensors(i, worker), pack([i]), pack([0.5 * i]), i == 3, False] for i in (1, 2, 3)]
        rest = [False, False, None]
        actions = [
            [0, i, i, self.sensors(i, worker), pack([i + 1]), None, pack([0.5 * (i + 1)]), *end]
            for i, end in enumerate([[None, *rest], [2.5, *rest], [2.5, True, False, None]])
        ]
        place = [index, mode, worker]
        first = [[0, np.array([0.0, -0.5 * worker], "<f4").tobytes()]]
        return [
            ["resets", *place, "w", [[episode, 0, 0, 0, None, None, first]]],
            ["steps", *place, "w", episode, steps],
            ["actions", *place, "a", episode, actions],
            ["episode", *place, None, episode, 3, True, False, "terminated", 3 * episode],
        ]

    @staticmethod
    def sensors(count: int, worker: int) -> bytes:
        return bytes(pack([count, np.array([0.1 * count, -0.5 * worker], "<f4").tobytes()]))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Return a store without runs."""
    return Archive(tmp_path)


@pytest.fixture
def recording() -> tuple[Callable[..., Source], Callable[..., Spooled]]:
    """Return what makes an entry, and an episode for it."""
    return recorded_source, recorded_episode


# -- a brain that learns from them ------------------------------------------------------------------------------------
def declared(uid: str, space: Any) -> dict[str, Any]:
    """Return a declaration as it travels."""
    return {"id": uid, "space": space.to_wire()}


class Stage:
    """Stand a host of one brain, with two muscles, and behind a filter where one is given."""

    def __init__(self, hosted: Any, loader: Any, folder: Path) -> None:
        self._hosted, self._loader, self._folder = hosted, loader, folder

    def setup(self, brain: type[Brain], filter_: type[Filter] | None = None, **fields: Any) -> Stage:
        self.hosted = self._hosted(BrainHost(self._loader(brain=brain, **({"filter": filter_} if filter_ else {}))))
        plugin = {"name": "own", "params": {}, "on_error": fields.pop("on_error", "fail")}
        filters = [plugin | {"stream": words(2, ["filter"])}] if filter_ else []
        sensors = fields.pop("sensors", {"w.s": COUNT, "w.lamps": LAMPS})
        seen = [declared(uid, space) for uid, space in sensors.items()]
        message = BrainSetup(
            "r", 0, "one", "train", "a", plugin, seen, [declared("w.a", COUNT)], None, ["a/0", "a/1"], 2,
            words(1, ["brain"]), str(self._folder / "own"), filters=filters, **fields,
        )  # fmt: skip
        self.hosted.ask("brain.setup", message)
        return self

    def pretrain(self, told: BrainPretrain) -> BrainPretrained:
        found: BrainPretrained = self.hosted.ask("brain.pretrain", told)
        return found

    def join(self) -> Thought:
        serial = self.hosted.ask("brain.join", BrainJoin(0), "r/muscle/a/0")
        found: Thought = self.hosted.link.replied(serial, "brain.join")
        return found

    @property
    def brain(self) -> Any:
        return self.hosted.host._brain


@pytest.fixture
def stage(hosted: Any, loader: Any, tmp_path: Path) -> Stage:
    """Return a host of a brain."""
    return Stage(hosted, loader, tmp_path)
