from __future__ import annotations

import contextlib
import datetime as dt
import math
import random
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.peer.portrait import NoPortrait, portray, restored
from ganglion.sdk import Box, Discrete, Mode, SensorInformation, Signal, SimTime

KEYS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=[]))
    | st.binary(),
    lambda inner: st.tuples(inner, inner),
    max_leaves=3,
)
ARRAYS = npst.arrays(
    st.sampled_from(["<f8", ">f4", "<i8", "|u1", "|b1", "<c16", "<M8[ns]", "<m8[s]", "<U3", "|S2"]),
    npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
VALUES = st.recursive(
    KEYS | st.floats() | st.complex_numbers() | ARRAYS | ARRAYS.map(lambda array: array.copy("F")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict)
        | st.dictionaries(KEYS, inner, max_size=3).map(lambda it: defaultdict(list, it))
        | st.lists(inner, max_size=3).map(lambda it: deque(it, maxlen=4))
        | st.frozensets(st.integers(0, 9), max_size=4)
        | st.binary(max_size=4).map(bytearray)
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    """Say whether two values are the same, bit by bit, with their types and the order of what they hold."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, np.ndarray | np.generic):
        flags = isinstance(one, np.generic) or (
            (one.flags.c_contiguous, one.flags.f_contiguous, one.flags.writeable)
            == (other.flags.c_contiguous, other.flags.f_contiguous, other.flags.writeable)
        )
        return flags and (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, dict):
        more = not isinstance(one, defaultdict) or one.default_factory is other.default_factory
        return more and same(list(one.items()), list(other.items()))
    if isinstance(one, list | tuple | deque):
        pairs = list(zip(one, other, strict=False))
        limit = not isinstance(one, deque) or one.maxlen == other.maxlen
        return limit and len(one) == len(other) and all(same(a, b) for a, b in pairs)
    return (
        bool(one == other) and list(one) == list(other) if isinstance(one, frozenset) else bool(one == other)
    )


@given(VALUES)
def test_plain_values_come_back_exactly(value: Any) -> None:
    """What can be portrayed is the same afterwards, with its types, orders, flags and limits."""
    assert same(value, restored(portray(value, {}), {}))


@given(st.sets(st.integers() | st.text(max_size=2)))
def test_sets_come_back_in_their_order_or_not_at_all(value: set[Any]) -> None:
    """A set is iterated over as before; one for which this cannot be is refused."""
    try:
        portrait = portray(value, {})
    except NoPortrait:
        return
    assert list(value) == list(restored(portrait, {}))


def test_two_names_of_one_thing_stay_so() -> None:
    """What is met twice is one thing afterwards too, also within itself."""
    weights, rows = np.zeros(3), [1, 2]
    value: dict[str, Any] = {"a": weights, "b": [weights, (rows, {"rows": rows})], "q": deque([rows])}
    value["all"] = value
    found = restored(portray(value, {}), {})

    assert found["a"] is found["b"][0]
    assert found["b"][1][0] is found["b"][1][1]["rows"] is found["q"][0]
    assert found["all"] is found
    assert weights is not found["a"]


@pytest.mark.parametrize("bits", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generators_go_on(bits: str) -> None:
    """Every kind of generator draws, and spawns, what it would have drawn."""
    one = np.random.Generator(getattr(np.random, bits)(7))
    one.random(3)
    one.integers(0, 9, dtype=np.uint32)
    one.spawn(1)
    old = np.random.RandomState(5)  # authors may use it
    old.normal()
    plain = random.Random(3)
    plain.gauss(0, 1)
    found, same_old, same_plain = restored(portray([one, old, plain], {}), {})

    assert one.random() == found.random()
    assert one.integers(0, 9, dtype=np.uint32) == found.integers(0, 9, dtype=np.uint32)
    assert one.spawn(1)[0].random() == found.spawn(1)[0].random()
    assert (old.normal(), plain.gauss(0, 1)) == (same_old.normal(), same_plain.gauss(0, 1))


def test_our_own_come_back() -> None:
    """Spaces with their streams, informations, times, modes and signals are as they were."""
    space = Box(0.0, 1.0, (2,))
    space.seed(np.random.default_rng(4))
    reading = SensorInformation(np.array([0.5, 0.25]), space, "e.x")
    stamp = SimTime(3, dt.datetime(2026, 1, 2, 3, 4))  # noqa: DTZ001 - one without a zone
    value = [space, reading, stamp, Mode.TEST, Signal.RESET, Discrete(3), Counter("aab")]
    found = restored(portray(value, {}), {})

    assert (space, stamp, Mode.TEST, Signal.RESET, Discrete(3), Counter("aab")) == (found[0], *found[2:])
    assert (SensorInformation, "e.x", [0.5, 0.25]) == (type(found[1]), found[1].uid, list(found[1].value))
    assert found[1].space is found[0]
    assert list(space.sample()) == list(found[0].sample())


@dataclass
class Body:
    """Be an object of an author."""

    size: float = 0.0
    head: Any = None

    def grow(self) -> None:
        """Become larger."""
        self.size += 1.0


class Saved:
    """Be an object that says itself what it is."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}
        self.file = object()

    def save_state(self) -> dict[str, Any]:
        """Return it."""
        return {"weights": np.ones(2)}

    def load_state(self, state: Any) -> None:
        """Take it."""
        self.seen = state


def test_the_hosts_objects_are_named() -> None:
    """What is known is not portrayed: afterwards the object of now stands in its place, and its methods."""
    memory, now, body = object(), object(), Body()
    value = {"mine": memory, "grow": body.grow}
    other = Body()
    found = restored(portray(value, {"memory": memory, "body": body}), {"memory": now, "body": other})
    found["grow"]()

    assert found["mine"] is now
    assert (0.0, 1.0) == (body.size, other.size)


def test_objects_are_portrayed_in_their_place() -> None:
    """An object that a successor has too is given its attributes, or its state; what was there besides is gone."""
    body, saved = Body(3.0), Saved()
    body.head = {"of": body, "saved": saved}
    sitters = {"body": body, "body.saved": saved}
    portrait = portray(body, {}, sitters, ["body.bus"])
    fresh, other = Body(), Saved()
    fresh.__dict__["later"] = 1
    found = restored(portrait, {"body": fresh, "body.saved": other})

    assert found is fresh
    assert (3.0, fresh, other) == (fresh.size, fresh.head["of"], fresh.head["saved"])
    assert [1.0, 1.0] == list(other.seen["weights"])
    assert "later" not in vars(fresh)


def test_objects_made_later_come_back_beside_one_of_their_class() -> None:
    """Where a successor has an object of a class it can have others; they are one thing wherever they are met."""
    body = Body(3.0)
    later = Body(4.0, [1])
    body.head = (later, {"again": later})
    fresh = Body()
    restored(portray(body, {}, {"body": body}), {"body": fresh})
    (found, others) = fresh.head

    assert (Body(4.0, [1]), found) == (found, others["again"])
    assert found is others["again"]
    assert found is not later


class Broken(Saved):
    """Be an object that takes no state."""

    def load_state(self, state: Any) -> None:
        """Fail."""
        raise TypeError("no")


class Mute(Saved):
    """Be an object that has no state to give."""

    def save_state(self) -> dict[str, Any]:
        """Fail."""
        raise OSError("the disk")


def test_what_load_state_raises_is_the_authors() -> None:
    """An object that does not take its state is named."""
    one = Broken()
    with pytest.raises(AuthorError, match="one: load_state: TypeError: no"):
        restored(portray(one, {}, {"one": one}), {"one": one})


def views() -> list[Any]:
    """Return two arrays that share their memory."""
    whole = np.zeros(4)
    return [whole, whole[:2]]


def unordered() -> set[int]:
    """Return a set whose elements stand in an order that another one would not have."""
    found = set(range(100))
    found -= set(range(100)) - {1, 64}
    assert [1, 64] == list(found) != list({1, 64})
    return found


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda: {"net": [print]}, r"net\[0\]: a builtin_function_or_method cannot be portrayed"),
        (lambda: {"net": {"w": Body()}}, r"net\.w: a .*Body cannot be portrayed"),
        (lambda: {"net": {"w": Saved()}}, r"net\.w: a .*Saved cannot be portrayed"),
        (lambda: {"x": np.array([None])}, "x: an array of dtype object"),
        (lambda: {"x": np.zeros((3, 3))[:, ::2]}, "x: an array that shows parts of another one"),
        (lambda: {"x": np.zeros(2, "i4,f4")}, "x: an array of dtype"),
        (views, r"\[1\]: an array that shares memory"),
        (lambda: {"x": {Body: 1}}, "x: a type as key of a map"),
        (lambda: {(1, (2, [].append)): 1}, "as key of a map"),
        (lambda: defaultdict(lambda: 1), "a defaultdict of"),
        (unordered, "a set whose order"),
        (lambda: [set("a"), {Mode}], "a set of other than plain values"),
        (type("Sub", (dict,), {}), "a .*Sub cannot be portrayed"),
        (lambda: [Body().grow], r"\[0\]: a method cannot be portrayed"),
        (lambda: SimTime(1, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)), "a time with a time zone"),
    ],
)
def test_what_cannot_come_back_is_refused_by_its_path(value: Callable[[], Any], words: str) -> None:
    """Anything that is not plain, or would come back as something else, is named with the way to it."""
    with pytest.raises(NoPortrait, match=words):
        portray(value(), {})


