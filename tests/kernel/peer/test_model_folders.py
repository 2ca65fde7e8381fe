from __future__ import annotations

import json
import os
import pwd
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from ganglion import registry
from ganglion.errors import DocumentError, StoreError
from ganglion.peer.models import (
    INDEX,
    ModelStore,
    copy_model,
    files_of,
    hand_over,
    model_folders,
    read_index,
    reserve,
    write_index,
)
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.sdk.models import Models

RUN: list[Any] = ["run", {"uid": "farm", "experiment": "farms", "started": "2026-01-01", "seed": "1", "document": ""}]


def brain(phase: int = 0, agent: str = "ada", tag: str = "", sha256: str = "00") -> list[Any]:
    """Return the record of a file of a model."""
    name = f"model-{tag}.npz" if tag else "model.npz"
    return ["brain", phase, agent, tag, 1, 3, "2026-01-02", 8, sha256, f"/r/farm-1/brains/{phase}/{agent}/{name}"]


def indexed(folder: Path, run: str = "farm-1", started: str = "2026-01-01") -> Path:
    """Write the index of a folder with one model, and return the folder."""
    head = ["run", {**RUN[1], "started": started}]
    write_index(folder, run, [head, ["phase", 0, "warm", "train", "running", None], brain(), ["end", "finished"]])
    return folder


def test_an_index_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Where a file stands in the way the error names the index."""
    (tmp_path / "brains").write_text("")

    with pytest.raises(StoreError, match="cannot be written"):
        write_index(tmp_path / "brains", "farm-1", [brain()])


WHOLE = {"format": 1, "run": "", "uid": "", "status": "", "started": "", "phases": {}, "models": []}
LEADS = {"phase": 0, "agent": "a", "tag": "", "sha256": ""}
CHANGED: list[dict[str, Any]] = [{"format": 2}, {"run": 1}, {"phases": {"x": ""}}, {"phases": []}]
CHANGED += [{"models": [{**LEADS, "path": path}]} for path in ("../x", "/x")]
DAMAGED = ["", "[]", "{}", *(json.dumps(WHOLE | changed) for changed in CHANGED)]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_index_is_refused_by_name(tmp_path: Path, text: str) -> None:
    """What is no index, or leads out of its folder, is refused with the path of the file."""
    (tmp_path / INDEX).write_text(text)

    with pytest.raises(StoreError, match=f"{tmp_path / INDEX}: the file is damaged"):
        read_index(tmp_path)


def test_folders_of_models_in_a_directory(tmp_path: Path) -> None:
    """A directory has an index, is the folder of a run, or holds many of both: these by start; all else is skipped."""
    late = indexed(tmp_path / "results" / "farm-1" / "brains", "farm-1", "2026-02-02")
    early = indexed(tmp_path / "results" / "farm-2", "farm-2", "2026-02-01")
    (tmp_path / "results" / "notes").mkdir()

    assert ([late], True) == _places(late)
    assert ([late], True) == _places(late.parent)
    assert ([early, late], False) == _places(tmp_path / "results")
    assert ([late], False) == _places(tmp_path / "results", "farm-1")
    assert ([early, late], False) == _places(tmp_path / "results", "../results")
    assert ([], False) == _places(tmp_path / "results" / "notes")
    assert ([], False) == _places(tmp_path / "nowhere")


def _places(folder: Path, run: str | None = None) -> tuple[list[Path], bool]:
    found, single = model_folders(folder, run)
    return [one.folder for one in found], single


def test_a_folder_is_reserved_once(tmp_path: Path) -> None:
    """A second run of the same id gets a folder of its own; nothing is overwritten, nor is damage taken for another."""
    kept = tmp_path / "kept"
    names = [reserve(kept, "farm-1", tmp_path / results).name for results in "abcba"]

    assert ["farm-1", "farm-1+2", "farm-1+3", "farm-1+2", "farm-1"] == names
    for name in names:
        indexed(tmp_path / "kept" / name)
    assert 3 == len(model_folders(tmp_path / "kept", "farm-1")[0])
    (kept / "farm-1" / INDEX).write_text("[]")
    with pytest.raises(StoreError, match="the file is damaged"):
        reserve(kept, "farm-1", tmp_path / "a")


def test_a_copy_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A target that is no folder, and a source that is no model, are errors by name."""
    Models(tmp_path / "a").save({"w": np.arange(3)})
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        copy_model(files_of(tmp_path / "a"), tmp_path / "file" / "b")
    (tmp_path / "a" / "model.npz").write_bytes(b"boo")
    with pytest.raises(StoreError, match="damaged or no model"):
        copy_model(files_of(tmp_path / "a"), tmp_path / "b")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_folder_for_another_user(tmp_path: Path) -> None:
    """The folder of a model goes to who writes it; those above it may be passed through, and are ours."""
    (tmp_path / "brains").mkdir(mode=0o700)
    for _ in range(2):
        hand_over(tmp_path / "brains", "0/ada", "nobody")

    found = [(tmp_path / "brains" / way).stat() for way in (".", "0", "0/ada")]
    assert [0o711, 0o711, 0o700] == [stat.S_IMODE(status.st_mode) for status in found]
    assert [0, 0, pwd.getpwnam("nobody").pw_uid] == [status.st_uid for status in found]
    with pytest.raises(KeyError):
        hand_over(tmp_path / "brains", "0/bob", "no-such-one")


