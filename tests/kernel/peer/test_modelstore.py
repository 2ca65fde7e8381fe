from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ganglion import registry
from ganglion.document import load_document
from ganglion.errors import RemoteProtocolError, StoreError
from ganglion.peer.journal.write import JournalDiffers
from ganglion.peer.modelstore import BusModelStore
from ganglion.sdk import Models
from ganglion.supervisor.nodes import is_lent, piece_of, write_piece
from ganglion.wire.messages import Done, ModelAsked, ModelKept


class Supervisor:
    """Answer as the supervisor does whose machine has the folder; count what was asked for."""

    def __init__(self, damage: bytes = b"") -> None:
        self.pieces = 0
        self.gone = False  # whether all was done before, by a predecessor
        self._damage = damage

    def ask_beside(self, call: str, message: Any, span_s: float | None) -> Any:
        """Give or take a piece."""
        if self.gone:
            return None
        if call == "kernel.keep":
            write_piece(Path(message.folder), message)
            return Done()
        found = piece_of(message)
        self.pieces += bool(message.name)
        return type(found)(found.files, found.data + (self._damage if message.name else b""))


def model(folder: Path, size: int) -> str:
    """Write a model of so many numbers."""
    Models(folder).save({"weights": range(size)})
    return str(folder)


def store(node: Path, supervisor: Supervisor) -> BusModelStore:
    """Return the ways of a process with that node."""
    return BusModelStore(node, lambda: supervisor)  # type: ignore[arg-type,return-value]


def test_a_model_is_fetched_once_and_a_successor_finds_it(tmp_path: Path) -> None:
    """Pieces make the same file; what is there by its digest is not asked for again, and nothing by who hears again."""
    there, supervisor = model(tmp_path / "there", 200_000), Supervisor()
    here = store(tmp_path / "node", supervisor).read(there)
    asked = supervisor.pieces
    again = store(tmp_path / "node", supervisor).read(there)
    supervisor.gone = True

    assert [here, here] == [again, store(tmp_path / "node", supervisor).read(there)]
    assert asked == supervisor.pieces == 4
    assert Path(there, "model.npz").read_bytes() == Path(here, "model.npz").read_bytes()
    with pytest.raises(JournalDiffers, match="not on this node"):
        store(tmp_path / "other", supervisor).read(there)


def test_what_was_damaged_on_its_way_is_no_model(tmp_path: Path) -> None:
    """A file with another digest than was told is refused by name, and not kept."""
    there = model(tmp_path / "there", 10)

    with pytest.raises(StoreError, match="received another one"):
        store(tmp_path / "node", Supervisor(b"?")).read(there)
    assert [] == [*(tmp_path / "node" / "blobs").iterdir()]


def test_a_stored_model_is_there_whole_and_by_its_path(tmp_path: Path) -> None:
    """Rows of what was written lead to where results are; what is sent twice is there once."""
    ways = store(tmp_path / "node", Supervisor())
    own = Models(ways.write("/results/brains/0/ada"))
    own.save({"weights": range(200_000)})
    rows = own.written()
    for _ in range(2):
        (row,) = ways.stored(rows, str(tmp_path / "brains"))

    assert f"{tmp_path}/brains/model.npz" == row["path"]
    assert Path(rows[0]["path"]).read_bytes() == Path(row["path"]).read_bytes()
    assert ["model.npz"] == [file.name for file in (tmp_path / "brains").iterdir()]


def test_what_is_stored_must_be_what_was_announced(tmp_path: Path) -> None:
    """A file with another digest is refused by name, and nothing of it stays."""
    kept = ModelKept(str(tmp_path), "model.npz", "0" * 64, 3, 0, b"abc")

    with pytest.raises(StoreError, match="expected SHA-256 0000"):
        write_piece(tmp_path, kept)
    assert [] == [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["../model.npz", "secret.txt", "model/../../x.npz"])
def test_nothing_but_models_is_read(tmp_path: Path, name: str) -> None:
    """Whoever asks for the file of another name is refused."""
    (tmp_path / "secret.txt").write_text("word")

    with pytest.raises(RemoteProtocolError, match="expected the name of a model"):
        piece_of(ModelAsked(str(tmp_path), name))


DOCUMENT = """
uid: farm
seed: 5
version: "0.1"
schedule:
  - first:
      environments: [environment: {uid: hut, name: counting}]
      agents:
        - {name: ada, muscle: dummy, brain: dummy, load: {base: ../base}, models: kept, sensors: ["hut.*"],
           actuators: ["hut.*"]}
      phase_config: {mode: train, worker: 1, episodes: 1}
run_config: {condition: vanilla}
"""


@pytest.mark.parametrize(
    ("folder", "lent"),
    [
        ("/any/results/farm-1/brains/0/ada", True),
        ("here/../base/old/0/ada", True),
        ("here/kept/farm-1/0/ada", True),
        ("here/../base/../secret", False),
        ("/any/results/../brains/0/ada", False),
        ("here/keptelsewhere/ada", False),
        ("/any/results/farm-1/brains/zero/ada", False),
        ("brains/0/ada", False),
        ("/root", False),
        ("", False),
    ],
)
def test_a_folder_is_lent_that_a_run_keeps_or_the_document_names(tmp_path: Path, folder: str, lent: bool) -> None:
    """Models are lent from folders of runs, and below `base` and `models` of the document, and from nowhere else."""
    here = tmp_path / "here"
    plan = load_document(str(here / "farm.yml"), plugins=registry, text=DOCUMENT)[0]

    assert lent == is_lent(plan, folder.replace("here", str(here)))
