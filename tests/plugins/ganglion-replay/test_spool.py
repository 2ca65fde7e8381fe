from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import StoreError
from ganglion.wire.messages import BrainPretrain
from ganglion_replay import spool as module
from ganglion_replay.spool import INDEX, Spool, read_chunk, read_index

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
