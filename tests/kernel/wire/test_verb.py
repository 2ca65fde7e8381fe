from __future__ import annotations

import pytest

from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.verb import Verb


def test_numbers_are_those_of_protocol_1() -> None:
    """The number of a verb never changes: it stands in the bytes of every message."""
    expected = ["HELLO", "WELCOME", "CALL", "REPLY", "ERROR", "TELL", "SIGNAL", "BEAT", "LOST", "BYE"]

    assert expected == [verb.name for verb in sorted(Verb)]
    assert list(range(1, 11)) == [verb.value for verb in sorted(Verb)]


@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("serial", [0, 1, 2**53 - 1])
def test_verb_is_the_second_byte_of_a_head(verb: Verb, serial: int) -> None:
    """A broker reads the verb without decoding, whatever else the head holds."""
    head = encode_head(Head(verb, serial, "muscle.act", (1, 2, 3, 4, 5, 6), 2**53 - 1))

    assert verb == head[1]