def test_what_cannot_be_saved_is_refused() -> None:
    """An object whose own state cannot be had, or is not plain, cannot be portrayed."""
    mute, body = Mute(), Body(head=object())
    with pytest.raises(NoPortrait, match="save_state: OSError: the disk"):
        portray(mute, {}, {"mute": mute})
    with pytest.raises(NoPortrait, match=r"body\.head: a object cannot be portrayed"):
        portray({"body": body}, {}, {"body": body})


def test_depth_is_bounded() -> None:
    """What is deeper than can be read again is refused."""
    value: list[Any] = []
    for _ in range(2000):
        value = [value]
    with pytest.raises(NoPortrait, match="levels"):
        portray(value, {})


@given(st.binary(max_size=40) | VALUES.map(lambda value: bytes(portray(value, {})[0])[:-1]))
def test_what_is_no_portrait_is_refused(data: bytes) -> None:
    """Bytes that are something else give a declared error, or plain values."""
    with contextlib.suppress(RemoteProtocolError):
        restored([data], {})


@pytest.mark.parametrize(
    "array",
    [
        np.arange(30_000.0).reshape(150, 200),
        np.arange(30_000.0).reshape(150, 200).copy("F"),
        np.arange(30_000).astype("<M8[s]"),
        np.arange(90_000) % 7 == 0,
    ],
)
def test_large_array_is_a_part_of_its_own(array: np.ndarray[Any, Any]) -> None:
    """A large array comes back as it was, and its part of the portrait shows the array's own memory, not a copy."""
    tree, part = portray({"memory": array}, {})

    assert np.shares_memory(array, np.frombuffer(part, np.uint8))
    assert len(tree) < 1000
    assert same({"memory": array}, restored([tree, bytes(part)], {}))
