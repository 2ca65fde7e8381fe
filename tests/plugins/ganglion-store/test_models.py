from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ganglion.sdk.store import MODEL_PIECE_BYTES, StoreError
from ganglion_store import models as module
from ganglion_store.reader import SqlReader
from ganglion_store.store import SqlStore
from ganglion_store.writer import SqlWriter

LARGE = bytes(range(256)) * (MODEL_PIECE_BYTES // 256) * 2 + b"the rest"


def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def cut(data: bytes) -> Callable[[], Iterator[bytes]]:
    """Return what gives bytes from their begin, in pieces."""
    return lambda: (data[at : at + MODEL_PIECE_BYTES] for at in range(0, len(data), MODEL_PIECE_BYTES))


def brain(data: bytes, phase: int = 0, tag: str = "") -> list[Any]:
    """Return the record that tells of a model."""
    path = f"/r/demo-1/brains/{phase}/ada/model.npz"
    return ["brain", phase, "ada", tag, 1, 1, "now", len(data), digest(data), path, True]


def put(writer: SqlWriter, data: bytes, phase: int = 0, tag: str = "") -> None:
    """Keep a model, and its row, in one transaction."""
    writer.put_model(digest(data), len(data), cut(data))
    writer.apply("r/governor", [brain(data, phase, tag)])
    writer.commit()


def kept(uri: str, data: bytes) -> bytes | None:
    """Return the bytes that a store gives back under a digest."""
    with SqlReader(uri) as reader:
        pieces = reader.model(digest(data))
        return None if pieces is None else b"".join(pieces)


def sizes(uri: str) -> tuple[int, int, int]:
    """Return how many models, pieces and references there are."""
    connection = sqlite3.connect(uri.removeprefix("sqlite:///"))
    found = [
        connection.execute(f"SELECT count(*) FROM stored_{name}").fetchone()[0]
        for name in ("models", "pieces", "kept")
    ]
    connection.close()
    return found[0], found[1], found[2]


@pytest.mark.parametrize("data", [b"", b"small", LARGE[:MODEL_PIECE_BYTES], LARGE])
def test_what_is_put_comes_back(writer: SqlWriter, uri: str, data: bytes) -> None:
    """A model of any size comes back as it was, from the transaction on that has its row, also to other processes."""
    writer.put_model(digest(data), len(data), cut(data))
    assert kept(uri, data) is None
    writer.apply("r/governor", [brain(data)])
    writer.commit()

    assert data == kept(uri, data)
    assert kept(uri, b"another") is None


def test_equal_models_rest_once(writer: SqlWriter, uri: str, tell: Any) -> None:
    """What is there is not read again, whichever run brought it; each run keeps it for itself."""

    def never() -> Iterator[bytes]:
        raise AssertionError("it was read again")
        yield b""

    put(writer, LARGE)
    writer.put_model(digest(LARGE), len(LARGE), never)
    writer.commit()
    with SqlWriter(uri, "demo-2") as other:
        other.apply("g", tell.begin())
        other.put_model(digest(LARGE), len(LARGE), never)
        other.apply("r/governor", [brain(LARGE)])

    assert (1, 3, 2) == sizes(uri)


def test_removed_runs_take_their_models_along(writer: SqlWriter, uri: str, tell: Any) -> None:
    """Bytes go with the last run that keeps them."""
    put(writer, b"mine")
    put(writer, b"both", tag="best")
    writer.close()
    with SqlWriter(uri, "demo-2") as other:
        other.apply("g", tell.begin())
        put(other, b"both")

    SqlStore.remove(uri, ["demo-1"])
    assert (None, b"both") == (kept(uri, b"mine"), kept(uri, b"both"))
    SqlStore.remove(uri, ["demo-2"])
    assert (0, 0, 0) == sizes(uri)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([b"others"], "expected 5 bytes, found more"),
        ([b"size"], "found 4 bytes with SHA-256"),
        ([b"equal"[::-1]], "found 5 bytes with SHA-256"),
        ([b"x" * (MODEL_PIECE_BYTES + 1)], "found more"),
    ],
)
def test_other_bytes_are_refused_with_their_row(
    writer: SqlWriter, uri: str, tell: Any, given: list[bytes], text: str
) -> None:
    """Nothing of the model is written, nor its row; all else of the transaction is, and the next one succeeds."""
    writer.put_model(digest(b"equal"), 5, lambda: iter(given))
    writer.apply("r/governor", [brain(b"equal"), *tell.whole(0)])
    with pytest.raises(StoreError, match=text):
        writer.commit()

    assert (0, 0, 0) == sizes(uri)
    with SqlReader(uri) as reader:
        assert ([], 1) == (list(reader.rows("brains")), reader.count("episodes"))
    put(writer, b"equal")
    assert b"equal" == kept(uri, b"equal")


def test_a_source_that_fails_is_named(writer: SqlWriter, uri: str) -> None:
    """What cannot be read is no fault of the store's: the transaction says so, and is carried out without it."""

    def broken() -> Iterator[bytes]:
        yield b"equ"
        raise StoreError("model /there: cannot be read")

    writer.put_model(digest(b"equal"), 5, broken)
    with pytest.raises(StoreError, match="model /there: cannot be read"):
        writer.commit()
    writer.commit()

    assert (0, 0, 0) == sizes(uri)


