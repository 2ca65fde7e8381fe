# The annotations here are objects, not text, like those of the messages: codecs are built from them.
import dataclasses
import json
import re
import tracemalloc
import types
import typing
from typing import Any

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ganglion.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from ganglion.limits import BODY_BYTES, BODY_CONTAINERS, BODY_DEPTH, BODY_KEYS, INTEGER_MAX
from ganglion.wire import messages
from ganglion.wire.codec import Content, codec_of, decode_map, encode_map, openings
from ganglion.wire.messages import CALLS, TELLS, Message
from ganglion.wire.verb import Verb


class Inner(Message):
    """Stand inside another message."""

    count: int
    word: str = "none"


class Outer(Message):
    """Have a field of every kind that can be declared."""

    number: int
    real: float = 0.5
    text: str = ""
    data: bytes = b""
    flag: bool = False
    anything: Any = None
    counts: list[int] | None = None
    rows: list[dict[str, Any]] | None = None
    limits: dict[str, float] | None = None
    inner: Inner | None = None
    many: list[Inner] | None = None
    named: dict[str, Inner] | None = None


CODEC = codec_of(Outer)
KINDS = [kind for name, kind in sorted(vars(messages).items()) if name[0] != "_" and dataclasses.is_dataclass(kind)]
KINDS.append(Outer)


# (map, path and complaint)
FAULTS = [
    ({}, "outer.number: expected a value, found nothing"),
    ({"number": "1"}, "outer.number: expected an integer, found str"),
    ({"number": True}, "outer.number: expected an integer, found True"),
    ({"number": None}, "outer.number: expected an integer, found None"),
    ({"number": 1.5}, "outer.number: expected an integer, found 1.5"),
    ({"number": float("inf")}, "outer.number: expected an integer, found inf"),
    ({"number": INTEGER_MAX + 1}, "outer.number: expected an integer of at most 53 bits"),
    ({"number": -INTEGER_MAX - 1}, "outer.number: expected an integer of at most 53 bits"),
    ({"number": 1, "real": "x"}, "outer.real: expected a number, found str"),
    ({"number": 1, "real": True}, "outer.real: expected a number, found True"),
    ({"number": 1, "text": b"x"}, "outer.text: expected text, found bytes"),
    ({"number": 1, "data": "x"}, "outer.data: expected bytes, found str"),
    ({"number": 1, "flag": 1}, "outer.flag: expected true or false, found 1"),
    ({"number": 1, "counts": {}}, "outer.counts: expected a list, found dict"),
    ({"number": 1, "counts": [0, 1, "2"]}, "outer.counts[2]: expected an integer, found str"),
    ({"number": 1, "rows": [{}, 5]}, "outer.rows[1]: expected a map, found 5"),
    ({"number": 1, "limits": {"deep": {}}}, "outer.limits.deep: expected a number, found dict"),
    ({"number": 1, "inner": {}}, "outer.inner.count: expected a value, found nothing"),
    ({"number": 1, "inner": []}, "outer.inner: expected a map, found list"),
    ({"number": 1, "many": [{"count": 1}, {"count": ""}]}, "outer.many[1].count: expected an integer, found str"),
    ({"number": 1, "named": {"k": {"count": 1, "word": 3}}}, "outer.named.k.word: expected text, found 3"),
]

