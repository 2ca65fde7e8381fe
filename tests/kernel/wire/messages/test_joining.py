from typing import Any

import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.wire.codec import codec_of, encode_map
from ganglion.wire.messages import PROTOCOL_VERSION, Bye, Done, Failure, Hello, Lost, Nothing


def test_least_hello() -> None:
    """Version, role and name are enough to ask: no token, msgpack, and nothing that is special."""
    body = {"version": PROTOCOL_VERSION, "role": "observer", "name": "o"}

    expected = Hello(1, "observer", "o", token="", language="", content="msgpack", incarnation=0, features=None)
    assert expected == codec_of(Hello).decode(encode_map(body))


@pytest.mark.parametrize("kind", [Bye, Done, Nothing], ids=lambda kind: kind.__name__)
def test_empty_body(kind: type[Any]) -> None:
    """Who leaves, has done, or has nothing to say may leave the body empty."""
    assert kind() == codec_of(kind).decode(b"")


def test_least_error() -> None:
    """An ERROR needs its kind and a text; a text alone does not say who can put it right."""
    assert Failure("failed", "no") == codec_of(Failure).decode(encode_map({"kind": "failed", "message": "no"}))
    with pytest.raises(RemoteProtocolError, match=r"failure\.kind: expected"):
        codec_of(Failure).decode(encode_map({"message": "no"}))


def test_lost_is_for_good_unless_it_says_otherwise() -> None:
    """LOST without `returns` tells of a peer for which nobody comes."""
    lost = codec_of(Lost).decode(encode_map({"peer": "run/brain", "incarnation": 2, "reason": "killed"}))

    assert lost.returns is False
