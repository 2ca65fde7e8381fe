"""Making the vectors from the code."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import msgpack

from ganglion.wire.codec import Content, codec_of, decode_map, encode_map
from ganglion.wire.envelope import Envelope, Head, decode_head, encode, encode_head
from ganglion.wire.messages import CALLS, PROTOCOL_VERSION, TELLS, Failure, Nothing
from ganglion.wire.verb import Verb
from ganglion_conformance.talk import CONTROLLER, ENVIRONMENT, Talk
from ganglion_conformance.vectors import FOLDER

_RUN = "farm-1"


# == one message of every kind ========================================================================================
def messages() -> list[dict[str, Any]]:
    """Return one vector per message: of each call the request, the reply; every one-way message; those of joining."""
    found = []
    for number, call in enumerate(CALLS, 1):
        caller, callee = _peer(call.callers[0]), _peer(call.callee) if call.callee else ""
        position = None if call.callee is None else (0, 1, 2, 0, number, 0)
        asked = Head(Verb.CALL, number, call.name, position, 1000 * number)
        who = f"{call.callers[0]} -> {call.callee or 'kernel'}"
        back = f"{call.callee or 'kernel'} -> {call.callers[0]}"
        found.append(_message(call.name, who, callee, asked, call.request))
        found.append(_message(call.name + " answered", back, caller, Head(Verb.REPLY, number), call.reply))
    for tell in TELLS:
        serial = 1 if tell.verb in (Verb.HELLO, Verb.WELCOME, Verb.ERROR, Verb.BEAT, Verb.BYE) else 0
        head = Head(tell.verb, serial, tell.name)
        name = tell.name or tell.verb.name
        found.append(_message(name, f"{tell.senders} -> {tell.receivers}", _to(tell.receivers), head, tell.body))
    asked, here = Head(Verb.BEAT), Head(Verb.BEAT, 1, "here")
    found.append(_message("BEAT of the kernel, and its answer", "kernel -> peer -> kernel", "", asked, Nothing))
    found.append(_message("BEAT here", "peer -> kernel", "", here, Nothing))
    return found


def _peer(role: str) -> str:
    return role if role in ("supervisor", "operator", "observer") else f"{_RUN}/{role}/0"


def _to(receivers: str) -> str:
    return f"{_RUN}/store" if receivers == "store" else ""


def _message(name: str, direction: str, peer: str, head: Head, kind: type[Any]) -> dict[str, Any]:
    codec = codec_of(kind)
    message = example(kind, kind.__name__)
    body = b"" if not dataclasses.fields(kind) else codec.encode(message)
    frames = encode(Envelope(peer, head, body, ()))
    return {
        "name": name,
        "direction": direction,
        "message": kind.__name__,
        "frames": [frame.hex() for frame in frames],
        "meaning": _meaning(frames),
    }


def _meaning(frames: Sequence[bytes]) -> dict[str, Any]:
    head = decode_head(frames[1])
    body = decode_map(frames[2]) if len(frames) > 2 and frames[2] else {}
    return {
        "peer": frames[0].decode(),
        "head": {
            "verb": head.verb.value,
            "serial": head.serial,
            "call": head.call,
            "position": None if head.position is None else list(head.position),
            "deadline_ms": head.deadline_ms,
        },
        "body": json.loads(encode_map(body, Content.JSON)),
        "blobs": [blob.hex() for blob in frames[3:]],
    }


_WORDS: dict[str, Any] = {
    "version": 1,
    "role": "environment",
    "name": f"{_RUN}/environment/field/0",
    "token": "A" * 43,
    "content": "msgpack",
    "kind": "protocol",
    "message": "setpoints: expected one row, found 2",
    "uid": "field",
    "run": _RUN,
    "mode": "train",
    "readings": [[0.5, 3]],
    "rewards": [[1.0]],
    "setpoints": [[-0.25]],
    "seed": 3936898253221180,
    "terminated": False,
    "truncated": True,
}
_DECLARED = {
    "sensors": [
        {"id": "level", "space": {"type": "box", "shape": [], "dtype": "<f8", "low": -1.0, "high": "inf"}},
        {"id": "count", "space": {"type": "discrete", "n": 11, "start": 0}},
    ],
    "actuators": [
        {"id": "push", "space": {"type": "box", "shape": [], "dtype": "<f8", "low": -1.0, "high": 1.0}, "value": 0.0}
    ],
    "rewards": [{"id": "gain", "space": {"type": "box", "shape": [], "dtype": "<f8", "low": -9.0, "high": 9.0}}],
}


def example(annotation: Any, name: str) -> Any:
    """Return a value of a field's type that shows it: text beyond ASCII, an integer of two bytes, all plain types."""
    leaves: dict[Any, Any] = {
        int: 300 + len(name),
        float: len(name) + 0.25,
        str: f"{name} ü",
        bytes: bytes(range(32)),
        bool: True,
        Any: [None, False, -1, 1.5, name, b"\x00\xff", {name: []}],
    }
    if annotation in leaves:
        return leaves[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        return [example(arguments[0], name)]
    if origin is dict:
        return {name: example(arguments[1], name)}
    if origin is types.UnionType:
        return example(next(a for a in arguments if a is not types.NoneType), name)
    return annotation(**{f.name: _field(annotation, f) for f in dataclasses.fields(annotation)})


def _field(kind: type[Any], field: dataclasses.Field[Any]) -> Any:
    """Return what a field holds: what it would in earnest where that is known."""
    known: Any = _DECLARED.get(field.name) if kind.__name__ == "EnvironmentDeclared" else _WORDS.get(field.name)
    plain = example(field.type, field.name)
    same = type(known) is type(plain) and (not isinstance(known, list) or type(known[0]) is type(plain[0]))
    return known if same else plain


# == one session ======================================================================================================
def session() -> list[dict[str, Any]]:
    """Return all that passes between an environment and the broker, from the first byte to the last."""
    talk = Talk()
    talk.run()
    found = []
    for row in talk.rows:
        vector = {"name": row.name, "direction": "peer -> kernel" if row.arrow == "->" else "kernel -> peer"}
        if row.frames:
            vector["frames"] = [frame.hex() for frame in row.frames]  # type: ignore[assignment]
            vector["meaning"] = _meaning(row.frames)  # type: ignore[assignment]
        found.append({**vector, "bytes": row.data.hex()})
    return found


# == what must be refused =============================================================================================
def refused() -> list[dict[str, Any]]:
    """Return what must be refused, by whom, and how.

    `by` is `environment` (answers ERROR and goes on), `peer` (ends, having said why), `kernel` (ends the connection, or
    answers ERROR) or `decoder` (whoever reads this frame).
    """
    return [*_by_environment(), *_by_peer(), *_by_kernel(), *_by_decoder()]


def _by_environment() -> list[dict[str, Any]]:
    update = "environment.update"
    bodies: list[tuple[str, str, bytes]] = [
        ("a body that is no map", update, _pack([1])),
        ("a body that is no msgpack", update, b"\xc1"),
        ("a body that breaks off", update, b"\x81\xa9setpoints\x91\x91\xcb\x00"),
        ("a call that is unknown", "environment.dance", b"\x80"),
    ]
    found = []
    for serial, (name, call, body) in enumerate(bodies, 1):
        head = encode_head(Head(Verb.CALL, serial, call, (0, 0, 0, 0, 1, 0), 30_000))
        kind = "unknown_call" if call != update else "protocol"
        found.append(_refusal(name, "environment", [CONTROLLER.encode(), head, body], f"ERROR {serial}", kind))
    return found


def _by_peer() -> list[dict[str, Any]]:
    kinds = {
        "version": "version: expected 1, found 2",
        "token": "the token admits nobody",
        "name": "that name has joined already",
    }
    found = []
    for kind, said in kinds.items():
        body = codec_of(Failure).encode(Failure(kind, said))
        frames = [b"", encode_head(Head(Verb.ERROR, 1)), body]
        name = f"ERROR {kind} in place of WELCOME"
        found.append(_refusal(name, "peer", frames, "end, status not 0, the message on stderr", kind))
    return found


def _by_kernel() -> list[dict[str, Any]]:
    hello = {"version": PROTOCOL_VERSION, "role": "environment", "name": ENVIRONMENT, "token": "A" * 43}
    changes: list[tuple[str, dict[str, Any], str]] = [
        ("HELLO of another version", {"version": 2}, "version"),
        ("HELLO with a token that admits nobody", {"token": "B" * 43}, "token"),
        ("HELLO in another role", {"role": "muscle"}, "role"),
        ("HELLO under another name", {"name": "demo-1/environment/other/0"}, "name"),
        ("HELLO with bin for text", {"name": ENVIRONMENT.encode()}, "protocol"),
        ("HELLO without a version", {"version": None}, "protocol"),
    ]
    found = []
    for name, change, kind in changes:
        body = {key: value for key, value in {**hello, **change}.items() if value is not None}
        frames = [b"", encode_head(Head(Verb.HELLO, 1)), _pack(body)]
        found.append(_refusal(name, "kernel", frames, "ERROR 1, and the connection ends", kind))
    call = [b"", encode_head(Head(Verb.CALL, 1, "kernel.info")), b""]
    found.append(_refusal("a CALL before HELLO", "kernel", call, "ERROR 0, and the connection ends", "protocol"))
    return found


def _by_decoder() -> list[dict[str, Any]]:
    heads: list[tuple[str, bytes]] = [
        ("a head that is no array", _pack({})),
        ("a head that is empty", _pack([])),
        ("a verb that there is not", _pack([11, 1])),
        ("a verb that is text", _pack(["CALL", 1])),
        ("a serial below 0", _pack([3, -1])),
        ("a serial beyond 2^53 - 1", _pack([3, 2**53])),
        ("a position of five numbers", _pack([3, 1, "x", [0, 0, 0, 0, 0]])),
        ("a head of more than 256 bytes", _pack([3, 1, "x" * 300])),
    ]
    bodies: list[tuple[str, bytes]] = [
        ("an extension type", _pack({"x": msgpack.ExtType(5, b"abc")})),
        ("a timestamp", b"\x81\xa1x\xd6\xff\x00\x00\x00\x01"),
        ("a key that is no text", b"\x81\x01\x02"),
        ("text that is no UTF-8", b"\x81\xa1x\xa2\xff\xfe"),
        ("bytes behind the map", b"\x80\x80"),
        ("33 levels", b"\x81\xa1x" + b"\x91" * 40 + b"\xc0"),
    ]
    found = [_refusal(name, "decoder", [b"", head, b""], "refuse the head", "protocol") for name, head in heads]
    reset = encode_head(Head(Verb.CALL, 1, "environment.reset"))
    for name, seed in (
        ("an integer beyond 2^53 - 1", 2**53),
        ("a fraction for an integer", 0.5),
        ("nil for an integer", None),
    ):
        body = _pack({"episode": 1, "seed": seed})
        found.append(_refusal(name, "decoder", [b"", reset, body], "refuse the field seed", "protocol"))
    asked = encode_head(Head(Verb.CALL, 1, "environment.update"))
    return found + [
        _refusal(name, "decoder", [b"", asked, body], "refuse the body", "protocol") for name, body in bodies
    ]


def _refusal(name: str, by: str, frames: Sequence[bytes], how: str, kind: str) -> dict[str, Any]:
    return {"name": name, "by": by, "frames": [frame.hex() for frame in frames], "how": how, "kind": kind}


def _pack(tree: Any) -> bytes:
    packed = msgpack.packb(tree)
    assert isinstance(packed, bytes)
    return packed


MAKERS: dict[str, Callable[[], list[dict[str, Any]]]] = {"messages": messages, "session": session, "refused": refused}


def text(name: str) -> str:
    """Return what the file of this name should hold."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in MAKERS[name]())


def write() -> None:
    """Write the files of this version."""
    folder = FOLDER / f"v{PROTOCOL_VERSION}"
    folder.mkdir(exist_ok=True)
    for name in MAKERS:
        (folder / f"{name}.jsonl").write_text(text(name))