# -- model store ------------------------------------------------------------------------------------------------------
DUMMY = PluginPlan("dummy")
UNSET: Any = {}


def agent(load: Any = None, name: str = "ada", **more: Any) -> AgentPlan:
    """Return an agent with a brain."""
    return AgentPlan(name, DUMMY, DUMMY, DUMMY, [], [], load=load, load_at="run.yml:3:4: a.load", **more)


def plan(folder: Path, *agents: AgentPlan, phases: int = 3) -> Plan:
    """Return a run of `farm` with these agents in every phase; its document lies in a folder."""
    made = [
        PhasePlan(i, f"phase {i}", [EnvironmentPlan("hill", DUMMY)], list(agents), DUMMY, [], []) for i in range(phases)
    ]
    return Plan("farm", "farms", "1", made, folder=str(folder))


def save(folder: Path, value: int = 1) -> list[dict[str, Any]]:
    """Save a model with a policy; return its files."""
    models = Models(folder)
    models.save({"w": np.full(2, value)})
    models.save_value({"w": value}, "policy")
    return models.written()


class Kept:
    """Results as earlier runs have left them, with the rows of a store."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.runs: list[dict[str, Any]] = []
        self.phases: list[dict[str, Any]] = []
        self.brains: list[dict[str, Any]] = []
        self.opened: list[str] = []

    def run(self, run: str, uid: str, status: str = "finished", agents: str = "ada", phases: int = 1) -> None:
        """Let a run have left models."""
        records: list[Any] = [["run", {"uid": uid, "experiment": uid, "started": f"2026-01-{len(self.runs) + 1:02}"}]]
        self.runs.append({"run": run, "uid": uid, "status": status})
        for phase in range(phases):
            records.append(["phase", phase, f"phase {phase}", "train", "finished", None])
            self.phases.append({"run": run, "phase": phase, "name": f"phase {phase}"})
            for name in agents.split():
                folder = self.results / run / "brains" / str(phase) / name
                for file in save(folder, 10 * len(self.runs) + phase):
                    row = [file["bytes"], file["sha256"], file["path"]]
                    records.append(["brain", phase, name, file["tag"], 1, 1, "", *row])
                    self.brains.append({"run": run, "phase": phase, "agent": name, **file})
        write_index(self.results / run / "brains", run, [*records, ["end", status, "", ""]])

    # -- as a store ---------------------------------------------------------------------------------------------------
    def reader(self, uri: str) -> Kept:
        """Open the store."""
        self.opened.append(uri)
        if "gone" in uri:
            raise StoreError("there is no store here")
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def rows(self, table: str, runs: Sequence[str] = (), columns: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield rows of a table."""
        rows: list[dict[str, Any]] = getattr(self, table)
        return ({c: row[c] for c in columns} for row in rows if not runs or row["run"] in runs)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """Return an empty folder of results."""
    return Kept(tmp_path / "results")


