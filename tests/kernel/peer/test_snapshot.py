from __future__ import annotations

import contextlib
import datetime as dt
import math
import random
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.peer.author import identity, seed_process
from ganglion.peer.journal.snapshot import NotPlain, Packer, Reader, Snapshot
from ganglion.sdk import ActuatorInformation, Box, Discrete, Mode, RewardInformation, SensorInformation, SimTime
from ganglion.sdk.memory import Memory
from ganglion.sdk.seed import derive, generator_from_words, words
from ganglion.wire.journal import MAGIC, Kind, block, read_base, read_records

STREAM = words(1, ["muscle"])
KEYS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary()
KEYS |= st.text(st.characters(exclude_categories=[]))
ARRAYS = npst.arrays(
    st.sampled_from(["<f8", ">f4", "<i8", "|u1", "|b1", "<c16", "<M8[ns]", "<m8[s]", "<U3", "|S2"]),
    npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
VALUES = st.recursive(
    KEYS | st.floats() | ARRAYS | ARRAYS.map(lambda array: array.copy("F")),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


def sent(tree: Any) -> Any:
    """Return a tree as it is read from a journal."""
    base = (Kind.BASE, 1.0, (1, tree, []))
    (one,) = read_records(b"".join([MAGIC, *block([base])]))
    return read_base(one.payload)[1]


def again(value: Any, given: Any = None) -> Any:
    """Return what comes back of a value."""
    return Reader(given or {}).read(sent(Packer(given or {}).pack(value, "it")))


def same(one: Any, other: Any) -> bool:
    """Say whether two values are the same, bit for bit, with their types and the order of what they hold."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, np.ndarray | np.generic):
        keys = ("c_contiguous", "f_contiguous", "writeable")
        flags = [[getattr(it.flags, key) for key in keys] for it in (one, other) if isinstance(it, np.ndarray)]
        told = [(it.dtype, it.shape, it.tobytes()) for it in (one, other)]
        return flags[:1] == flags[1:] and told[0] == told[1]
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@given(VALUES)
def test_plain_values_come_back_exactly(value: Any) -> None:
    """What can be packed is the same afterwards, with its types, orders and flags."""
    assert same(value, again(value))


@dataclass
class Body:
    """Be a dataclass of an author."""

    size: float = 0.0
    seen: list[Any] = field(default_factory=list)


def test_two_names_of_one_thing_stay_so() -> None:
    """What is met twice is one thing afterwards too, also within itself."""
    weights, rows = np.zeros(3), [1, 2]
    value: dict[str, Any] = {"a": weights, "b": [weights, (rows, {"rows": rows})], "body": Body(1.5, rows)}
    value["all"] = value
    found = again(value)

    assert found["a"] is found["b"][0]
    assert found["b"][1][0] is found["b"][1][1]["rows"] is found["body"].seen
    assert found["all"] is found
    assert (weights is not found["a"], Body(1.5, [1, 2])) == (True, found["body"])


@pytest.mark.parametrize("bits", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generators_go_on(bits: str) -> None:
    """Every kind of generator draws, and spawns, what it would have drawn."""
    one = np.random.Generator(getattr(np.random, bits)(7))
    one.integers(0, 9, 4, dtype=np.uint32)
    one.spawn(1)
    found, behind = again([one, [0]])

    assert (one.random(), [0]) == (found.random(), behind)
    assert one.spawn(1)[0].random() == found.spawn(1)[0].random()


def test_times_and_members_of_enumerations_come_back() -> None:
    """So do values of our own that are dataclasses."""
    value = [SimTime(3, dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC)), Mode.TEST, np.float32(0.1)]

    assert same(value[1:], again(value)[1:])
    assert value == again(value)


def views() -> list[Any]:
    """Return two arrays that share their memory."""
    whole = np.zeros(4)
    return [whole, whole[:2]]


def streams() -> list[Any]:
    """Return two generators of one stream."""
    one = np.random.default_rng(1)
    return [one, np.random.Generator(one.bit_generator)]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda: {"net": [print]}, r"it\.net\[0\]: a builtin_function_or_method is no plain value"),
        (lambda: {1: {"w": object()}}, r"it\[1\]\.w: a object is no plain value"),
        (lambda: Body(seen=[{1}]), r"it\.seen\[0\]: a set is no plain value"),
        (lambda: {"x": np.array([None])}, r"it\.x: an array of dtype object"),
        (lambda: {"x": np.zeros((3, 3))[:, ::2]}, "a view of a part of another array"),
        (lambda: [random.Random(1)], r"it\[0\]: a Random is no plain value"),
        (lambda: [deque([1])], r"it\[0\]: a deque is no plain value"),
        (views, r"\[1\]: an array that shares its memory"),
        (streams, r"\[1\]: a generator that shares its stream"),
        (type("Sub", (dict,), {}), "Sub is no plain value"),
        (dataclass(type("Local", (), {})), "a Local is no plain value"),
    ],
)
def test_what_cannot_come_back_is_refused_by_its_path(value: Callable[[], Any], words: str) -> None:
    """Anything that is not plain, or would come back as something else, is named with the way to it."""
    with pytest.raises(NotPlain, match=words):
        again(value())


class Actor:
    """Be an author's object."""

    rng: Any
    memory: Any
    sensors: Any

    def __init__(self) -> None:
        self.weights = np.zeros(2)
        self.bodies = [Body()]
        self.activation = np.tanh
        self.spaces = {"unit": Box(0.0, 1.0, ())}
        self.act: Any = print
        self.seen: dict[Any, Any] = {}

    def live(self) -> list[float]:
        """Do something by chance, and by all that it has."""
        x = float(self.rng.random() + random.random() + np.random.rand())  # noqa: NPY002 - authors may use it
        self.weights = self.activation(self.weights + x)
        self.bodies = [*self.bodies, Body(x)]
        self.seen[len(self.seen), x] = self.sensors[0]
        drawn = float(self.sensors[0].space.sample()[0])
        self.memory.append(
            "a/0",
            sensor_readings=[[drawn, drawn]],
            actuator_setpoints=[1],
            rewards=[x],
            objective=x,
            next_readings=[[x % 1, 0.5]],
            additional_data={"x": np.array([x])},
        )
        tail = self.memory.tail(3)
        return [x, drawn, float(self.weights.sum()), float(tail.objective.sum()), len(self.memory)]


def made(cls: type[Any] = Actor) -> tuple[Any, Snapshot]:
    """Return an object as a host makes it, with what takes its state."""
    seed_process(STREAM)
    space = Box(0.0, 1.0, (2,))
    space.seed(generator_from_words(derive(STREAM, "space")))
    actor, memory = cls(), Memory()
    sensors = [SensorInformation(None, space, "w.s")]
    memory.declare(
        sensors, [ActuatorInformation(None, Discrete(3), "w.a")], [RewardInformation(None, Box(0.0, 9.0, ()), "w.r")]
    )
    actor.__dict__ |= {"memory": memory, "sensors": sensors, **identity(STREAM)}
    return actor, Snapshot({"muscle": (actor, ("memory", "sensors"))}, memory, [space], ["muscle.bus"])


def test_an_object_goes_on_bit_by_bit() -> None:
    """Whatever it has, the one into which a state is put does the same as the one it was taken of would have done."""
    actor, snapshot = made()
    for _ in range(300):
        actor.live()
    actor.bus = object()
    data = sent(snapshot.take({"told": True}))
    expected = [actor.live() for _ in range(5)]
    other, fresh = made()
    other.later = 1
    read = fresh.read(data)
    fresh.put(read)

    assert {"told": True} == read["books"]
    assert expected == [other.live() for _ in range(5)]
    assert all(one is other.sensors[0] for one in other.seen.values())
    assert (False, False) == (hasattr(other, "bus"), hasattr(other, "later"))


class Speaks(Actor):
    """Say what it is, though it has something that is not plain; `fails` is what raises."""

    fails = ""

    def __init__(self) -> None:
        super().__init__()
        self.socket = threading.Lock()

    def save_state(self) -> dict[str, Any]:
        """Return it."""
        return {"weights": self.weights} if self.fails != "save" else {}["the disk"]

    def load_state(self, state: Any) -> None:
        """Take it."""
        self.weights = state["weights" if self.fails != "load" else "nets"]


def test_objects_say_themselves_what_they_are() -> None:
    """By `save_state` and `load_state`, also where attributes are not taken any more; what they raise is theirs."""
    with pytest.raises(NotPlain, match=r"^muscle \(Actor\): this run has begun a phase again before$"):
        made()[1].take({}, attributes=False)
    actor, snapshot = made(Speaks)
    actor.weights = np.ones(2)
    data = sent(snapshot.take({}, attributes=False))
    other, fresh = made(Speaks)
    fresh.put(fresh.read(data))
    refuses, mute = (made(type(f"Not{fails}", (Speaks,), {"fails": fails}))[1] for fails in ("load", "save"))

    assert [1.0, 1.0] == list(other.weights)
    with pytest.raises(AuthorError, match=r"muscle \(Notload\): load_state: KeyError: 'nets'"):
        refuses.put(refuses.read(data))
    with pytest.raises(NotPlain, match=r"muscle \(Notsave\): save_state: KeyError: 'the disk'"):
        mute.take({})


@given(st.binary(max_size=40) | VALUES.map(lambda value: Packer({}).pack(value, "")))
def test_what_is_no_snapshot_is_refused(data: Any) -> None:
    """What is something else gives a declared error."""
    with contextlib.suppress(RemoteProtocolError):
        made()[1].read(data)
    with contextlib.suppress(RemoteProtocolError):
        made()[1].read({"books": data, "objects": {"muscle": {}}})


def _data(state: Any, name: str) -> Any:
    """Return the bytes of an array that a snapshot has of an object."""
    _, (_, *pairs) = state["objects"]["muscle"]
    return next(tree[4] for key, tree in zip(pairs[::2], pairs[1::2], strict=True) if key == name)


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
    """A large array comes back as it was, and its part of the snapshot shows the array's own memory, not a copy."""
    actor, snapshot = made()
    actor.weights = array
    state = snapshot.take({})
    other, fresh = made()
    fresh.put(fresh.read(sent(state)))

    assert np.shares_memory(array, np.frombuffer(_data(state, "weights"), np.uint8))
    assert same(array, other.weights)
