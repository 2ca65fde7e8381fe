"""What people and programs write as text: documents, conditions of `--where`, spaces."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import Boolean, Column, Float, Integer, LargeBinary, MetaData, Table, Text

from fuzz.target import Target
from ganglion import registry
from ganglion.document import load_document
from ganglion.document.marks import Source, compose
from ganglion.errors import DocumentError, RemoteProtocolError, SpaceError
from ganglion.sdk import Box, Discrete, MultiBinary, MultiDiscrete, Space
from ganglion.sdk import Dict as DictSpace
from ganglion.sdk import Tuple as TupleSpace
from ganglion.sdk.store import UsageError
from ganglion.wire.codec import decode_map, encode_map
from ganglion_store.where import condition

_DOCUMENTS = Path(__file__).parents[3] / "documents"


# -- documents --------------------------------------------------------------------------------------------------------
def _yaml(data: bytes) -> None:
    """Read a text as YAML: a tree, or faults with places in it."""
    text = data.decode(errors="replace")
    root, faults = compose(Source("run.yml", text), text)
    assert root is not None or faults or not text.strip() or _is_empty(text)
    for fault in faults:
        assert fault.message
        assert fault.line >= 0


def _is_empty(text: str) -> bool:
    """Say whether there is nothing in a text but what stands between documents."""
    return all(line.startswith(("#", "---", "...", "%")) or not line.strip() for line in text.splitlines())


def _document(data: bytes) -> None:
    """Read a text as a document that came over the network: a plan, or faults."""
    try:
        load_document("run.yml", plugins=registry, text=data.decode(errors="replace"), local=False)
    except DocumentError as error:
        found = error
    else:
        return
    assert found.faults
    assert str(found)


# -- conditions -------------------------------------------------------------------------------------------------------
_TABLE = Table(
    "rows",
    MetaData(),
    Column("key", Integer, primary_key=True),
    Column("n", Integer),
    Column("f", Float),
    Column("t", Text),
    Column("b", Boolean),
    Column("blob", LargeBinary),
)


@functools.cache
def _database() -> Any:
    """Return an empty database with the table."""
    engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.StaticPool)
    _TABLE.metadata.create_all(engine)
    return engine.connect()


def _where(data: bytes) -> None:
    """Read a condition; what is one is understood by the database."""
    try:
        found = condition(data.decode(errors="replace"), dict(_TABLE.c))
    except UsageError:
        return
    assert [] == _database().execute(sqlalchemy.select(_TABLE.c.key).where(found)).fetchall()


# -- spaces -----------------------------------------------------------------------------------------------------------
def _space(data: bytes) -> None:
    """Read a space from its text; what is one reads the same again."""
    try:
        space = Space.from_string(data.decode(errors="replace"))
    except SpaceError:
        return
    assert space == Space.from_string(space.to_string())


def _form(data: bytes) -> None:
    """Read a space as it travels; what is one travels again."""
    try:
        space = Space.from_wire(decode_map(data))
    except (SpaceError, RemoteProtocolError):
        return
    assert space == Space.from_wire(space.to_wire())


_SPACES = [
    Box(-1.0, 1.0, (2, 3)),
    Box([0, 1], [2, 3], (2,), "int32"),
    Box(float("-inf"), float("inf"), ()),
    Discrete(5, start=-2),
    MultiBinary([2, 2]),
    MultiDiscrete([[2, 3]], start=1),
    TupleSpace([Discrete(2), Box(0.0, 1.0, (1,))]),
    DictSpace({"a": Discrete(2), "b": TupleSpace([MultiBinary(3)])}),
]
_RUNS = [path.read_bytes() for path in sorted(_DOCUMENTS.glob("*.yml"))]
_SHORT = [
    b"a: 1\nb: [x, 'y', \"z\"]\nc: {d: !!str 5, e: ~}\n",
    b"x: &a {k: 1}\ny: *a\nz: {<<: *a, k: 2}\n",
    b"? |\n  block\n: >-\n  folded\n",
    b"%YAML 1.2\n---\n- 0x1F\n- .inf\n- 2001-01-01\n...\n",
]
_YAML = [b"&a ", b"*a", b"<<: ", b"!!python/object:os.system ", b"- ", b"{", b"[", b"? ", b"---\n", b"\t", b": "]
_YAML += [b"'", b'"', b"|\n", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\n"]

TARGETS = [
    Target("yaml", _yaml, [*_SHORT, *_RUNS], _YAML),
    Target("document", _document, _RUNS, [*_YAML, b"command: [sh]", b"load: {base: /}", b"name: os.system"], 16_384),
    Target(
        "where",
        _where,
        [
            b"n = 1 and not f > 2.5 or t like 'a%'",
            b"t in ('a', \"b\") and b is not null and blob is null",
            b"((n != -3)) or b and f <= 1e5",
        ],
        [b"(", b")", b"not ", b" and ", b" or ", b" in (", b"'", b"''", b'"', b"--", b";", b"1", b".", b"null", b"%"],
        bytes_max=16 * 1024,
        bombs=[
            b"1" * 60_000 + b"x",
            b"b" + b" and b" * 10_000,
            b"n in (1" + b",1" * 20_000 + b")",
            b"not " * 15_000 + b"b",
            b"t = '" + b"''" * 30_000,
        ],
    ),
    Target(
        "space",
        _space,
        [space.to_string().encode() for space in _SPACES],
        [
            b"Box(",
            b"Discrete(",
            b"Tuple([",
            b"Dict(",
            b"=",
            b"inf",
            b"-0",
            b"shape=(",
            b"dtype=",
            b",",
            b"9" * 20,
            b'"',
        ],
    ),
    Target(
        "form",
        _form,
        [encode_map(space.to_wire()) for space in _SPACES],
        [b"\xa4type", b"\xa5shape", b"\x80", b"\x90", b"\xcb", b"\xcf" + b"\xff" * 8, b"\xa3low", b"\xdd\0\0\xff\xff"],
    ),
]
