from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion import registry
from ganglion.errors import GanglionError, PluginInvalid, StoreError
from ganglion.peer.depot import Depot, kind_of, marked, place_of
from ganglion.sdk.models import Models
from ganglion.sdk.store import Store

RUN = ["run", {"uid": "farm", "experiment": "f", "seed": "1", "started": "2026", "document": "uid: farm\n"}]
PHASE = ["phase", 0, "first", "train", "running", None]
END = ["end", "finished", "completed", "2026"]
Brain = Callable[..., list[Any]]


@pytest.fixture
def brain(tmp_path: Path) -> Brain:
    """Return what saves a model of ada, and returns its marked record."""

    def save(phase: int = 0, value: int = 1) -> list[Any]:
        models = Models(tmp_path / "brains" / str(phase) / "ada")
        models.save({"w": [value]})
        (row,) = models.written()
        record = ["brain", phase, "ada", "", 1, 1, "", row["bytes"], row["sha256"], row["path"]]
        return marked(record, place_of(tmp_path / "brains", record, "ada"))

    return save


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Return the URI of a store that is not there yet."""
    return f"sqlite:///{tmp_path}/models.db"


def told(uri: str) -> tuple[list[Any], ...]:
    """Return runs, phases and models of a store, these with their bytes."""
    with registry.load("store", "sqlite").reader(uri) as reader:
        runs = [(row["run"], row["uid"], row["status"]) for row in reader.rows("runs")]
        phases = [(row["phase"], row["name"], row["status"]) for row in reader.rows("phases")]
        shas = [row["sha256"] for row in reader.rows("brains")]
        return runs, phases, [b"".join(reader.model(sha256)) for sha256 in shas]


def test_a_depot_is_a_small_store(uri: str, brain: Brain, tmp_path: Path) -> None:
    """It has what `load` needs: the run, its phases and its models with their bytes; other records are skipped."""
    depot = Depot(uri, "farm-1")
    empty = depot.is_empty
    for record in (RUN, PHASE, ["incident", "now", "x", 1, "lost", None, None], brain(), END):
        depot.take(record)
    depot.flush()
    depot.close()

    data = (tmp_path / "brains" / "0" / "ada" / "model.npz").read_bytes()
    assert (True, False) == (empty, depot.is_empty)
    assert ([("farm-1", "farm", "finished")], [(0, "first", "running")], [data]) == told(uri)


def test_nothing_is_overwritten(uri: str, brain: Brain) -> None:
    """A run of that id that is there belongs to somebody else, unless this one goes on."""
    for again in (False, True):
        depot = Depot(uri, "farm-1", again)
        for record in (brain(), RUN, PHASE):  # who goes on may hear of models first
            depot.take(record)
        depot.flush()
        depot.close()
    with pytest.raises(StoreError, match="expected a new run, found results of run farm-1"):
        Depot(uri, "farm-1")

    assert 1 == len(told(uri)[2])


def test_others_are_waited_for(uri: str, brain: Brain) -> None:
    """While another run writes the database it is tried again; what was to be written is."""
    other = sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)
    pauses: list[float] = []
    said: list[str] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        other.execute("COMMIT")

    depot = Depot(uri, "farm-1", warn=said.append, sleep=sleep)
    for record in (RUN, PHASE, brain()):
        depot.take(record)
    other.execute("BEGIN IMMEDIATE")
    depot.flush()
    depot.close()
    other.close()

    assert (1, 1, 1) == (len(pauses), len(said), len(told(uri)[2]))
    assert "wait for their store" in said[0]


def test_nobody_is_waited_for_for_ever(uri: str, brain: Brain) -> None:
    """A database that stays locked fails the run by its name."""
    other = sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)
    pauses: list[float] = []
    depot = Depot(uri, "farm-1", sleep=pauses.append)
    for record in (RUN, brain()):
        depot.take(record)
    depot._writer._connection.execute("PRAGMA busy_timeout = 0")  # type: ignore[attr-defined]
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"models of this run: .*models\.db: cannot write"):
        depot.flush()
    other.close()
    depot.close()

    assert 20.0 == sum(pauses)


def test_a_model_that_cannot_be_read_is_named(uri: str, brain: Brain, tmp_path: Path) -> None:
    """A file that is gone, or was changed since its record was made, leaves no row."""
    for change, text in ((Path.unlink, "cannot be read"), (lambda path: path.write_bytes(b"x"), "expected")):
        depot = Depot(uri, "farm-1", again=True)
        depot.take(RUN)
        depot.take(brain())
        change(tmp_path / "brains" / "0" / "ada" / "model.npz")
        with pytest.raises(StoreError, match=f"models of this run: model .*{text}"):
            depot.flush()
        depot.close()
        assert [] == told(uri)[2]


@pytest.mark.parametrize(
    ("path", "tag"),
    [
        ("/etc/passwd", ""),
        ("brains/0/ada/../ada/model.npz", ""),
        ("brains/0/bob/model.npz", ""),
        ("brains/1/ada/model.npz", ""),
        ("brains/0/ada/model.npz", "policy"),
        ("brains/0/ada/model-policy.npz", ""),
    ],
)
def test_a_brain_names_its_own_files_only(tmp_path: Path, path: str, tag: str) -> None:
    """A brain that says that its model lies elsewhere would have that kept: it is refused by name."""
    record = ["brain", 0, "ada", tag, 1, 1, "", 1, "0" * 64, str(tmp_path / path)]
    with pytest.raises(StoreError, match="model of agent `ada`: expected it in"):
        place_of(tmp_path / "brains", record, "ada")


def test_not_every_store_keeps_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that there is not, and one that keeps no models, are refused by name."""
    with pytest.raises((PluginInvalid, GanglionError), match="nosuch"):
        kind_of("nosuch:///x")
    monkeypatch.setattr(registry, "load", lambda kind, scheme: Store)
    with pytest.raises(StoreError, match="keeps the bytes of models; the kind `plain` does not"):
        kind_of("plain:///x")