def test_a_model_needs_a_run(uri: str) -> None:
    """Before the record `run` there is nobody who could keep it."""
    with SqlWriter(uri, "demo-1") as writer, pytest.raises(StoreError, match="expected the record `run`"):
        writer.put_model(digest(b""), 0, cut(b""))


def test_a_killed_writer_leaves_whole_models_or_none(uri: str, tell: Any, tmp_path: Path) -> None:
    """Whoever is killed in the midst of a model leaves nothing of it, and its successor writes it."""
    script = (
        "import sys, time, hashlib;"
        "from ganglion_store.writer import SqlWriter;"
        "w = SqlWriter(sys.argv[1], 'demo-1');"
        "w.apply('g', [['run', dict.fromkeys(('uid', 'experiment', 'seed', 'started'), '')]]);"
        "w.commit()\n"
        "def slow():\n"
        "    for _ in range(3): yield b'x' * 2 ** 22\n"
        "    print('there', flush=True); time.sleep(600)\n"
        "w.put_model('0' * 64, 2 ** 24, slow); w.commit()"
    )
    child = subprocess.Popen([sys.executable, "-c", script, uri], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert b"there\n" == child.stdout.readline()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()

    with SqlWriter(uri, "demo-1", resume=True) as writer:
        assert (0, 0, 0) == sizes(uri)
        put(writer, LARGE)
    assert LARGE == kept(uri, LARGE)


def test_what_is_withdrawn_is_forgotten_at_the_end(writer: SqlWriter, uri: str) -> None:
    """Bytes whose rows were withdrawn stay as long as the run goes on, which tells of them again; then they go."""
    put(writer, b"first")
    put(writer, b"second", phase=1)
    writer.apply("g", [["end", "interrupted", "x", "now"]])
    writer.close()
    with SqlWriter(uri, "demo-1", resume=True) as again:
        again.withdraw(1)
        assert b"second" == kept(uri, b"second")
        again.apply("g", [["end", "finished", "completed", "now"]])

    assert (b"first", None) == (kept(uri, b"first"), kept(uri, b"second"))


# -- databases from elsewhere -----------------------------------------------------------------------------------------


DAMAGES = {
    "UPDATE stored_pieces SET data = zeroblob(length(data)) WHERE position = 1": "found the digest",
    "UPDATE stored_pieces SET data = substr(data, 2) WHERE position = 2": "found 8388615: it is damaged",
    "DELETE FROM stored_pieces WHERE position = 1": "piece 1 is missing",
    "UPDATE stored_pieces SET data = 'x' || x'ff' WHERE position = 1": "cannot be read: Could not decode",
    "UPDATE stored_pieces SET position = 7 WHERE position = 2": "piece 2 is missing",
    "UPDATE stored_pieces SET data = 'text' WHERE position = 1": "piece 1 is none",
    "UPDATE stored_pieces SET data = zeroblob(5000000) WHERE position = 0": "piece 0 is none",
    "INSERT INTO stored_pieces (model, position, data) VALUES (1, 3, 'x')": "piece 3 is none",
    "INSERT INTO stored_pieces (model, position, data) VALUES (1, 3, x'00')": "found more",
    "UPDATE stored_models SET bytes = 4": "expected 4 bytes, found more",
    "UPDATE stored_models SET bytes = 9999999999999": "model_bytes",
    "UPDATE stored_models SET bytes = -1": "model_bytes",
    "UPDATE stored_models SET bytes = 'many'": "model_bytes",
}


@pytest.mark.parametrize(("statement", "text"), DAMAGES.items())
def test_damaged_bytes_are_named(writer: SqlWriter, uri: str, statement: str, text: str) -> None:
    """Whoever reads bytes that somebody has changed is told of which model, and verification tells the same."""
    put(writer, LARGE)
    writer.apply("g", [["end", "finished", "completed", "now"]])
    writer.close()
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as connection:
        connection.execute(statement)
    connection.close()

    with pytest.raises(StoreError, match=f"{digest(LARGE)}.*{text}"):
        kept(uri, LARGE)
    with SqlReader(uri) as reader:
        (damage,) = reader.verify("demo-1")
    assert (("model", digest(LARGE)), True) == (damage[:2], text.split(":")[0] in damage.text)


def test_missing_models_are_named(writer: SqlWriter, uri: str) -> None:
    """Bytes that are gone are damage, and so is a reference that is gone after the end."""
    put(writer, LARGE)
    put(writer, b"small", tag="best")
    writer.apply("g", [["end", "finished", "completed", "now"]])
    writer.close()
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as connection:
        connection.execute("DELETE FROM stored_models WHERE bytes = 5")
        connection.execute("DELETE FROM stored_kept WHERE sha256 = ?", (digest(LARGE),))
    connection.close()
    with SqlReader(uri) as reader:
        found = {(damage.kind, damage.text) for damage in reader.verify("demo-1")}

    assert ("model", "the run keeps it, and it is not there") in found
    assert any(kind == "row" and "missing" in text for kind, text in found)


def test_reading_holds_one_piece(writer: SqlWriter, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader gets a model piece by piece, and may stop; the limit of models holds for what is read, too."""
    put(writer, LARGE)
    with SqlReader(uri) as reader:
        pieces = reader.model(digest(LARGE))
        assert pieces is not None
        assert MODEL_PIECE_BYTES == len(next(pieces))
    monkeypatch.setattr(module, "model_file_bytes", lambda: 100)
    with pytest.raises(StoreError, match="at most 100 bytes"):
        kept(uri, LARGE)
