from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import RemoteProtocolError
from ganglion.limits import HEAD_BYTES, INTEGER_MAX
from ganglion.wire.envelope import Envelope, Head, decode, decode_head, encode, encode_head
from ganglion.wire.verb import Verb

# (head, its bytes): used in both directions.
HEAD_CASES = [
    (Head(Verb.BEAT), "920800"),
    (Head(Verb.REPLY, 7), "920407"),
    (Head(Verb.BEAT, 1, "here"), "930801a468657265"),
    (Head(Verb.CALL, 300, "muscle.act"), "9303cd012caa6d7573636c652e616374"),
    (Head(Verb.CALL, 1, "", (0, 1, 2, 0, 3, 1)), "940301a0960001020003" + "01"),
    (Head(Verb.CALL, 1, "a.b", None, 30_000), "950301a3612e62c0cd7530"),
    (Head(Verb.TELL, 0, "event"), "930600a56576656e74"),
]

# What other senders may leave out, or spell otherwise.
LENIENT_CASES = [
    ([3], Head(Verb.CALL)),
    ([3, 5, None], Head(Verb.CALL, 5)),
    ([3, 5, None, None, None], Head(Verb.CALL, 5)),
    ([6, 0, "event", None, None, "new", {"in": "protocol 2"}], Head(Verb.TELL, 0, "event")),
]

REFUSED_CASES = [
    ([], "expected an array that begins with a verb"),
    ({"verb": 3}, "found dict"),
    (3, "found int"),
    ([0], r"head\[0\]: expected a verb 1 to 10, found 0"),
    ([11], r"head\[0\]"),
    ([True], r"head\[0\]"),
    ([3.0], r"head\[0\]"),
    (["CALL"], r"head\[0\]"),
    ([3, -1], r"head\[1\]: expected a serial"),
    ([3, INTEGER_MAX + 1], r"head\[1\]"),
    ([3, True], r"head\[1\]"),
    ([3, None], r"head\[1\]"),
    ([3, 1, 4], r"head\[2\]: expected the name of a call, found int"),
    ([3, 1, b"call"], r"head\[2\]"),
    ([3, 1, "c", []], r"head\[3\]"),
    ([3, 1, "c", [1, 2, 3, 4, 5]], r"head\[3\]: expected \[phase, worker"),
    ([3, 1, "c", [1, 2, 3, 4, 5, -1]], r"head\[3\]: expected six counts, found -1"),
    ([3, 1, "c", [1, 2, 3, 4, 5, 6.0]], r"head\[3\]"),
    ([3, 1, "c", None, -1], r"head\[4\]: expected milliseconds, found -1"),
    ([3, 1, "c", None, 1.5], r"head\[4\]"),
]

counts = st.integers(0, INTEGER_MAX)
heads = st.builds(
    Head, st.sampled_from(Verb), counts, st.text(max_size=40), st.none() | st.tuples(*[counts] * 6), st.none() | counts
)


@pytest.mark.parametrize(("head", "data"), HEAD_CASES)
def test_head_and_its_bytes(head: Head, data: str) -> None:
    """A head has exactly these bytes, and these bytes are exactly this head."""
    assert data == encode_head(head).hex()
    assert head == decode_head(bytes.fromhex(data))


@pytest.mark.parametrize(("fields", "head"), LENIENT_CASES)
def test_missing_and_unknown_elements(fields: list[object], head: Head) -> None:
    """Trailing elements may be missing, null, or newer than we are."""
    assert head == decode_head(msgpack.packb(fields))


@pytest.mark.parametrize(("fields", "text"), REFUSED_CASES)
def test_refused_head_names_the_element(fields: object, text: str) -> None:
    """A head that breaks the protocol is refused, with the element that does."""
    with pytest.raises(RemoteProtocolError, match=text):
        decode_head(msgpack.packb(fields))


def test_head_has_a_greatest_size() -> None:
    """A head beyond its limit is refused before it is decoded."""
    text = "c" * (HEAD_BYTES - 5)
    fits = msgpack.packb([3, 1, text])

    assert HEAD_BYTES == len(fits)
    assert text == decode_head(fits).call
    with pytest.raises(RemoteProtocolError, match="at most 256 bytes, found 257"):
        decode_head(msgpack.packb([3, 1, text + "c"]))


@given(st.text(max_size=20), heads, st.binary(max_size=20), st.lists(st.binary(max_size=20), max_size=3))
def test_envelope_round_trip(peer: str, head: Head, body: bytes, blobs: list[bytes]) -> None:
    """An envelope comes back from its frames; every blob is a frame of its own."""
    envelope = Envelope(peer, head, body, tuple(blobs))
    frames = encode(envelope)

    assert 3 + len(blobs) == len(frames)
    if len(frames[1]) <= HEAD_BYTES:
        assert envelope == decode(frames)


@pytest.mark.parametrize(
    ("frames", "text"), [([], "found 0"), ([b"peer"], "found 1"), ([b"\xff", encode_head(Head(Verb.BEAT))], "frame 0")]
)
def test_refused_frames(frames: list[bytes], text: str) -> None:
    """A message has a head and the name of a peer, in UTF-8, at least."""
    with pytest.raises(RemoteProtocolError, match=text):
        decode(frames)
