"""The environment `replay` without a bus: how fast it plays, which sessions, and what is refused of it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion import registry
from ganglion.document import load_document
from ganglion.errors import StoreError
from ganglion.sdk import ResetRequest
from ganglion.sdk.flow import Mode
from ganglion.sdk.spaces import Discrete
from ganglion_replay import Recorded, export_sessions, sessions
from ganglion_replay.environment import ReplayEnvironment
from ganglion_replay.sources import KEYS
from ganglion_replay.spool import NO_TIME, Episode, Source, Spool

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
US = timedelta(microseconds=1)
SPACE, EPOCH = Discrete(9).to_string(), datetime(1970, 1, 1, tzinfo=UTC)


class Sudden(selectors.DefaultSelector):
    """Let the time that an event loop would wait pass at once."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.passed_s += max(0.0, timeout or 0.0)
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    """Be an event loop in which time passes by waiting alone."""

    def __init__(self) -> None:
        self.selector = Sudden()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.passed_s


def dataset(folder: Path, ticks: list[int | None], stamps: list[datetime | None], episodes: int = 1) -> dict[str, str]:
    """Return the copy of episodes whose reading counts its steps, with these times."""
    spool = Spool(folder, {})
    spool.begin(Source("run.yml:1:1: s", "old-1", "", "w", 0, "one", 1, True, [["s", SPACE]], [["a", SPACE]], []))
    rows = len(ticks)
    seen = {
        "sensor 0": np.arange(rows)[:, None],
        "time": np.array([NO_TIME if tick is None else tick for tick in ticks]),
        "stamp": np.array(
            [NO_TIME if s is None else (s.replace(tzinfo=s.tzinfo or UTC) - EPOCH) // US for s in stamps]
        ),
        "zone": np.array([NO_TIME if s is None or not s.tzinfo else s.utcoffset() // US for s in stamps]),  # type: ignore[operator]
    }
    nothing = np.zeros(rows - 1, bool)
    steps = {
        "actuator 0": np.ones((rows - 1, 1), np.int64),
        "terminated": np.arange(rows - 1) == rows - 2,
        "truncated": nothing,
        "own": nothing.astype(np.int8),
        "decided": ~nothing,
        "policy": np.full(rows - 1, -1),
        "policy_version": np.full(rows - 1, -1),
    }
    for number in range(episodes):
        spool.add(Episode(Mode.TEST, 0, 0, number, -1, seen, steps))
    return {"folder": str(folder), "sha256": spool.close()}


def waited(source: Mapping[str, Any], pace: str, episodes: int = 1) -> list[list[float]]:
    """Return after how many seconds each step of each episode was there."""

    async def play() -> list[list[float]]:
        world, found = ReplayEnvironment(source, pace=pace), []
        world.start_environment()
        for episode in range(episodes):
            begin_s, times, over = asyncio.get_running_loop().time(), [], False
            if episode:
                world.episode = episode
                world.reset(ResetRequest(episode, 0))
            while not over:
                over = bool((await world.update([])).terminated)
                times.append(asyncio.get_running_loop().time() - begin_s)
            found.append(times)
        return found

    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(play())


STAMPS = [BEGIN, BEGIN + timedelta(minutes=15), BEGIN + timedelta(minutes=20), BEGIN + timedelta(hours=1)]


@pytest.mark.parametrize(
    ("pace", "ticks", "stamps", "seconds"),
    [
        ("fast", [0, 2, 3, 7], STAMPS, [0.0, 0.0, 0.0]),
        ("clock", [0, 2, 3, 7], STAMPS, [2.0, 3.0, 7.0]),
        ("clock", [4, 6, 7, 9], STAMPS, [2.0, 3.0, 5.0]),
        ("clock", [None] * 4, STAMPS, [1.0, 2.0, 3.0]),
        ("recorded", [0, 2, 3, 7], STAMPS, [900.0, 1200.0, 3600.0]),
        ("recorded", [None] * 4, [one.replace(tzinfo=None) for one in STAMPS], [900.0, 1200.0, 3600.0]),
        (
            "recorded",
            [0] * 4,
            [s.astimezone(timezone(timedelta(hours=i))) for i, s in enumerate(STAMPS)],
            [900.0, 1200.0, 3600.0],
        ),
    ],
)
def test_it_plays_as_fast_as_it_is_told(
    tmp_path: Path, pace: str, ticks: Any, stamps: Any, seconds: list[float]
) -> None:
    """At once; a second for each simulated tick, or step where none were recorded; or as the timestamps passed."""
    assert [seconds] * 2 == waited(dataset(tmp_path, ticks, stamps, 2), pace, 2)


@pytest.mark.parametrize("stamps", [STAMPS, [s.replace(tzinfo=None) for s in STAMPS], [None] * 4])
def test_times_are_those_of_the_record(tmp_path: Path, stamps: Any) -> None:
    """Ticks and timestamps come as they were, with their zone or without one."""
    berlin = timezone(timedelta(hours=1))
    stamps = [s.astimezone(berlin) if s is not None and s.tzinfo else s for s in stamps]
    world = ReplayEnvironment(dataset(tmp_path, [3, 4, 5, 6], stamps))
    times = [world.start_environment().simtime]
    times += [asyncio.run(world.update([])).simtime for _ in range(3)]  # type: ignore[misc]

    assert [3, 4, 5, 6] == [time.simtime_ticks for time in times]
    assert [None if s is None else s.isoformat() for s in stamps] == [
        None if time.simtime_timestamp is None else time.simtime_timestamp.isoformat() for time in times
    ]


def test_a_copy_that_has_changed_is_not_played(tmp_path: Path) -> None:
    """It is told by the name of the file, when it is opened and when more of it is read."""
    source = dataset(tmp_path, [0, 1], [None] * 2)
    (chunk,) = tmp_path.glob("*.npz")
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-1] + b"?")
    world = ReplayEnvironment(source)

    with pytest.raises(StoreError, match=rf"{chunk.name} is damaged: expected SHA-256"):
        world.start_environment()
    chunk.write_bytes(whole)
    (tmp_path / "sessions.json").write_text("{}")
    with pytest.raises(StoreError, match=r"sessions.json is damaged: expected SHA-256"):
        world.start_environment()


PLAYS = """
uid: plays
seed: 1
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - one:
      environments: [{environment: {uid: UID, name: replay, params: {PARAMS}}}]
      agents: [{name: a, brain: log, muscle: random, sensors: [], actuators: []}]
      phase_config: {mode: test}
"""


def faults(archive: Any, folder: Path, params: str, uid: str = "w") -> list[str]:
    """Return what is wrong with a document that plays what an archive and files have of run `r` in `w` and `v`."""
    text = PLAYS.replace("UID", uid).replace("PARAMS", params)
    plan, _ = load_document(str(folder / "run.yml"), plugins=registry, text=text)
    return [
        f"{place.rpartition('environment.params.')[2]}: {text}" for place, text in Recorded.faults(plan, archive.uri)
    ]


BARE = "run bare, phase 0, environment w, worker 0, episode 0: its first readings were not recorded"
CASES: list[tuple[str, list[str]]] = [
    ("source: {run: r}", []),
    ("source: {run: r}, order: sideways", ["order: expected one of recorded, shuffled, sampled, found 'sideways'"]),
    ("source: {run: r}, actions: some", ["actions: expected one of forced, own, found 'some'"]),
    ("source: {run: r}, pace: slow", ["pace: expected one of fast, recorded, clock, found 'slow'"]),
    ("source: {run: r}, map: all", ["map: expected one of any, found 'all'"]),
    (
        "source: {run: r}, pace: recorded",
        ["pace: expected timestamps, found none in worker 0, episode 0; `clock` counts ticks"],
    ),
    (
        "source: {path: kept, environment: w}, pace: recorded",
        ["pace: expected timestamps, found sessions of files or of a table, which have none; `clock` counts ticks"],
    ),
    ("source: {run: r, wind: 3}", [f"source: expected keys of {', '.join(sorted(KEYS))}, found `wind`"]),
    ("source: {run: bare}", [f"source: expected whole episodes: {BARE} and 1 more"]),
    ("source: {path: kept}", []),
    ("source: {path: kept}", ["source: expected one of v, w as `environment`, found `x`"]),
    ("source: {path: kept, environment: v}", []),
    ("source: {path: kept, environment: u}", ["source: expected one of v, w as `environment`, found `u`"]),
    ("source: {path: both}", ["source: expected sessions of one environment, found those of v,w at once"]),
]


def test_what_cannot_be_played_is_told_before_anything_starts(archive: Any, tmp_path: Path) -> None:
    """Unknown words, no timestamps, no such environment in files: of several that of the same uid is meant."""
    archive.run("r", uid="r")
    archive.run("bare", uid="bare", spoil=lambda record: None if record[0] == "resets" else record)
    known = list(sessions(archive.uri, "r"))
    export_sessions([*known, *(replace(one, environment="v") for one in known)], tmp_path / "kept", "arrow")
    export_sessions([replace(one, environment="v,w") for one in known], tmp_path / "both", "arrow")

    for params, found in CASES:
        assert found == faults(archive, tmp_path, params, "x" if "kept}" in params and found else "w"), params
