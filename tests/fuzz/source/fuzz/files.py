"""What lies in files that others may have written: connection files, models, their index, manifests, journals."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from fuzz.target import Target
from ganglion.errors import GanglionError, LaunchError, RemoteProtocolError, StoreError, UsageError
from ganglion.peer.models import INDEX, read_index
from ganglion.sdk.models import Models, load_arrays, load_meta, save_arrays
from ganglion.supervisor.connection import RIGHTS, read_connection
from ganglion.supervisor.folder import MANIFEST, Files, read_manifest, text_of
from ganglion.supervisor.resume import journal_age_s, journal_position
from ganglion.transport.curve import new_pair
from ganglion.transport.endpoint import parse_endpoint
from ganglion.wire import journal
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.journal import Kind
from ganglion.wire.verb import Verb

_FOLDER = Path(tempfile.mkdtemp(prefix="ganglion-fuzz-"))
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


def _written(name: str, data: bytes) -> Path:
    """Return the path of a file that holds the data, for its owner alone."""
    path = _FOLDER / name
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
    return path


def _connection(data: bytes) -> None:
    """Read a connection file and use what it says, as who attaches does."""
    try:
        connection = read_connection(_written("connection.json", data))
    except UsageError:
        return
    repr(connection)
    for act in (*(lambda right=right: connection.keys(right) for right in RIGHTS), _endpoint(connection.endpoint)):
        with contextlib.suppress(UsageError, LaunchError):
            act()
    assert all(isinstance(getattr(connection, f"{right}_token"), str) for right in RIGHTS)
    assert isinstance(connection.pid, int)
    assert connection.pid > 0


def _endpoint(text: str) -> Callable[[], object]:
    return lambda: parse_endpoint(text)


def _connection_seeds() -> list[bytes]:
    pair = new_pair()
    tree = {
        "version": 1,
        "pid": 4711,
        "endpoint": "ipc:///run/user/1000/ganglion/demo-1/bus",
        "tcp": "tcp://127.0.0.1:5555",
        **{f"{right}_token": right * 5 for right in RIGHTS},
        "run": "demo-1",
        "results": "/tmp/results",
        "store": "sqlite:////tmp/results/ganglion.db",
    }
    keys = {right: {"public_key": pair.public, "secret_key": pair.secret} for right in RIGHTS}
    remote = {**tree, "curve": {"server_key": pair.public, **keys}}
    return [json.dumps(found, indent=2).encode() for found in (tree, remote)]


# -- models -----------------------------------------------------------------------------------------------------------
def _model(data: bytes) -> None:
    """Read a file as a model, its description, and a value that was saved."""
    path = _written("model.npz", data)
    for act in (lambda: load_arrays(path), lambda: load_meta(path), Models(_FOLDER).load, Models(_FOLDER).meta):
        with contextlib.suppress(StoreError):
            act()


def _model_seeds() -> list[bytes]:
    arrays = {"weights/a": np.arange(6.0).reshape(2, 3), "steps": np.array(7), "names": np.array([b"a", b"bc"])}
    path = _FOLDER / "seed.npz"
    save_arrays(path, arrays, {"tag": "", "meta": {"a": 1}})
    found = [path.read_bytes()]
    np.savez(_FOLDER / "other.npz", x=np.asfortranarray(np.ones((2, 2), ">f4")), y=np.array([], bool))
    found.append((_FOLDER / "other.npz").read_bytes())
    np.savez_compressed(_FOLDER / "packed.npz", x=np.zeros(1000))
    found.append((_FOLDER / "packed.npz").read_bytes())
    Models(_FOLDER / "values").save_value({"a": [1, 2.5, b"x", None, np.arange(3)]}, "")
    found.append((_FOLDER / "values" / "model.npz").read_bytes())
    return found


# -- what describes them ----------------------------------------------------------------------------------------------
def _index(data: bytes) -> None:
    """Read the index of a run's models; whatever it names lies below its folder."""
    _written(INDEX, data)
    try:
        found = read_index(_FOLDER)
    except StoreError:
        return
    assert found is not None
    assert all(kept.path.is_relative_to(_FOLDER) and ".." not in kept.path.parts for kept in found.models)


