from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion import registry
from ganglion.errors import DocumentError, StoreError
from ganglion.peer import deposit
from ganglion.peer.library import Library
from ganglion.peer.shelf import copy_model
from ganglion.peer.vault import Vault, is_store
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.sdk.models import Models

DUMMY = PluginPlan("dummy")


def agent(models: str | None = None, load: Any = None, **more: Any) -> AgentPlan:
    """Return an agent with a brain."""
    places = {"load_at": "run.yml:3:4: a.load", "models_at": "run.yml:2:4: a.models"}
    return AgentPlan("ada", DUMMY, DUMMY, DUMMY, [], [], load=load, models=models, **places, **more)


def plan(folder: Path, who: AgentPlan, uid: str = "farm") -> Plan:
    """Return a run of two phases with one agent; its document lies in a folder."""
    hill = [EnvironmentPlan("hill", DUMMY)]
    phases = [PhasePlan(i, f"phase {i}", hill, [who], DUMMY, [], []) for i in range(2)]
    return Plan(uid, uid, "1", phases, folder=str(folder))


def vault(folder: Path, who: AgentPlan, store: str | None = None, again: bool = False) -> Vault:
    """Return the vault of run `farm-1`."""
    return Vault(plan(folder, who), "farm-1", store, folder / "results/farm-1/brains", print, again)


# -- directories and stores alike -------------------------------------------------------------------------------------


class Farm:
    """Carry out runs whose agent keeps its models in a second place, and loads from there.

    `models` is that place as a document has it; the run's own store lies beside the results.
    """

    def __init__(self, folder: Path, models: str) -> None:
        self.folder, self.models = folder, models
        self.store = f"sqlite:///{folder}/results/ganglion.db"
        (folder / "results").mkdir()

    def run(self, run: str, value: float, status: str = "finished", again: bool = False) -> None:
        """Let a run leave a model with a policy, once, and remove its folder: only the second place is left."""
        who, results = agent(self.models), self.folder / "results" / run
        library = Library(plan(self.folder, who), run, str(results), self.store, print, again)
        writer = registry.load("store", "sqlite").writer(self.store, run, resume=again)
        assert library.model(library._plan.phases[0], who, {}) is None
        shelf = library.shelf(who)
        files = self._learn(results / "brains/0/ada", value)
        if shelf is not None:
            copy_model([Path(row["path"]) for row in files], Path(shelf) / "0/ada")
        head = {"uid": "farm", "experiment": "f", "seed": "1", "started": f"2026-{value}"}
        rows = [[row["tag"], 1, 1, "", row["bytes"], row["sha256"], row["path"]] for row in files]
        records = [["run", head], ["phase", 0, "phase 0", "train", "finished", None]]
        records += [*(["brain", 0, "ada", *row] for row in rows), ["end", status, "", ""]]
        for record in records:
            library.take(record)
            deposit.apply(writer, f"{run}/governor", [library.marked(record)], trusted=True)
        library.flush()
        library.close()
        writer.close()
        shutil.rmtree(results)

    def _learn(self, folder: Path, value: float) -> list[dict[str, Any]]:
        models = Models(folder)
        models.save({"w": np.full((300, 300), value)}, meta={"of": value})
        models.save_value({"step": value}, "policy")
        return models.written()

    def load(self, run: str = "farm-9", load: Any = None) -> tuple[float, float]:
        """Return the value in the model that another run begins with, and in its policy."""
        who = agent(self.models, load={"experiment_run": "farm"} if load is None else load)
        results = self.folder / "results" / run
        library = Library(plan(self.folder, who, "other"), run, str(results), self.store, print)
        folder = library.model(library._plan.phases[1], who, {})
        library.close()
        assert folder is not None
        found = Models(folder)
        assert (300, 300) == found.load()["w"].shape
        assert {"of": found.load()["w"][0, 0]} == found.meta()
        return found.load()["w"][0, 0], found.load("policy")["step"]

    def damage(self) -> None:
        """Change a byte of every model in the second place."""
        for path in (self.folder / "kept").rglob("model.npz"):
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        for path in self.folder.rglob("*.db"):
            with contextlib.closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE stored_pieces SET data = zeroblob(length(data))")