@pytest.fixture
def found(tmp_path: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that looks for a model, and says where it is below the folder of the test."""
    monkeypatch.setattr(registry, "load", lambda kind, scheme: kept)

    def look(load: Any, store: str | None = None, own: dict[tuple[int, str], str] = UNSET, **more: Any) -> str | None:
        mine = agent(load, **more)
        run = plan(tmp_path, mine)
        it = ModelStore(run, "farm-9", str(kept.results / "farm-9"), store, warnings.append)
        folder = it.model(run.phases[2], mine, own)
        return None if folder is None else str(Path(folder).relative_to(tmp_path))

    warnings: list[str] = []
    look.warnings = warnings  # type: ignore[attr-defined]
    return look  # type: ignore[return-value]


BY_KEYS = [
    ({"experiment_run": "crop"}, "results/crop-2/brains/1/ada"),
    ({"experiment_run": "crop", "phase": "phase 0"}, "results/crop-2/brains/0/ada"),
    ({"experiment_run": "crop", "agent": "bob"}, "results/crop-2/brains/1/bob"),
    ({"instance": "crop-1", "phase": 0}, "results/crop-1/brains/0/ada"),
    ({"instance": "crop-3"}, "results/crop-3/brains/0/ada"),
    ({"experiment_run": "farm"}, "results/farm-1/brains/0/ada"),
]


@pytest.mark.parametrize("store", [None, "fake://here"])
@pytest.mark.parametrize(("load", "place"), BY_KEYS)
def test_other_runs(found: Any, kept: Kept, load: Any, place: str, store: str | None) -> None:
    """Store and folders give the same: the newest finished run, its last phase, unless keys say otherwise."""
    kept.run("crop-1", "crop", agents="ada bob", phases=2)
    kept.run("crop-2", "crop", agents="ada bob", phases=2)
    kept.run("farm-1", "farm")
    kept.run("crop-3", "crop", "interrupted")
    kept.run("farm-9", "farm", "running")  # the one that looks

    assert place == found(load, store)


def test_results_that_were_moved_are_found(found: Any, kept: Kept) -> None:
    """Paths in the store may be those of a time when the results lay elsewhere."""
    kept.run("crop-1", "crop")
    for row in kept.brains:
        row["path"] = "/old/place/" + row["path"].partition("results/")[2]

    assert "results/crop-1/brains/0/ada" == found({"experiment_run": "crop"}, "fake://here")


BASES = [
    ("results", {}, "results/farm-1/brains/0/ada"),
    ("results/crop-1", {}, "results/crop-1/brains/0/ada"),  # who points at one run means that run
    ("results/crop-1/brains", {"phase": 0}, "results/crop-1/brains/0/ada"),
    ("results/crop-1/brains/0", {}, "results/crop-1/brains/0/ada"),  # a folder of agents, without an index
    ("results/crop-1/brains/0", {"agent": "bob"}, "results/crop-1/brains/0/bob"),
    ("results/crop-1/brains/0/bob", {}, "results/crop-1/brains/0/bob"),  # the model itself
    ("fake://here", {"experiment_run": "crop"}, "results/crop-1/brains/0/ada"),
]


@pytest.mark.parametrize(("base", "load", "place"), BASES)
def test_a_base_may_be_many_things(found: Any, kept: Kept, base: str, load: Any, place: str) -> None:
    """A base is a folder of runs, of one run, of agents, that of a model, or a store."""
    kept.run("crop-1", "crop", agents="ada bob")
    kept.run("farm-1", "farm")

    assert place == found({"base": base, **load})


def test_paths_begin_at_the_document(tmp_path: Path, found: Any, kept: Kept) -> None:
    """Relative paths, that of a SQLite store too, do not depend on where the program was started."""
    kept.run("crop-1", "crop")
    for uri in ("sqlite:///a/b.db", "sqlite:////a/b.db", "fake://a"):
        found({"base": uri, "experiment_run": "crop"})

    assert [f"sqlite:///{tmp_path}/a/b.db", "sqlite:////a/b.db", "fake://a"] == kept.opened


MISSING = [
    (
        {"experiment_run": "corn", "base": "none"},
        ["in base {0}/none: there is no such directory", "in models {0}/empty: it holds no models of a run",
         "in the store fake://host/x: there is no run of `corn`",
         "in the results {0}/results: there is no run of `corn`"],
    ),
    ({"phase": 0}, ["in this run: phase 0 of this run has left no model of it"]),
    (
        {"experiment_run": "crop", "agent": "bob", "base": "fake://gone"},
        ["in base fake://gone: there is no store here", "in models {0}/empty: it holds no models of a run",
         "in the store fake://host/x: run crop-1 has no model of agent `bob`",
         "in the results {0}/results: run crop-1 has no model of agent `bob`"],
    ),
    (
        {"base": "empty", "phase": 0},
        ["in base {0}/empty: it says nothing of runs and phases: there is no `models.json` in it or in a folder of it",
         "in this run: phase 0 of this run has left no model of it"],
    ),
    (
        {"base": "empty"},
        ["in base {0}/empty: there is no model.npz in {0}/empty/ada nor in it",
         "in this run: no earlier phase of this run has left a model of it"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("load", "lines"), MISSING)
def test_what_is_nowhere_is_told_with_the_places(
    tmp_path: Path, found: Any, kept: Kept, load: Any, lines: list[str]
) -> None:
    """The fault has the place in the document and a line for each place that was looked at; no password is in it."""
    kept.run("crop-1", "crop")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DocumentError) as caught:
        found(load, "fake://me:secret@host/x", models="empty")
    first, *rest = str(caught.value).splitlines()

    assert first.startswith("run.yml:3:4: a.load: the model of agent `")
    assert [f"  {line}".replace("{0}", str(tmp_path)) for line in lines] == rest
    assert found({**load, "optional": True}, "fake://me:secret@host/x", models="empty") is None
    (warning,) = found.warnings
    assert rest == warning.splitlines()[1:]


BEFOREHAND = [
    ({"experiment_run": "crop"}, 0),
    ({"experiment_run": "corn"}, 3),
    ({"experiment_run": "corn", "optional": True}, 0),
    ({"experiment_run": "farm"}, 1),  # the later phases may take it from the first
    ({"instance": "crop-7"}, 1),  # may be the id of this run
    ({"instance": "crop-7", "agent": "bob"}, 3),
    ({"instance": "crop-7", "phase": 1}, 2),
    ({"base": "results/crop-1"}, 0),
    ({"base": "nowhere", "experiment_run": "crop"}, 0),
    (False, 0),
    (None, 0),
]


@pytest.mark.parametrize(("load", "faults"), BEFOREHAND)
def test_models_that_are_nowhere_are_told_beforehand(tmp_path: Path, kept: Kept, load: Any, faults: int) -> None:
    """Each phase whose `load` no place can serve is a fault at that key; what the run itself may leave is not."""
    kept.run("crop-1", "crop")
    found = list(ModelStore(plan(tmp_path, agent(load)), "", str(kept.results / "-"), None, print).faults())

    assert [("run.yml:3:4: a.load", True)] * faults == [(at, "was not found" in text) for at, text in found]


@pytest.mark.parametrize("store", [None, "fake://here"])
def test_a_damaged_model_is_refused_by_name(found: Any, kept: Kept, store: str | None) -> None:
    """A file that is not what was stored ends the search, also where the model is optional."""
    kept.run("crop-1", "crop")
    file = kept.results / "crop-1" / "brains" / "0" / "ada" / "model-policy.npz"
    file.write_bytes(file.read_bytes()[:-1])

    with pytest.raises(StoreError, match=f"run.yml:3:4: a.load: model of agent `ada`: {file}: .* damaged"):
        found({"experiment_run": "crop", "optional": True}, store)


# -- what this run stores ---------------------------------------------------------------------------------------------


def test_a_folder_that_was_made_in_vain_is_taken_away(tmp_path: Path) -> None:
    """A second directory of models in which nothing was stored is left as it was; what others have put there stays."""
    mine = agent(models="kept")
    for left in ([], ["letter", "models.json"]):
        it = ModelStore(plan(tmp_path, mine), "farm-1", str(tmp_path / "farm-1"), None, print)
        folder = Path(it.second_folder(mine))
        if left:
            (folder / "letter").touch()
        it.close()

        assert left == sorted(path.name for path in folder.glob("*"))
        assert bool(left) == folder.exists()


def test_a_successor_writes_the_index_of_a_second_directory(tmp_path: Path) -> None:
    """The records of phases and models are enough: the run's folder there is found by its index."""
    mine = agent(models="kept")
    first, later = (ModelStore(plan(tmp_path, mine), "farm-1", str(tmp_path / "farm-1"), None, print) for _ in "12")
    folder = Path(first.second_folder(mine))
    first.take(["phase", 0, "warm", "train", "finished", None])
    first.take(["brain", 0, "ada", "", 1, 3, "", 8, "00", str(tmp_path / "farm-1/brains/0/ada/model.npz")])
    for row in [*first.note(), ["end", "finished"]]:
        later.take(row)
    later.flush()
    later.close()
    found = read_index(folder)

    assert found is not None
    assert ("finished", [folder / "0/ada/model.npz"]) == (found.status, [model.path for model in found.models])


def test_a_folder_that_cannot_be_made_is_a_fault(tmp_path: Path) -> None:
    """A file in the place of the second directory is told with the place in the document."""
    (tmp_path / "kept").write_text("")
    mine = agent(models="kept", models_at="run.yml:3:9: a.models")
    it = ModelStore(plan(tmp_path, mine), "farm-1", str(tmp_path / "farm-1"), None, print)

    with pytest.raises(DocumentError, match=r"run\.yml:3:9: a\.models: .* cannot be written"):
        it.second_folder(mine)
