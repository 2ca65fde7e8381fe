import dataclasses
import types
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganglion.errors import RemoteProtocolError
from ganglion.limits import INTEGER_MAX
from ganglion.wire import messages
from ganglion.wire.codec import Content, codec_of, encode_map
from ganglion.wire.messages import CALLS, TELLS
from ganglion.wire.verb import Verb

KINDS = [kind for name, kind in sorted(vars(messages).items()) if name[0] != "_" and dataclasses.is_dataclass(kind)]

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


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_round_trip(kind: type[Any], data: st.DataObject) -> None:
    """Every message of every class comes back as it was, in both encodings."""
    message = data.draw(whole(kind))
    codec = codec_of(kind)

    assert message == codec.decode(codec.encode(message))
    assert message == codec.decode(codec.encode(message, Content.JSON))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_any_body_is_a_message_or_refused(kind: type[Any], data: st.DataObject) -> None:
    """No body leads to anything but a message or RemoteProtocolError that begins with the class or the body."""
    names = [field.name for field in dataclasses.fields(kind)] or ["none"]
    tree = data.draw(st.dictionaries(st.sampled_from(names), trees, max_size=6))
    try:
        message = codec_of(kind).decode(encode_map(tree))
    except RemoteProtocolError as error:
        complaint = str(error)
    else:
        complaint = kind.__name__.lower() + "."
        assert type(message) is kind
    assert complaint.startswith(kind.__name__.lower() + ".")


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
    assert set(KINDS) == reachable()
    assert len(CALLS) == len({call.name for call in CALLS})
    assert [call.callee or "kernel" for call in CALLS] == [call.name.partition(".")[0] for call in CALLS]
    assert len(TELLS) == len({(tell.verb, tell.name) for tell in TELLS})
    assert set(Verb) - {Verb.CALL, Verb.REPLY} == {tell.verb for tell in TELLS}
