from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from ganglion import registry
from ganglion.errors import LimitExceeded, StoreError
from ganglion.peer import fetch as module
from ganglion.peer.fetch import fetch


def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


class FakeStore:
    """Give bytes by digest, as a store that keeps models does; `wrong` are what it gives instead."""

    def __init__(self) -> None:
        self.kept: dict[str, list[bytes]] = {}
        self.asked: list[str] = []

    def keep(self, *pieces: bytes, sha256: str = "") -> str:
        """Keep pieces under their digest, or under another one."""
        key = sha256 or digest(b"".join(pieces))
        self.kept[key] = list(pieces)
        return key

    def reader(self, uri: str) -> Self:
        """Open it."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def model(self, sha256: str) -> Iterator[bytes] | None:
        """Return what is kept."""
        self.asked.append(sha256)
        return iter(self.kept[sha256]) if sha256 in self.kept else None


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> FakeStore:
    """Return the store that is behind every URI."""
    made = FakeStore()
    monkeypatch.setattr(registry, "load", lambda kind, scheme: made)
    return made


def names(folder: Path) -> list[str]:
    """Return what lies in a folder."""
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_files_are_written_as_they_were(store: FakeStore, tmp_path: Path) -> None:
    """Each file has its bytes, under our name; what is there already, as it was, is not asked for again."""
    files = {"model.npz": store.keep(b"one", b"two"), "model-best.npz": store.keep()}
    folder = tmp_path / "loaded" / "0"

    assert fetch("fake:///x", files, folder) is None
    assert (b"onetwo", b"") == ((folder / "model.npz").read_bytes(), (folder / "model-best.npz").read_bytes())
    assert ["model-best.npz", "model.npz"] == names(folder)
    (folder / "model.npz").write_bytes(b"damaged")
    store.asked.clear()
    assert fetch("fake:///x", files, folder) is None
    assert (b"onetwo", [files["model.npz"]]) == ((folder / "model.npz").read_bytes(), store.asked)


def test_what_is_not_kept_is_told(store: FakeStore, tmp_path: Path) -> None:
    """A digest that the store has not, or that is none, is a reason; no folder is made."""
    assert "are not there" in str(fetch("fake:///x", {"model.npz": "0" * 64}, tmp_path / "f"))
    assert "is no SHA-256" in str(fetch("fake:///x", {"model.npz": "../../x"}, tmp_path / "f"))
    assert not (tmp_path / "f").exists()
    assert ["0" * 64] == store.asked


def test_other_bytes_are_refused(store: FakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has another digest, or does not end, is refused by name, and nothing is left of it."""
    wrong = store.keep(b"evil", sha256=digest(b"good"))
    with pytest.raises(StoreError, match=f"{wrong}: the store gave bytes with the digest {digest(b'evil')}"):
        fetch("fake:///x", {"model.npz": wrong}, tmp_path / "f")
    monkeypatch.setattr(module, "model_file_bytes", lambda: 10)
    large = store.keep(*[b"1234"] * 100)
    with pytest.raises(LimitExceeded, match="at most 10 bytes"):
        fetch("fake:///x", {"model.npz": large}, tmp_path / "f")

    assert [] == names(tmp_path / "f")


def test_planted_links_lead_nowhere(store: FakeStore, tmp_path: Path) -> None:
    """A link in the place of a file is replaced, one in the place of the folder is refused."""
    (tmp_path / "victim").write_bytes(b"mine")
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "model.npz").symlink_to(tmp_path / "victim")
    files = {"model.npz": store.keep(b"model")}

    assert fetch("fake:///x", files, folder) is None
    assert (b"mine", False) == ((tmp_path / "victim").read_bytes(), (folder / "model.npz").is_symlink())
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(StoreError, match=r"link/model\.npz: cannot be written"):
        fetch("fake:///x", {"model.npz": store.keep(b"other")}, tmp_path / "link")


def test_a_folder_that_cannot_be_written_is_named(store: FakeStore, tmp_path: Path) -> None:
    """The file that could not be written is named."""
    (tmp_path / "f").write_bytes(b"no folder")
    files: dict[str, Any] = {"model.npz": store.keep(b"model")}
    with pytest.raises(StoreError, match=r"f/model\.npz: cannot be written"):
        fetch("fake:///x", files, tmp_path / "f")
