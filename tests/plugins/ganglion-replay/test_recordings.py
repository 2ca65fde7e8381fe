from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import DocumentError, StoreError
from ganglion.run.agents import ResolvedAgent
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.sdk import Box, Discrete, Space
from ganglion_replay.recordings import Recordings
from ganglion_replay.spooled import Kin, Sessions

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
        """Return run, phase and number of the episodes that the brain would learn from."""
        self.recordings.prepare(self.phase)
        told = self.recordings.request("a")
        assert told is not None
        found = Sessions(Path(told.folder), told.sha256, [Kin((), [], [])])
        return [(session.run, session.phase, session.episode) for session in found]

    def fit(self, **spaces: Space) -> None:
        """Let the agent see and set what is given, and compare."""
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


def test_what_was_kept_and_is_damaged_ends_it(archive: Any, tmp_path: Path) -> None:
    """The file is named: what a brain has learned from before cannot be had again."""
    archive.run("farm-2", status=None)
    Scene(archive, tmp_path, {}).prepare()
    path = tmp_path / "farm-2" / "replay" / "2" / "a" / "00000.npz"
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(StoreError, match=rf"{path} is damaged"):
        Scene(archive, tmp_path, {}).prepare()


def test_what_fits_fits(archive: Any, tmp_path: Path) -> None:
    """The same ids and spaces, in any order, are no fault; who has no recordings is not looked at."""
    archive.run("farm-2", status=None)
    scene = Scene(archive, tmp_path, {})
    scene.fit(more=COUNT)
    scene.prepare()

    scene.fit()
    assert [] == scene.warnings


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
