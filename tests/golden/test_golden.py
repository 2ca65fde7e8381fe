from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ganglion.wire import messages
from ganglion.wire.codec import Content, codec_of, decode_map, encode_map
from ganglion.wire.envelope import Head, decode, encode
from ganglion.wire.messages import CALLS, PROTOCOL_VERSION, TELLS
from ganglion.wire.verb import Verb

EXAMPLES = [
    pytest.param(json.loads(text), id=f"{path.parent.name}-{json.loads(text)['name']}")
    for path in sorted(Path(__file__).parent.glob("v*/*.jsonl"))
    for text in path.read_text().splitlines()
]


def test_every_message_of_this_version_has_its_bytes() -> None:
    """Each class of the tables has an example; a new one is added by tests/golden/generate.py."""
    expected = {kind.__name__ for call in CALLS for kind in (call.request, call.reply)}
    expected |= {tell.body.__name__ for tell in TELLS}
    folder = Path(__file__).parent / f"v{PROTOCOL_VERSION}"
    there = [json.loads(text)["name"] for path in folder.glob("*.jsonl") for text in path.read_text().splitlines()]

    assert sorted(expected) == sorted(there)


@pytest.mark.parametrize("example", EXAMPLES)
def test_bytes_mean_what_they_meant(example: dict[str, Any]) -> None:
    """The frames of every released version decode to the meaning that was written down with them."""
    meaning = example["meaning"]
    envelope = decode([bytes.fromhex(frame) for frame in example["frames"]])
    verb, serial, call, position, deadline_ms = meaning["head"]

    assert meaning["peer"] == envelope.peer
    assert Head(Verb[verb], serial, call, position and tuple(position), deadline_ms) == envelope.head
    assert meaning["blobs"] == [blob.hex() for blob in envelope.blobs]
    codec = codec_of(getattr(messages, example["name"]))
    body = codec.to_map(codec.decode(envelope.body))
    assert meaning["body"] == json.loads(encode_map(body, Content.JSON))
    assert body == decode_map(json.dumps(meaning["body"]).encode())


@pytest.mark.parametrize("example", EXAMPLES)
def test_json_means_the_same(example: dict[str, Any]) -> None:
    """The JSON of every released version decodes to the same message as its msgpack."""
    codec = codec_of(getattr(messages, example["name"]))
    body = bytes.fromhex(example["frames"][2])

    assert codec.decode(body) == codec.decode(example["json"].encode())


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_message_still_has_these_bytes(example: dict[str, Any]) -> None:
    """What we send for that message are the same bytes, so that old receivers read them."""
    frames = [bytes.fromhex(frame) for frame in example["frames"]]
    envelope = decode(frames)
    codec = codec_of(getattr(messages, example["name"]))
    message = codec.decode(envelope.body)

    assert frames == encode(envelope)
    assert envelope.body == codec.encode(message)
    assert example["json"].encode() == codec.encode(message, Content.JSON)