@pytest.fixture(params=["kept", "sqlite:///kept.db", "store"])
def farm(request: pytest.FixtureRequest, tmp_path: Path) -> Farm:
    """Return a farm whose second place is a directory, a store of its own, the runs' own store."""
    return Farm(tmp_path, request.param)


def test_a_model_comes_back_without_its_folder(farm: Farm) -> None:
    """All of it does, with every tag; of the newest finished run, or of the one that is named; as often as wanted."""
    farm.run("farm-1", 1.5)
    farm.run("farm-2", 2.5)
    farm.run("farm-3", 3.5, "interrupted")

    assert (2.5, 2.5) == farm.load()
    assert (3.5, 3.5) == farm.load("farm-8", {"instance": "farm-3"})
    assert (2.5, 2.5) == farm.load()


def test_a_damaged_model_is_refused(farm: Farm) -> None:
    """It is named with the place in the document that asked for it; nothing else is loaded instead."""
    farm.run("farm-1", 1.5)
    farm.damage()
    with pytest.raises(StoreError, match=r"run\.yml:3:4: a\.load: model of agent `ada`: .*damaged"):
        farm.load()


def test_what_was_never_kept_is_not_found(farm: Farm) -> None:
    """What is looked for is told with every place, and why it is not there."""
    farm.run("farm-1", 1.5)
    with pytest.raises(DocumentError) as caught:
        farm.load(load={"experiment_run": "barn"})

    assert "there is no run of `barn`" in str(caught.value)
    assert "run.yml:3:4" in str(caught.value)


def test_a_run_that_goes_on_keeps_its_models_once(farm: Farm) -> None:
    """What is told again by who goes on is the same model."""
    farm.run("farm-1", 1.5)
    if is_store(farm.models):
        farm.run("farm-1", 1.5, again=True)
        for path in farm.folder.rglob("*.db"):
            with contextlib.closing(sqlite3.connect(path)) as connection:
                assert 2 >= connection.execute("SELECT count(*) FROM stored_models").fetchone()[0]
                assert 2 == connection.execute("SELECT count(*) FROM stored_brains").fetchone()[0]

    assert (1.5, 1.5) == farm.load()


def test_a_database_is_enough(tmp_path: Path) -> None:
    """A copy of the store in another folder gives the model as `base`; what it names lies in the loader's folder."""
    farm = Farm(tmp_path, "store")
    farm.run("farm-1", 1.5)
    (tmp_path / "far").mkdir()
    (tmp_path / "results/ganglion.db").rename(tmp_path / "far/copy.db")

    load = {"experiment_run": "farm", "base": "sqlite:///far/copy.db"}
    assert (1.5, 1.5) == farm.load("farm-9", load)
    assert ["model-policy.npz", "model.npz"] == sorted(
        path.name for path in (tmp_path / "results/farm-9/brains/loaded/1/ada").iterdir()
    )


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE stored_brains SET path = '/etc/passwd'",
        "UPDATE stored_brains SET path = '/r/brains/0/ada/../../../../x'",
        "UPDATE stored_brains SET path = '/r/brains/0/ada/model.npz' WHERE tag = 'policy'",
        "UPDATE stored_brains SET path = NULL",
        "UPDATE stored_brains SET tag = x'00'",
        "UPDATE stored_brains SET sha256 = 7",
        "UPDATE stored_brains SET sha256 = '../../../../tmp/x'",
        "UPDATE stored_brains SET tag = '../../x' WHERE tag = 'policy'",
    ],
)
def test_rows_of_a_hostile_database_lead_nowhere(tmp_path: Path, statement: str) -> None:
    """A path or a tag that leaves its folder, and what is no text, is told; nothing is read or written there."""
    farm = Farm(tmp_path, "store")
    farm.run("farm-1", 1.5)
    before = {path for path in tmp_path.rglob("*") if not path.name.startswith("ganglion.db")}
    with contextlib.closing(sqlite3.connect(tmp_path / "results/ganglion.db")) as connection, connection:
        connection.execute(statement)
    with pytest.raises(DocumentError, match=r"in the store sqlite:///.*(expected|is no SHA-256)"):
        farm.load()

    assert before == {path for path in tmp_path.rglob("*") if not path.name.startswith("ganglion.db")}


