"""Recorded episodes that are looked for, read out of a store, copied, and read out of copies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion import registry
from ganglion.errors import DocumentError, StoreError
from ganglion.peer.results.records import pack
from ganglion.run.agents import ResolvedAgent
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.sdk import ActuatorInformation, Box, Discrete, SensorInformation, Space
from ganglion.wire.messages import BrainPretrain
from ganglion_replay import spool as module
from ganglion_replay.recordings import Recordings
from ganglion_replay.spool import INDEX, Spool, read_chunk, read_index
from ganglion_replay.spooled import Kin, Sessions
from ganglion_replay.transcript import Transcript
from ganglion_replay.wish import pick_phase, wish_of

DUMMY = PluginPlan("dummy")
COUNT, LAMPS = Discrete(9), Box(-1.0, 1.0, (2,), np.float32)
AT = "run.yml:3:4: a.replay.0"


class Scene:
    """Stand recordings of a run `farm-2` whose phase 2 has one agent `a` that learns."""

    def __init__(self, archive: Any, folder: Path, *replay: dict[str, Any], store: bool = True) -> None:
        places = [AT.replace("0", str(i)) if i else AT for i in range(len(replay))]
        self.agent = AgentPlan("a", DUMMY, DUMMY, DUMMY, [], [], replay=list(replay), replay_at=places)
        environments = [EnvironmentPlan("w", DUMMY)]
        self.phase = PhasePlan(2, "three", environments, [self.agent], DUMMY, [], [])
        plan = Plan("farm", "farms", "1", [self.phase], folder=str(folder))
        self.warnings: list[str] = []
        results = str(folder / "farm-2")
        uri = archive.uri if store else None
        self.recordings = Recordings(plan, "farm-2", results, uri, self.warnings.append)

    def prepare(self) -> list[tuple[str, int, int]]:
        self.recordings.prepare(self.phase)
        told = self.recordings.request("a")
        assert told is not None
        found = Sessions(Path(told.folder), told.sha256, [Kin((), [], [])])
        return [(session.run, session.phase, session.episode) for session in found]

    def fit(self, **spaces: Space) -> None:
        given: dict[str, Space] = {"s": COUNT, "lamps": LAMPS, "a": COUNT} | spaces
        rows = [{"id": f"w.{uid}", "space": space.to_wire()} for uid, space in given.items()]
        sensors = [row for row in rows if row["id"] != "w.a"]
        self.recordings.fit([ResolvedAgent(self.agent, sensors, [row for row in rows if row not in sensors], ["w"])])


TRAINED = (("one", "test"), ("two", "train"), ("three", "train"))


def test_an_earlier_phase_of_this_run_is_the_default(archive: Any, tmp_path: Path) -> None:
    """Its latest with the agent; a phase can be asked for; this phase and later ones are none."""
    archive.run("farm-2", phases=TRAINED, status=None)

    assert [("farm-2", 1, 0), ("farm-2", 1, 1)] == Scene(archive, tmp_path, {}).prepare()
    both = Scene(archive, tmp_path, {"phase": "one"}, {"phase": 1})
    assert [0, 0, 1, 1] == [phase for _, phase, _ in both.prepare()]


def test_a_base_is_looked_at_first(archive: Any, tmp_path: Path) -> None:
    """It is a store, or the folder of results in which one lies; paths begin where the document lies."""
    archive.run("far-1", uid="far")
    entry = {"experiment_run": "far"}
    folder = tmp_path / "docs"
    folder.mkdir()

    for base in (str(tmp_path), "..", archive.uri, "sqlite:///../ganglion.db"):
        scene = Scene(archive, folder, {**entry, "base": base}, store=False)
        assert 2 == len(scene.prepare()), base


def test_mode_and_worker_narrow_the_choice(archive: Any, tmp_path: Path) -> None:
    """Only episodes of that worker, or mode, are kept."""
    archive.run("farm-2", workers=3, status=None)

    assert 2 == len(Scene(archive, tmp_path, {"worker": 1}).prepare())
    with pytest.raises(DocumentError, match=rf"{AT}: recorded episodes .*, mode train: there are none in run farm-2"):
        Scene(archive, tmp_path, {"mode": "train"}).prepare()
    scene = Scene(archive, tmp_path, {"worker": 7, "strict": False})
    assert ([], 1) == (scene.prepare(), len(scene.warnings))


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({}, "in this run: run farm-2 has no rows of an agent `a`"),
        ({"experiment_run": "nil"}, "in the store .*: there is no run of `nil`"),
        ({"instance": "far-1", "agent": "bob"}, "run far-1 has no rows of an agent `bob`"),
        ({"instance": "far-1", "phase": "six"}, "run far-1 has no phase `six`"),
        ({"experiment_run": "far", "base": "gone", "phase": 4}, "in base sqlite:.*gone.*: .*\n.*has no phase `4`"),
    ],
)
def test_what_is_nowhere_is_a_fault_with_all_places(
    archive: Any, tmp_path: Path, entry: dict[str, Any], why: str
) -> None:
    """It begins with the place in the document."""
    archive.run("farm-2", phases=[], status=None)
    archive.run("far-1", uid="far")

    with pytest.raises(DocumentError, match=rf"(?s)\A{AT}: recorded episodes of .* were not found\n.*{why}"):
        Scene(archive, tmp_path, entry).prepare()


def test_the_environment_has_to_be_the_only_one(archive: Any, tmp_path: Path) -> None:
    """Who asks for an environment gets the agent that was there alone."""
    archive.run("farm-2", status=None)

    assert 2 == len(Scene(archive, tmp_path, {"environment": "w"}).prepare())
    with pytest.raises(DocumentError, match=rf"{AT}.environment: .* was in w, not in `lake` alone"):
        Scene(archive, tmp_path, {"environment": "lake"}).prepare()


def test_strict_episodes_are_whole(archive: Any, tmp_path: Path) -> None:
    """One that is not is a fault that names it; without `strict` it is a warning."""

    def spoil(record: list[Any]) -> list[Any] | None:
        return None if record[0] == "steps" and record[5] == 1 else record

    archive.run("farm-2", status=None, spoil=spoil)

    with pytest.raises(DocumentError, match=rf"{AT}: expected whole episodes: .*episode 1: its closing readings"):
        Scene(archive, tmp_path, {}).prepare()
    scene = Scene(archive, tmp_path, {"strict": False})
    assert 2 == len(scene.prepare())
    assert [
        f"{AT}: not whole: run farm-2, phase 0, worker 0, episode 1: its closing readings are missing"
    ] == scene.warnings


def test_what_was_kept_is_taken_again(archive: Any, tmp_path: Path) -> None:
    """Who begins the phase again reads no store: it may have changed; who asks for something else reads it."""
    archive.run("farm-2", status=None)
    first = Scene(archive, tmp_path, {})
    found = first.prepare()
    told = first.recordings.request("a")
    (tmp_path / "ganglion.db").rename(tmp_path / "moved.db")

    again = Scene(archive, tmp_path, {})
    assert (found, told) == (again.prepare(), again.recordings.request("a"))
    with pytest.raises(DocumentError):
        Scene(archive, tmp_path, {"repeat": 2}).prepare()


@pytest.mark.parametrize(
    ("spaces", "text"),
    [
        ({"more": COUNT}, r"sensor `w.more`: expected Discrete\(9\), found none"),
        ({"s": Discrete(8)}, r"sensor `w.s`: expected Discrete\(8\), found Discrete\(9\)"),
        ({"a": Box(0.0, 1.0, ())}, r"actuator `w.a`: expected Box\(.*\), found Discrete\(9\)"),
    ],
)
def test_what_does_not_fit_is_a_fault(archive: Any, tmp_path: Path, spaces: dict[str, Space], text: str) -> None:
    """With place, id, what is expected and what was found; without `strict` it is a warning."""
    archive.run("farm-2", status=None)
    scene = Scene(archive, tmp_path, {})
    scene.prepare()

    with pytest.raises(DocumentError, match=rf"{AT}: run farm-2, phase `one`, agent `a`: {text}"):
        scene.fit(**spaces)
    lenient = Scene(archive, tmp_path, {"strict": False})
    lenient.prepare()
    lenient.fit(**spaces)
    assert 1 == len(lenient.warnings)


def test_recorded_columns_that_the_agent_has_not_are_a_fault(archive: Any, tmp_path: Path) -> None:
    """Who sees less than was recorded says so by `strict: false`."""
    archive.run("farm-2", status=None)
    scene = Scene(archive, tmp_path, {})
    scene.prepare()
    declared = [{"id": "w.s", "space": COUNT.to_wire()}]
    resolved = ResolvedAgent(scene.agent, declared, [{"id": "w.a", "space": COUNT.to_wire()}], ["w"])

    with pytest.raises(DocumentError, match=r"sensor `w.lamps`: found Box\(.*\), which the agent has not"):
        scene.recordings.fit([resolved])


def agent(*replay: dict[str, Any], brain: PluginPlan | None = DUMMY, name: str = "ada") -> AgentPlan:
    """Return an agent that is to learn from recordings."""
    places = [f"run.yml:{i}:1: replay.{i}" for i in range(len(replay))]
    return AgentPlan(name, DUMMY, brain, DUMMY, [], [], replay=list(replay), replay_at=places)


def phase(*agents: AgentPlan, mode: str = "train") -> PhasePlan:
    """Return a phase with these agents."""
    return PhasePlan(0, "one", [], list(agents), DUMMY, [], [], mode=mode)


@pytest.mark.parametrize(
    ("phase_", "found"),
    [
        (None, 2),
        (0, 0),
        ("two", 2),
        ("one", "phase `one` of run r has not the agent `ada`"),
        (7, "run r has no phase `7` that could be meant"),
        ("0", "run r has no phase `0` that could be meant"),
    ],
)
def test_the_phase_is_the_last_with_the_agent(phase_: Any, found: Any) -> None:
    """Unless it is asked for by index or name."""
    wish = wish_of({} if phase_ is None else {"phase": phase_}, "ada", "farm", "farm-1")

    assert found == pick_phase(wish, {0: "zero", 1: "one", 2: "two"}, [0, 2], "r")


@contextmanager
def transcript(archive: Any, run: str = "r", phase: tuple[int, str] = (0, "one")) -> Iterator[Transcript]:
    """Yield the transcript of agent `a`."""
    store = registry.load("store", "sqlite")
    with store.reader(archive.uri) as reader, store.reader(archive.uri) as aside:
        yield Transcript(reader, aside, run, phase, "a")


def test_what_is_not_whole_is_told(archive: Any) -> None:
    """Missing decisions leave an episode out; a missing end, or missing closing readings, are told."""

    def spoil(record: list[Any]) -> list[Any] | None:
        if record[0] == "actions" and record[5] == 0:
            return [*record[:6], [record[6][0], record[6][2]]]
        if record[0] == "actions" and record[5] == 1:
            return [*record[:6], record[6][:2]]
        return None if record[0] == "steps" and record[5] == 2 else record

    archive.run("r", episodes=4, spoil=spoil)
    flaws: list[str] = []
    with transcript(archive) as given:
        found = list(given.episodes("test", None, flaws))

    place = "run r, phase 0, worker 0, episode"
    assert [
        f"{place} 0: decisions are missing",
        f"{place} 1: it has no end",
        f"{place} 2: its closing readings are missing",
    ] == flaws
    assert [(1, 3), (2, 3), (3, 4)] == [(one.episode, len(one.observations)) for one in found]


def test_a_missing_setpoint_is_refused(archive: Any) -> None:
    """Without its value a decision cannot be learned from: the id is named."""

    def spoil(record: list[Any]) -> list[Any]:
        if record[0] == "actions":
            record[6][1][4] = pack([None])
        return record

    archive.run("r", spoil=spoil)
    with transcript(archive) as given, pytest.raises(StoreError, match=r"episode 0: no value of `w.a`"):
        list(given.episodes("test", None, []))


Spooled = Callable[..., BrainPretrain]


def test_chunks_are_bounded(spooled: Spooled, monkeypatch: pytest.MonkeyPatch, recording: Any) -> None:
    """A chunk ends before it is too large, and with so many episodes; one that is larger has a chunk of its own."""
    source, episode = recording
    monkeypatch.setattr(module, "REPLAY_CHUNK_BYTES", 2 * episode(0, 4).size_bytes)
    lengths = [4, 4, 4, 90, 4]

    told = spooled((source(), [episode(i, steps) for i, steps in enumerate(lengths)]))
    found = read_index(Path(told.folder))
    assert found is not None
    assert [2, 1, 1, 1] == [chunk.sessions for chunk in found[1][0].chunks]
    monkeypatch.setattr(module, "REPLAY_CHUNK_SESSIONS", 2)
    told = spooled((source(), [episode(i, 1) for i in range(5)]))
    found = read_index(Path(told.folder))
    assert found is not None
    assert [2, 2, 1] == [chunk.sessions for chunk in found[1][0].chunks]


def test_what_is_damaged_is_refused_by_its_name(spooled: Spooled) -> None:
    """A file that is gone or was changed is named, with the digest that was expected; so is the index."""
    told = spooled()
    folder = Path(told.folder)
    found = read_index(folder)
    assert found is not None
    (chunk,) = found[1][0].chunks
    path = folder / chunk.file
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))

    with pytest.raises(StoreError, match=rf"{path} is damaged: expected SHA-256 {chunk.sha256}"):
        read_chunk(folder, chunk)
    path.unlink()
    with pytest.raises(StoreError, match=rf"{path} is gone"):
        read_chunk(folder, chunk)
    (folder / INDEX).write_text((folder / INDEX).read_text().replace("old-1", "old-2"))
    with pytest.raises(StoreError, match=rf"{INDEX} is damaged: expected SHA-256 {told.sha256}"):
        read_index(folder, told.sha256)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 2}', '{"format": 1, "asked": 0, "sources": [{"at": 1}]}', "[" * 100_000]
)
def test_an_index_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    """Whatever stands there instead is no index, and is told as damage."""
    (tmp_path / INDEX).write_text(text)

    with pytest.raises(StoreError, match=f"{INDEX} is damaged"):
        read_index(tmp_path)


def test_an_index_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is too long is neither written nor read."""
    monkeypatch.setattr(module, "REPLAY_INDEX_BYTES", 99)

    with pytest.raises(StoreError, match="replay_index_bytes"):
        Spool(tmp_path / "a", "x" * 100).close()
    (tmp_path / INDEX).write_text(json.dumps("x" * 100))
    with pytest.raises(StoreError, match="longer than 99 bytes"):
        read_index(tmp_path)