_INDEX = {
    "format": 1,
    "run": "demo-1",
    "uid": "demo",
    "status": "finished",
    "started": "2026-01-01T00:00:00Z",
    "phases": {"0": "first"},
    "models": [{"phase": 0, "agent": "ada", "tag": "", "path": "0/ada/model.npz", "sha256": "ab" * 32}],
}


def _manifest(data: bytes) -> None:
    """Read a manifest and check the files that it names; nothing outside its folder is looked at."""
    _written(MANIFEST, data)
    manifest, _ = read_manifest(_FOLDER)
    try:
        for name, why in Files(_FOLDER).sealed(manifest):
            assert isinstance(name, str)
            assert why
    except GanglionError:
        return


_MANIFEST = {
    "run": "demo-1",
    "files": {"document.yml": {"sha256": "ab" * 32}, "brains/index.json": {"sha256": "cd" * 32}},
    "chain": {"run": "demo-1", "phases": []},
    "sha256": "ef" * 32,
}


# -- journals ----------------------------------------------------------------------------------------------------------
def _journal(data: bytes) -> None:
    """Read a journal as a successor does, and as the supervisor that asks where a process stood."""
    readers = {Kind.HEARD: journal.frames_of, Kind.LATE: journal.read_serials, Kind.BASE: journal.read_base}
    try:
        for one in journal.read_records(data):
            assert one.end <= len(data)
            readers.get(one.kind, repr)(one.payload)
    except RemoteProtocolError:
        pass
    path = _written("fuzz.journal", data)
    journal_position(path)
    assert 0.0 <= journal_age_s(path) < 1e13


def _records() -> list[bytes]:
    """Return records whose bytes are judged, though their checks would be right."""
    call = encode_head(Head(Verb.CALL, 7, "muscle.act", (0, 1, 2, 3, 4, 5)))
    made = [
        (Kind.HEARD, 1.0, [b"run-1/controller/0", call, b"\x80"]),
        (Kind.TICK, 2.0, None),
        (Kind.LATE, 3.0, [5, 6]),
        (Kind.SAID, 3.5, journal.digest([call])),
        (Kind.BASE, 4.0, (9, {"a": [1]}, [["peer", 7]])),
        (Kind.GIVEN_UP, 0.0, None),
    ]
    broken = [b"\xff\xff\xff\xff", [], ["a"], [1, 2, 3], [[], {}, []], [b"", b"\x01\0\0\0x"], {"a": 1}, None]
    made += [(kind, 5.0, payload) for kind in Kind for payload in broken]
    shapes: list[Any] = [7, [7], [[1, 1.0]], [[0, 1.0, []]], [[1, float("nan"), []]], [[[], 1.0, None]]]
    payloads = [msgpack.packb(some) for some in (*([one] for one in made), made[:5], *shapes)]
    checks = [(len(one), zlib.crc32(one)) for one in payloads]
    heads = [struct.pack("<III", size, check, size ^ check ^ 0xFFFFFFFF) for size, check in checks]
    return [head + payload for head, payload in zip(heads, payloads, strict=True)]


_RECORDS = _records()

_JSON = [b'"', b"{", b"}", b"[", b"]", b"null", b"../", b"\\u0000", b"/etc/passwd", b"\\ud800", b": ", b'""']

TARGETS = [
    Target("connection", _connection, _connection_seeds(), [*_JSON, b"ipc://", b"tcp://[::]:1"], bombs=[b"[" * 60_000]),
    Target(
        "model",
        _model,
        _model_seeds(),
        [b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"'|O'", b"(9223372036854775807, 2)", b"True", b"\x93NUMPY"],
    ),
    Target("index", _index, [json.dumps(_INDEX).encode()], _JSON),
    Target(
        "journal",
        _journal,
        [journal.MAGIC + b"".join(_RECORDS[:5]), journal.MAGIC, *(journal.MAGIC + r for r in _RECORDS)],
        _RECORDS,
    ),
    Target("manifest", _manifest, [text_of(_MANIFEST).encode()], _JSON),
]
