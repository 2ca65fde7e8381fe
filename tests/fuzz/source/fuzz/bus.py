"""What arrives by the bus: frames, heads, bodies, HELLO, parcels."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import msgpack

from fuzz.target import Target
from ganglion.broker.admission import Register
from ganglion.broker.link import Admission
from ganglion.errors import LocalProtocolError, RemoteProtocolError
from ganglion.transport.zmtp import GREETING, Connection, Message, encode, encode_command, encode_error
from ganglion.wire import messages
from ganglion.wire.codec import Content, codec_of, decode_map, encode_map
from ganglion.wire.envelope import Envelope, Head, decode_head, encode_head
from ganglion.wire.envelope import encode as encode_envelope
from ganglion.wire.messages import CALLS, Hello
from ganglion.wire.name import Role
from ganglion.wire.parcel import attach
from ganglion.wire.verb import Verb

_READY = encode_command(b"READY", b"\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\0")
_TOKEN = "t" * 43
_HELLO = Hello(1, "muscle", "run-1/muscle/ada/0", _TOKEN)
_BODY = {
    "a": None,
    "b": [1, -1, 2**40, 0.5, True, "text", b"bytes"],
    "c": {"d": {"e": [[], {}, [[0]]]}},
    "ü": "\U0001f600",
}


# -- framing ----------------------------------------------------------------------------------------------------------
def _framing(data: bytes) -> None:
    """Read bytes as one side of a connection: whole and in pieces, which makes no difference."""
    flags, step = (*data[:2], 0, 0)[:2]
    rest = data[2:]
    whole, pieces = (Connection(listening=bool(flags & 1)) for _ in range(2))
    for connection in (whole, pieces):
        if flags & 2:
            _events(connection, GREETING + _READY)
        if flags & 4:
            connection.join()
    expected = _plain(_events(whole, rest))
    step = max(step, len(rest) // 2000, 1)
    found = [event for at in range(0, len(rest), step) for event in _events(pieces, rest[at : at + step])]
    assert expected == _plain(found)
    assert whole.outgoing == pieces.outgoing
    assert whole.state is pieces.state


def _events(connection: Connection, data: bytes) -> list[Any]:
    found: list[Any] = []
    position = 0
    while position < len(data):
        event, position = connection.advance(data, position, 0.0)
        found += [] if event is None else [event]
    return found


def _plain(events: list[Any]) -> list[Any]:
    return [event.frames if isinstance(event, Message) else event for event in events]


def _framing_seeds() -> list[bytes]:
    hello = b"".join(encode(encode_envelope(Envelope("", Head(Verb.HELLO, 1), codec_of(Hello).encode(_HELLO)))))
    message = b"".join(encode([b"to", encode_head(Head(Verb.CALL, 1, "muscle.act")), b"\x80", b"x" * 300]))
    ping = encode_command(b"PING", b"\0\1context")
    said = [GREETING + _READY + hello, message * 2, message + ping + message, encode_error("no"), ping]
    return [bytes((flags, step)) + text for text in said for flags in (1, 3, 7, 0) for step in (0, 3)]


# -- head, body, messages ---------------------------------------------------------------------------------------------
def _head(data: bytes) -> None:
    """Read a head; what is one can be said again."""
    try:
        head = decode_head(data)
    except RemoteProtocolError:
        return
    assert head == decode_head(encode_head(head))


def _body(data: bytes) -> None:
    """Read a body; what is one has text keys, and can be said again unless a number of JSON is too large for us."""
    try:
        tree = decode_map(data)
    except RemoteProtocolError:
        return
    assert all(type(key) is str for key in tree)
    try:
        again = encode_map(tree)
    except LocalProtocolError:
        assert data[:1] == b"{"
        return
    assert repr(tree) == repr(decode_map(again))


_KINDS = [kind for _, kind in sorted(vars(messages).items()) if dataclasses.is_dataclass(kind)]


def _message(data: bytes) -> None:
    """Read a body as the message that the first byte chooses."""
    codec = codec_of(_KINDS[data[0] % len(_KINDS)]) if data else codec_of(Hello)
    try:
        message = codec.decode(data[1:])
        again = codec.encode(message)
    except (RemoteProtocolError, LocalProtocolError):
        return
    assert repr(message) == repr(codec.decode(again))


def _message_seeds() -> list[bytes]:
    bodies = []
    for number, kind in enumerate(_KINDS):
        tree = {field.name: _example(field.type) for field in dataclasses.fields(kind)}
        bodies.append(bytes((number,)) + msgpack.packb(tree))
    return bodies


def _example(annotation: Any) -> Any:
    text = str(annotation)
    for word, value in (("dict", {"a": 1}), ("list", [1]), ("str", "x"), ("float", 0.5), ("bytes", b"x")):
        if word in text:
            return value
    return 1


def _hello(data: bytes) -> None:
    """Read a HELLO and look what it is entitled to: nothing without the token."""
    digest = hashlib.sha256(_TOKEN.encode()).digest()
    register = Register(
        [
            Admission("run-1/muscle/ada/0", Role.MUSCLE, "run-1", digest, incarnation=2, attach="ada"),
            Admission("observer/*", Role.OBSERVER, "", hashlib.sha256(b"o").digest()),
        ]
    )
    try:
        hello = codec_of(Hello).decode(data)
        place = register.entitled(hello, ())
    except RemoteProtocolError:
        return
    assert (hello.token, hello.role) in {(_TOKEN, "muscle"), ("o", "observer")}
    assert place.role.value == hello.role


_PARCELS = [(call.name, kind) for call in CALLS if "parcels" in (kind := call.request).__dataclass_fields__]


def _parcel(data: bytes) -> None:
    """Read a blob as a field of the set-up message that the first two bytes choose."""
    name, kind = _PARCELS[(data[:1] or b"\0")[0] % len(_PARCELS)]
    fields = [field.name for field in dataclasses.fields(kind)]
    field = fields[(data[1:2] or b"\0")[0] % len(fields)]
    tree = {f.name: _empty(f.type) for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING}
    try:
        attach(name, codec_of(kind).from_map({**tree, "parcels": {field: 0}}), [data[2:]])
    except RemoteProtocolError:
        return


def _empty(annotation: Any) -> Any:
    text = str(annotation)
    for word, value in (("dict", {}), ("list", []), ("str", ""), ("bytes", b"")):
        if text.startswith((word, f"<class '{word}")):
            return value
    return 0


_CLAIMS = b"\x81\xa1a" + (b"\xdd\0\0\xff\0" * 700).ljust(65_400, b"\0")
_BOMBS = [
    _CLAIMS,
    b"\x81\xa1a\xdd" + (1_048_000).to_bytes(4, "big") + b"\x80" * 1_048_000,
    b"\x81\xa1a" + b"\xdd\0\0\xff\0" * 200 + b"\0" * 64_000,
    b"\x81\xa1a" * 300_000,
    b'{"a":[' + b"{}," * 340_000 + b"1]}",
    b'{"a":' + b"[" * 1_000_000,
    b'{"a":' + b"1" * 1_000_000 + b"}",
]

TARGETS = [
    Target("framing", _framing, _framing_seeds(), [GREETING, _READY, b"\x04\x26", b"\x02", b"\x03", b"\x06"]),
    Target(
        "head",
        _head,
        [encode_head(Head(Verb.CALL, 7, "muscle.act", (0, 1, 2, 3, 4, 5), 1000)), encode_head(Head(Verb.BYE))],
        [b"\x95", b"\xcf", b"\xdd\xff\xff\xff\xff", b"\xc7"],
        bytes_max=1024,
    ),
    Target(
        "body",
        _body,
        [msgpack.packb(_BODY), encode_map(_BODY, Content.JSON), b"", b'{"a": {"$bytes": "YQ=="}}'],
        [b"\x80", b"\x90", b"\x81\xa1a", b"\xdd\0\0\xff\xff", b"\xd6\xff", b'{"a":', b"[", b'"\\ud800"', b"1e5,"],
        bombs=_BOMBS,
    ),
    Target(
        "message",
        _message,
        _message_seeds(),
        [b"\x80", b"\x90", b"\xc0", b"\xcb", b"\xdd\0\0\xff\xff"],
        bombs=[b"\0" + _CLAIMS],
    ),
    Target(
        "hello",
        _hello,
        [
            codec_of(Hello).encode(_HELLO),
            codec_of(Hello).encode(_HELLO, Content.JSON),
            codec_of(Hello).encode(Hello(1, "observer", "observer/*", "o")),
        ],
        [b"incarnation", b"supervisor", b"\xa4role", b"\xa4name", b"\xd9", b"\xc0"],
        bytes_max=16 * 1024,
    ),
    Target(
        "parcel",
        _parcel,
        [bytes((i, j)) + msgpack.packb(value) for i in range(len(_PARCELS)) for j, value in enumerate((_BODY, [1]))],
        [b"\x80", b"\x90", b"\x91", b"\xdd\0\0\xff\xff", b"\xd6\xff"],
    ),
]