SENSORS = [SensorInformation(None, COUNT, "w.s"), SensorInformation(None, LAMPS, "w.lamps")]
ACTUATORS = [ActuatorInformation(None, COUNT, "w.a")]


def of(told: BrainPretrain, sensors: Any = SENSORS, actuators: Any = ACTUATORS) -> Sessions:
    """Return the sessions that a brain is told of."""
    return Sessions(Path(told.folder), told.sha256, [Kin((), sensors, actuators)])


def test_it_is_a_sequence_that_can_be_run_through_again(spooled: Spooled) -> None:
    """Iteration, indices from both ends and slices agree, however often."""
    sessions = of(spooled())

    for _ in range(2):
        assert [0, 1, 2] == [session.episode for session in sessions]
    assert [2, 0] == [sessions[-1].episode, sessions[-3].episode]
    assert [1, 2] == [session.episode for session in sessions[1:]]
    assert [2, 1, 0] == [session.episode for session in reversed(sessions)]
    with pytest.raises(IndexError):
        sessions[3]


def test_missing_rewards_are_not_a_number(spooled: Spooled, recording: Any) -> None:
    """Rewards of integers stay integers where all are there."""
    source, episode = recording
    given = episode(2)
    given.steps["rewards"][:] = [[1.0], [np.nan], [2.0]]
    whole = [["w.r", "Discrete(9)"]]
    first, second = of(spooled((source(rewards=whole), [given]), (source(rewards=whole), [episode(2, steps=1)])))

    assert ("f", True) == (first.rewards.dtype.kind, bool(np.isnan(first.rewards[1, 0])))
    assert ("i", [[2]]) == (second.rewards.dtype.kind, second.rewards.tolist())


def test_what_is_strict_fits_or_is_refused(spooled: Spooled, recording: Any) -> None:
    """A strict entry without a column is refused by its place; another one leaves the column out."""
    source, episode = recording
    more = [*SENSORS, SensorInformation(None, COUNT, "w.more")]

    with pytest.raises(DocumentError, match=r"run.yml:3:4: a.replay.0: `w.more` was not recorded in run old-1"):
        of(spooled(), more)
    sessions = of(spooled((source(strict=False), [episode(0)])), more)
    assert (["w.more"], ["w.s", "w.lamps"]) == (sessions.missing, list(sessions[0].readings))
