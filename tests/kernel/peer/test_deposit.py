from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import StoreError
from ganglion.limits import MODEL_PIECE_BYTES
from ganglion.peer import deposit
from ganglion.peer.deposit import apply, pieces_of


class FakeWriter:
    """Keep what is put and applied, in its order."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def put_model(self, sha256: str, size_bytes: int, opened: Any) -> None:
        """Take a model."""
        self.log.append(("put", sha256, size_bytes, b"".join(opened())))

    def apply(self, writer: str, records: Any) -> None:
        """Take records."""
        self.log.append((writer, [record[0] for record in records]))


def brain(path: Path, *more: Any) -> list[Any]:
    """Return the record of a model that lies there."""
    data = path.read_bytes()
    return ["brain", 0, "a", "", 1, 1, "", len(data), hashlib.sha256(data).hexdigest(), str(path), *more]


def test_models_come_before_their_rows(tmp_path: Path) -> None:
    """Each file that a batch marks is put between what comes before its row and the row; others stay where they are."""
    (tmp_path / "one.npz").write_bytes(b"one")
    (tmp_path / "two.npz").write_bytes(b"two")
    writer: Any = FakeWriter()
    records = [["phase", 0], brain(tmp_path / "one.npz", True), brain(tmp_path / "two.npz")]
    records += [brain(tmp_path / "two.npz", None)]
    apply(writer, "r/governor", records, trusted=True)

    first, put, rest = writer.log
    assert (("r/governor", ["phase"]), ("r/governor", ["brain"] * 3)) == (first, rest)
    assert ("put", hashlib.sha256(b"one").hexdigest(), 3, b"one") == put


def test_nobody_else_names_files(tmp_path: Path) -> None:
    """The mark of who is not trusted to name files of this machine has no effect."""
    (tmp_path / "one.npz").write_bytes(b"one")
    writer: Any = FakeWriter()
    apply(writer, "r/controller/0", [brain(tmp_path / "one.npz", True)], trusted=False)

    assert [("r/controller/0", ["brain"])] == writer.log


def test_a_file_comes_in_pieces(tmp_path: Path) -> None:
    """No piece is larger than a store takes; an empty file has none."""
    data = b"x" * MODEL_PIECE_BYTES + b"rest"
    (tmp_path / "m").write_bytes(data)
    (tmp_path / "e").touch()

    assert [data[:-4], b"rest"] == list(pieces_of(tmp_path / "m"))
    assert [] == list(pieces_of(tmp_path / "e"))


def test_only_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links, pipes, folders, what is gone, and what is larger than a model may be are refused by name."""
    (tmp_path / "m").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "m")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    cases = {
        "link": "symbolic links",
        "pipe": "something else",
        "folder": "directory",
        "none": "No such",
    }
    for name, text in cases.items():
        with pytest.raises(StoreError, match=f"{name}: .*{text}"):
            list(pieces_of(tmp_path / name))
    monkeypatch.setattr(deposit, "model_file_bytes", lambda: 5)
    with pytest.raises(StoreError, match=r"at most 5 bytes \(model_bytes\), found 6"):
        list(pieces_of(tmp_path / "m"))
