"""Add the bytes of messages that have none yet to `v<protocol>/*.jsonl`; what is there already never changes.

Run it after a message was added: `python tests/golden/generate.py`. One line holds the name of the class, the frames
in hexadecimal, the same body as JSON, and what it means as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from pathlib import Path
from typing import Any

from ganglion.wire.codec import Content, codec_of, encode_map
from ganglion.wire.envelope import Envelope, Head, encode
from ganglion.wire.messages import CALLS, PROTOCOL_VERSION, TELLS
from ganglion.wire.verb import Verb

FOLDER = Path(__file__).parent / f"v{PROTOCOL_VERSION}"


def rows() -> list[tuple[str, str, Head, type[Any]]]:
    """Return file, peer, head and class of one example per class: the first row that holds it."""
    found: dict[type[Any], tuple[str, str, Head, type[Any]]] = {}
    for number, call in enumerate(CALLS, 1):
        file, _, word = call.name.partition(".")
        peer = f"farm-1/{call.callee}/{word}/0" if call.callee else ""
        asked = Head(Verb.CALL, number, call.name, (0, 1, 2, 0, number, 0), 1000 * number)
        found.setdefault(call.request, (file, peer, asked, call.request))
        found.setdefault(call.reply, (file, peer, Head(Verb.REPLY, number), call.reply))
    for tell in TELLS:
        found.setdefault(tell.body, ("tells", "farm-1/store", Head(tell.verb, 0, tell.name), tell.body))
    return list(found.values())


def example(annotation: Any, name: str) -> Any:
    """Return a value of a field's type that is not its default."""
    leaves: dict[Any, Any] = {
        int: 3 * len(name),
        float: len(name) + 0.25,
        str: f"<{name} ü>",
        bytes: bytes(range(len(name))),
        bool: True,
        Any: [None, False, -1, 1.5, name, b"\x00\xff", {name: []}],
    }
    if annotation in leaves:
        return leaves[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        return [example(arguments[0], name), example(arguments[0], name + "s")]
    if origin is dict:
        return {name: example(arguments[1], name), "z": example(arguments[1], "z")}
    if origin is types.UnionType:
        return example(next(a for a in arguments if a is not types.NoneType), name)
    return annotation(**{f.name: example(f.type, f.name) for f in dataclasses.fields(annotation)})


def line(peer: str, head: Head, kind: type[Any]) -> str:
    """Return one example as a line of JSON."""
    message = example(kind, kind.__name__)
    codec = codec_of(kind)
    envelope = Envelope(peer, head, codec.encode(message), (b"", b"blob"))
    tree = {
        "name": kind.__name__,
        "frames": [frame.hex() for frame in encode(envelope)],
        "json": codec.encode(message, Content.JSON).decode(),
        "meaning": {
            "peer": peer,
            "head": [head.verb.name, head.serial, head.call, head.position, head.deadline_ms],
            "body": json.loads(encode_map(codec.to_map(message), Content.JSON)),
            "blobs": ["", b"blob".hex()],
        },
    }
    return json.dumps(tree, ensure_ascii=False)


def main() -> None:
    """Append what is missing."""
    FOLDER.mkdir(exist_ok=True)
    known = {json.loads(text)["name"] for path in FOLDER.glob("*.jsonl") for text in path.read_text().splitlines()}
    for file, peer, head, kind in rows():
        if kind.__name__ not in known:
            with (FOLDER / f"{file}.jsonl").open("a") as out:
                out.write(line(peer, head, kind) + "\n")


if __name__ == "__main__":
    main()
