from __future__ import annotations

import dataclasses
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import LimitExceeded, RemoteProtocolError
from ganglion.limits import BODY_BYTES, PARCEL_BYTES, PARCEL_DEPTH, PLAN_BYTES
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import CALL_BY_NAME, CALLS, TELLS, Act, EnvironmentStart, GovernorStart, RecordBatch
from ganglion.wire.parcel import PARTS, attach, detach, encoded, lower

SMALL = {"name": "dummy", "params": {"size": 3}}
LARGE = {"name": "dummy", "params": {"numbers": list(range(PARCEL_BYTES))}}
DEEP: dict[str, Any] = {}
for _ in range(PARCEL_DEPTH + 1):
    DEEP = {"deeper": [DEEP]}


def start(**parts: Any) -> EnvironmentStart:
    """Return a request with these parts."""
    return EnvironmentStart("r", 0, "one", "train", 0, "hill", **{"params": {}, "seed": 1, "episode_seed": 1, **parts})


def test_every_part_is_a_field() -> None:
    """Each part is a field of the message that the call has, and that message says where its parcels are."""
    messages = {call.name: call.request for call in CALLS} | {tell.name: tell.body for tell in TELLS}

    for call, names in PARTS.items():
        fields = {field.name for field in dataclasses.fields(messages[call])}
        assert {"parcels", *names} <= fields
    assert {"record.batch"} == set(PARTS) - set(CALL_BY_NAME)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=3), st.booleans(), st.booleans())
def test_any_plan_arrives(plan: dict[str, Any], large: bool, deep: bool) -> None:
    """Whatever is in a plan: taken apart, sent and put together it is the plan."""
    plan = plan | ({"large": LARGE} if large else {}) | ({"deep": DEEP} if deep else {})
    request = GovernorStart("r", plan, "store")

    sent, blobs = detach("governor.start", request)
    body = codec_of(GovernorStart).encode(sent)

    assert len(body) < BODY_BYTES
    assert bool(blobs) == (large or deep)
    assert request == attach("governor.start", codec_of(GovernorStart).decode(body), blobs)
    assert [] == blobs or len(msgpack.packb(plan)) == len(blobs[0])


def test_a_batch_of_rows_may_be_large() -> None:
    """A record that is larger than a body travels beside it."""
    batch = RecordBatch(1, [["run", {"document": "x" * 2 * BODY_BYTES}]])

    sent, blobs = detach("record.batch", batch)

    assert ([], 1) == (sent.records, len(blobs))
    assert batch == attach("record.batch", sent, blobs)


def test_a_part_is_bounded() -> None:
    """A part that no message can hold is refused by the name of its bound."""
    with pytest.raises(LimitExceeded, match=r"governor\.start\.plan: .*limit plan_bytes"):
        detach("governor.start", GovernorStart("r", {"text": "x" * PLAN_BYTES}))


@pytest.mark.parametrize(
    ("parcels", "blobs", "text"),
    [
        ({"uid": 0}, [b"\x80"], "'uid' is no field that travels as a blob"),
        ({"params": 1}, [b"\x80"], "expected the number of one of 1 blobs, found 1"),
        ({"params": True}, [b"\x80"], "expected the number of one of 1 blobs, found True"),
        ({"params": -1}, [b"\x80"], "expected the number"),
        ({"params": "0"}, [b"\x80"], "expected the number"),
        ({"params": 0}, [b"\x90"], "expected dict in its blob, found list"),
        ({"params": 0}, [b"\xc1"], "expected msgpack in its blob, found c1"),
        ({"params": 0}, [b""], "expected msgpack in its blob"),
        ({"params": 0}, [msgpack.packb({"a": 1}) + b"\x00"], "expected msgpack in its blob"),
        ({"params": 0}, [b"\x91" * 2_000], "expected msgpack in its blob"),
    ],
)
def test_wrong_parcels_are_refused(parcels: dict[str, Any], blobs: list[bytes], text: str) -> None:
    """A parcel for another field, one that is not there, or that holds something else breaks the protocol."""
    with pytest.raises(RemoteProtocolError, match=text):
        attach("environment.start", start(plugin=SMALL, parcels=parcels), blobs)


VALUES = st.one_of(
    st.floats(allow_nan=False), st.integers(0, 9), st.binary(max_size=9), st.just(bytes(PARCEL_BYTES + 1))
)


ROWS = st.lists(st.lists(VALUES, max_size=3), max_size=3)
BLOCKS = st.lists(st.sampled_from([b"", bytes(8), bytes(PARCEL_BYTES), bytes(PARCEL_BYTES + 1)]), max_size=4)


@given(ROWS | BLOCKS, st.none() | ROWS | BLOCKS)
def test_large_values_and_blocks_travel_beside_the_body(readings: list[Any], rewards: list[Any] | None) -> None:
    """They come back in their places; where the body would be large, each that is larger than a parcel is a blob."""
    message = Act(readings, rewards)
    body, blobs = encoded(codec_of(Act), message)
    parts = [one for row in (*readings, *(rewards or [])) for one in (row if isinstance(row, list) else [row])]
    large = [one for one in parts if isinstance(one, bytes) and len(one) > PARCEL_BYTES]

    assert large == list(blobs)
    assert message == lower(codec_of(Act).decode(body), blobs)


@pytest.mark.parametrize("value", [{"blob": 1}, {"blob": -1}, {"blob": "0"}, {"blob": True}, {}, {"blob": None}])
def test_a_value_that_is_no_blob_is_refused(value: Any) -> None:
    """The message names the field, the number that there are, and what was found."""
    with pytest.raises(RemoteProtocolError, match="readings: expected the number of one of 1 blobs, found"):
        lower(Act([[value]]), [b"x"])
    with pytest.raises(RemoteProtocolError, match="readings: expected the number of one of 1 blobs, found"):
        lower(Act([value]), [b"x"])
