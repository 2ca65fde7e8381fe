from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import PeerLost, RemoteProtocolError
from ganglion.transport.memory import MemoryBus
from ganglion.transport.zmtp import encode as encode_zmtp
from ganglion.wire import messages
from ganglion.wire.codec import Content, codec_of, decode_map, encode_map
from ganglion.wire.envelope import Head, decode, decode_head, encode
from ganglion.wire.messages import PROTOCOL_VERSION
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb
from ganglion_conformance.papers import TABLES, main, render
from ganglion_conformance.talk import ENVIRONMENT
from ganglion_conformance.vectors import FOLDER, NAMES, read
from ganglion_conformance.vectors.make import text

MESSAGES = [*read("messages"), *(row for row in read("session") if "frames" in row)]
REFUSED = read("refused")


def _by(who: str) -> list[Any]:
    return [pytest.param(row, id=row["name"]) for row in REFUSED if row["by"] == who]


def _frames(row: dict[str, Any]) -> list[bytes]:
    return [bytes.fromhex(frame) for frame in row["frames"]]


@pytest.mark.parametrize("row", MESSAGES, ids=lambda row: row["name"])
def test_vector_is_decoded_encoded_and_compared(row: dict[str, Any]) -> None:
    """The frames mean what is written beside them, and what is written is encoded to the same frames."""
    frames, meaning = _frames(row), row["meaning"]
    envelope = decode(frames)
    position = meaning["head"]["position"]
    head = Head(
        Verb(meaning["head"]["verb"]),
        meaning["head"]["serial"],
        meaning["head"]["call"],
        None if position is None else tuple(position),
        meaning["head"]["deadline_ms"],
    )
    body = decode_map(frames[2]) if frames[2] else {}

    assert (meaning["peer"], head) == (envelope.peer, envelope.head)
    assert meaning["body"] == json.loads(encode_map(body, Content.JSON))
    assert frames == encode(envelope)
    again = decode_map(json.dumps(meaning["body"]).encode())
    assert frames[2] == (encode_map(again) if again or frames[2] else b"")
    if "message" in row and frames[2]:
        codec = codec_of(getattr(messages, row["message"]))
        assert frames[2] == codec.encode(codec.decode(frames[2]))


def test_session_is_its_bytes() -> None:
    """The bytes of a message of the session are its frames with their headers."""
    for row in read("session"):
        if "frames" in row:
            assert row["bytes"] == b"".join(encode_zmtp(_frames(row))).hex()


@pytest.mark.parametrize("row", _by("decoder"))
def test_decoder_refuses(row: dict[str, Any]) -> None:
    """Heads and bodies that are none are refused by who reads them."""
    _, head, body = _frames(row)
    read_it: dict[str, Callable[[], object]] = {
        "refuse the head": lambda: decode_head(head),
        "refuse the body": lambda: decode_map(body),
        "refuse the field seed": lambda: codec_of(messages.EnvironmentReset).decode(body),
    }

    with pytest.raises(RemoteProtocolError):
        read_it[row["how"]]()
    if row["how"] != "refuse the head":
        decode_head(head)


@pytest.mark.parametrize("row", _by("kernel"))
def test_kernel_refuses(row: dict[str, Any]) -> None:
    """The broker answers what it must not take by ERROR of that kind, and ends the connection."""
    bus = MemoryBus()
    bus.admit(ENVIRONMENT, Role.ENVIRONMENT, "demo-1", "A" * 43, "field", 0)
    link = bus.connect()
    link.send(_frames(row))
    answer = decode(link.receive() or [])

    assert (Verb.ERROR, row["kind"]) == (answer.head.verb, decode_map(answer.body)["kind"])
    with pytest.raises(PeerLost):
        link.receive()


@pytest.mark.parametrize("name", NAMES)
def test_file_is_what_the_code_makes(name: str) -> None:
    """The vectors of this version are current; `python -m ganglion_conformance.vectors --write` makes them."""
    assert text(name) == (FOLDER / f"v{PROTOCOL_VERSION}" / f"{name}.jsonl").read_text()


KERNEL = Path(__file__).parents[3] / "kernel"
PLUGINS = KERNEL.parent / "plugins"
PAPERS = (KERNEL / "PROTOCOL.md", PLUGINS / "README.md", PLUGINS / "foreign" / "README.md")


@pytest.mark.parametrize("paper", PAPERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_paper_is_current(paper: Path) -> None:
    """A paper shows what the code says; scripts/fix writes it."""
    text = paper.read_text()

    assert render(text) == text


def test_paper_shows_every_table() -> None:
    """No table is left out of the papers, and they mark none that there is not."""
    text = "".join(paper.read_text() for paper in PAPERS)

    assert [] == [name for name in TABLES if f"<!-- table: {name} -->" not in text]
    assert len(TABLES) == text.count("<!-- table: ") == text.count("<!-- end of ")


def test_text_around_the_sections_stays(tmp_path: Path) -> None:
    """Only what stands between the marks is replaced, and a second time changes nothing."""
    path = tmp_path / "paper.md"
    path.write_text("before\n<!-- table: verbs -->\nold\n<!-- end of verbs -->\nafter\n")

    assert 0 == main(["--write", str(path)])
    once = path.read_text()
    assert 0 == main(["--write", str(path)])

    assert once == path.read_text()
    assert once.startswith("before\n<!-- table: verbs -->\n| number |")
    assert once.endswith("|\n<!-- end of verbs -->\nafter\n")