numbers = st.integers(-INTEGER_MAX, INTEGER_MAX)
reals = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(max_size=10).filter(lambda key: key != "$bytes")
trees = st.recursive(
    st.none() | st.booleans() | numbers | reals | st.text(max_size=10) | st.binary(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
LEAVES = {
    int: numbers,
    float: reals,
    str: st.text(max_size=20),
    bytes: st.binary(max_size=20),
    bool: st.booleans(),
    Any: trees,
}


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Return what a field of this type may hold."""
    if annotation in LEAVES:
        return LEAVES[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        return st.lists(values(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(words, values(arguments[1]), max_size=3)
    if origin is types.UnionType:
        return st.one_of(*(st.none() if a is types.NoneType else values(a) for a in arguments))
    return whole(annotation)


def whole(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Return messages of a class, made from its declaration."""
    fields = {field.name: values(field.type) for field in dataclasses.fields(kind)}
    return st.builds(kind, **fields)


maps = st.dictionaries(words, trees, max_size=4)


def nested(levels: int) -> dict[str, Any]:
    """Return a map of so many levels."""
    tree: Any = 1
    for _ in range(levels - 1):
        tree = [tree]
    return {"a": tree}


@pytest.mark.parametrize(("tree", "text"), FAULTS, ids=lambda value: value if isinstance(value, str) else "")
def test_fault_names_the_path(tree: dict[str, Any], text: str) -> None:
    """A field that does not fit its declaration is refused by its path, with what was expected and found."""
    with pytest.raises(RemoteProtocolError) as caught:
        CODEC.decode(encode_map(tree))

    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_round_trip(kind: type[Any], data: st.DataObject) -> None:
    """Every message of every class comes back as it was, in both encodings."""
    message = data.draw(whole(kind))
    codec = codec_of(kind)

    assert message == codec.decode(codec.encode(message))
    assert message == codec.decode(codec.encode(message, Content.JSON))


@pytest.mark.parametrize("content", Content)
@given(tree=maps)
@settings(max_examples=40)
def test_map_round_trip(content: Content, tree: dict[str, Any]) -> None:
    """Every tree of plain values comes back as it was, in both encodings."""
    assert tree == decode_map(encode_map(tree, content))


def test_unknown_fields_are_skipped() -> None:
    """What a newer sender adds is skipped, at every level."""
    tree = {"number": 1, "newer": {"x": [1]}, "inner": {"count": 2, "newer": b""}}

    assert Outer(1, inner=Inner(2)) == CODEC.decode(encode_map(tree))


@pytest.mark.parametrize(("given_", "expected"), [(3.0, 3), (-0.0, 0), (float(2**53 - 1), 2**53 - 1)])
def test_integral_float_is_an_integer(given_: float, expected: int) -> None:
    """A language without integers may send a float that is one."""
    number = CODEC.from_map({"number": given_}).number

    assert expected == number
    assert type(number) is int


def test_integer_is_a_float() -> None:
    """A language that writes 2.0 as 2 is understood."""
    real = CODEC.from_map({"number": 1, "real": 2}).real

    assert 2.0 == real
    assert type(real) is float


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x91\x01", "expected a map, found list"),
        (b"\x01", "expected a map, found int"),
        (b"\xc1", "neither a msgpack map"),
        (b"\x81\xa1a", "neither a msgpack map"),
        (b"\x80\x80", "neither a msgpack map"),
        (b"\x81\x01\x01", "neither a msgpack map"),
        (b"\x81\xc4\x01a\x01", "expected keys that are text, found bytes"),
        (b"\x81\xa1a\x81\xc4\x01b\x01", "expected keys that are text, found bytes"),
        (b"\x81\xa1a\xd6\xff\0\0\0\0", "neither a msgpack map"),
        (b"\x81\xa1a\xc7\x00\x05", "extension types do not travel, found type 5"),
        (b"\x81\xa1\xff\x01", "neither a msgpack map"),
        (b'{"a": 1', "nor a JSON object"),
        (b'{"a": NaN}', "NaN is no JSON"),
        (b'{"a": -Infinity}', "-Infinity is no JSON"),
        (b'{"a": "\\ud800"}', "surrogates not allowed"),
        (b'{"\\udfff": 1}', "surrogates not allowed"),
        (b'{"a": "\xff"}', "nor a JSON object"),
        (b'{"a": {"$bytes": "!"}}', "expected base64"),
        (b'{"a": {"$bytes": 4}}', "expected base64"),
        (b'{"$bytes": "YQ=="}', "expected a map, found bytes"),
        (b'{"a":' + b"9" * 5000 + b"}", "nor a JSON object"),
        (b'{"a":' * 100_000, "nor a JSON object"),
    ],
)
def test_refused_body(data: bytes, text: str) -> None:
    """What is no map with text keys and plain values is refused."""
    with pytest.raises(RemoteProtocolError, match=text):
        decode_map(data)


@given(whole(Outer).map(CODEC.encode) | trees.map(msgpack.packb) | st.binary(max_size=200))
@example(b"\x82\xa6number\x01\xc4\x01a\x01")
@example(b"\x82\xa6number\x01\xa8anything\x81\xc4\x01b\x01")
@example(b"\x82\xa6number\x01\xa8anything" + b"\x91" * BODY_DEPTH + b"\x01")
def test_a_body_is_read_in_one_go_as_by_its_map(data: bytes) -> None:
    """What a body is, or why it is refused, is the same where its map is read first."""
    found = []
    for read in (CODEC.decode, lambda it: CODEC.from_map(decode_map(it))):
        try:
            found.append(read(data))
        except RemoteProtocolError as error:
            found.append(str(error))
    assert repr(found[0]) == repr(found[1])


@pytest.mark.parametrize("content", Content)
def test_depth_is_bounded_on_both_sides(content: Content) -> None:
    """As many levels as the limit says travel; one more is neither sent nor taken."""
    assert nested(BODY_DEPTH) == decode_map(encode_map(nested(BODY_DEPTH), content))
    with pytest.raises(LocalProtocolError, match="body_depth"):
        encode_map(nested(BODY_DEPTH + 1), content)
    too_deep = nested(BODY_DEPTH + 1)
    data = msgpack.packb(too_deep) if content is Content.MSGPACK else json.dumps(too_deep).encode()
    with pytest.raises(RemoteProtocolError, match="body_depth"):
        decode_map(data)


def both(tree: Any, content: Content) -> tuple[str, str]:
    """Return what the sender and the receiver say of a tree, empty if nothing."""
    said = []
    data = msgpack.packb(tree) if content is Content.MSGPACK else json.dumps(tree).encode()
    for act in (lambda: encode_map(tree, content), lambda: decode_map(data)):
        try:
            act()
            said.append("")
        except ProtocolError as error:
            said.append(str(error))
    return said[0], said[1]