# -- which store ------------------------------------------------------------------------------------------------------


def test_what_a_store_is() -> None:
    """The word `store` and URIs mean stores; everything else is a directory, `./store` too."""
    assert all(map(is_store, ["store", "sqlite:///m.db", "other://host/x"]))
    assert not any(map(is_store, [None, "kept", "./store", "/srv/store"]))


def test_the_runs_own_store_is_known_by_its_file(tmp_path: Path) -> None:
    """A URI that names the run's own store means what `store` does: there is one writer of a run."""
    own = f"sqlite:///{tmp_path}/results/ganglion.db"
    (tmp_path / "link").symlink_to(tmp_path)
    for models in ("store", own, "sqlite:///results/ganglion.db", "sqlite:///link/results/ganglion.db"):
        assert vault(tmp_path, agent(models), own).second(agent(models)) is None
    assert f"sqlite:///{tmp_path}/m.db" == vault(tmp_path, agent(), own).second(agent("sqlite:///m.db"))


@pytest.mark.parametrize(
    ("models", "store", "text"),
    [
        ("store", None, "`store` is the run's own, and this run has none"),
        ("nosuch:///x", None, "nosuch"),
        ("sqlite:///none/m.db", None, "there is no folder"),
        ("sqlite:///text.db", None, "not a database"),
    ],
)
def test_stores_are_looked_at_before_anybody_is_started(
    tmp_path: Path, models: str, store: str | None, text: str
) -> None:
    """A store that cannot take models is a fault of the document, at its place; without a brain it is not needed."""
    (tmp_path / "text.db").write_text("no database at all" * 100)
    with pytest.raises(DocumentError, match=rf"run\.yml:2:4: a\.models: models of agent `ada`: .*{text}"):
        vault(tmp_path, agent(models), store).check()

    nobody = AgentPlan("ada", DUMMY, None, DUMMY, [], [], models=models)
    vault(tmp_path, nobody, store).check()


def test_a_model_that_lies_elsewhere_is_not_kept(tmp_path: Path) -> None:
    """Where a brain says that it has stored into another place, its record is not marked, and the run is told."""
    it = vault(tmp_path, agent("store"), "sqlite:////x/ganglion.db")
    record = ["brain", 0, "ada", "", 1, 1, "", 1, "0" * 64, "/etc/passwd"]
    it.take(record)

    assert record == it.marked(record)
    with pytest.raises(StoreError, match="its brain says '/etc/passwd'"):
        it.flush()


def test_only_models_for_the_own_store_are_marked(tmp_path: Path) -> None:
    """Records of other kinds, of directories and of other stores go to the run's store as they are."""
    path = f"{tmp_path}/results/farm-1/brains/0/ada/model.npz"
    record = ["brain", 0, "ada", "", 1, 1, "", 1, "0" * 64, path]
    own = "sqlite:////x/ganglion.db"

    assert [*record, True] == vault(tmp_path, agent("store"), own).marked(record)
    for models in (None, "kept", "sqlite:///m.db"):
        assert record == vault(tmp_path, agent(models), own).marked(record)
    assert ["end"] == vault(tmp_path, agent("store"), own).marked(["end"])


def test_without_any_store_there_are_no_bytes(tmp_path: Path) -> None:
    """Who has no store to ask says so."""
    assert ["no store has its bytes"] == vault(tmp_path, agent()).bring(agent(), None, {}, tmp_path / "f")