@pytest.mark.parametrize("content", Content)
@pytest.mark.parametrize("child", [[], {}])
def test_maps_and_lists_are_bounded_on_both_sides(content: Content, child: Any) -> None:
    """As many maps and lists as the limit says travel, one more neither way; signs of them in a text are none."""
    fits = [child] * (BODY_CONTAINERS - 2)

    assert ("", "") == both({"rows": fits}, content)
    for said in both({"rows": [*fits, child]}, content):
        assert "body_containers" in said
    assert ("", "") == both({"rows": fits, "text": '[{"' * 100}, content)


@pytest.mark.parametrize("content", Content)
def test_keys_are_bounded_on_both_sides(content: Content) -> None:
    """A map of as many keys as the limit says travels, one more neither way."""
    fits = {f"{i:x}": 1 for i in range(BODY_KEYS)}

    assert ("", "") == both({"a": fits}, content)
    assert "body_keys" in both({"a": {**fits, "one": 1}}, content)[0]
    assert re.search("body_keys|max_map_len", both({"a": {**fits, "one": 1}}, content)[1])


@pytest.mark.parametrize("sign", [b"\xdd%b", b"\x81\xa1a\xdd%b", b"\xdf%b\xa1a"])
@pytest.mark.parametrize("size", [4096, 65_536, BODY_BYTES])
def test_no_memory_is_taken_for_what_is_not_there(sign: bytes, size: int) -> None:
    """Lists in lists, each of which says that it holds as much as there are bytes, are refused before any is made."""
    level = sign % (min(size, BODY_KEYS) - 64).to_bytes(4, "big")
    bomb = (b"\x81\xa1a" + level * 700).ljust(size, b"\0")[:size]
    tracemalloc.start()
    with pytest.raises(RemoteProtocolError, match="neither a msgpack map"):
        decode_map(bomb)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 32 * 1024 * 1024


def test_size_is_bounded_on_both_sides() -> None:
    """A body of the greatest size travels; one byte more is neither sent nor decoded."""
    data = b"x" * (BODY_BYTES - 8)
    body = encode_map({"a": data})

    assert BODY_BYTES == len(body)
    assert {"a": data} == decode_map(body)
    with pytest.raises(LocalProtocolError, match="body_bytes"):
        encode_map({"a": data + b"x"})
    with pytest.raises(RemoteProtocolError, match="body_bytes"):
        decode_map(body + b"x")


@pytest.mark.parametrize("content", Content)
@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, "\ud800"])
def test_what_cannot_travel_is_refused_by_its_sender(content: Content, value: object) -> None:
    """A value that the encoding does not know is our own mistake and is not sent."""
    with pytest.raises(LocalProtocolError):
        encode_map({"a": value}, content)


def test_content_is_told_by_the_first_byte() -> None:
    """No msgpack map begins like a JSON object, so that a receiver need not be told."""
    starts = {msgpack.packb(dict.fromkeys(map(str, range(n))))[:1] for n in (0, 1, 15, 16, 70_000)}

    assert b"{" not in starts


def test_undeclarable_field_is_refused_at_once() -> None:
    """A message with a field that cannot be checked is refused when its codec is built."""

    class Odd(Message):
        odd: set[int]

    with pytest.raises(LocalProtocolError, match="cannot be declared"):
        codec_of(Odd)


@given(st.recursive(st.none() | st.text() | st.integers(0, 9), st.lists, max_leaves=30))
def test_openings_are_not_fewer_than_maps_and_lists(tree: Any) -> None:
    """What is counted without decoding is never less than what decoding would make."""

    def count(node: Any) -> int:
        return 1 + sum(map(count, node)) if isinstance(node, list) else 0

    for content in Content:
        data = encode_map({"a": tree}, content)

        assert 1 + count(tree) <= openings(data)


def reachable() -> set[type[Any]]:
    """Return the classes that stand in a row of a table, or inside one that does."""
    todo = [kind for call in CALLS for kind in (call.request, call.reply)] + [tell.body for tell in TELLS]
    found: set[type[Any]] = set()
    while todo:
        kind = todo.pop()
        if dataclasses.is_dataclass(kind) and kind not in found:
            found.add(kind)
            todo += [field.type for field in dataclasses.fields(kind)]
        else:
            todo += typing.get_args(kind)
    return found


def test_every_message_is_in_a_row() -> None:
    """Each class and each verb stands in a table, once; a call is named after the role that answers it."""
    assert {*KINDS} - {Outer} == reachable()
    assert len(CALLS) == len({call.name for call in CALLS})
    assert [call.callee or "kernel" for call in CALLS] == [call.name.partition(".")[0] for call in CALLS]
    assert len(TELLS) == len({(tell.verb, tell.name) for tell in TELLS})
    assert set(Verb) - {Verb.CALL, Verb.REPLY} == {tell.verb for tell in TELLS}
