from __future__ import annotations

from ganglion.wire.verb import Verb


def test_numbers_are_those_of_protocol_1() -> None:
    """The number of a verb never changes: it stands in the bytes of every message."""
    expected = ["HELLO", "WELCOME", "CALL", "REPLY", "ERROR", "TELL", "SIGNAL", "BEAT", "LOST", "BYE"]

    assert expected == [verb.name for verb in sorted(Verb)]
    assert list(range(1, 11)) == [verb.value for verb in sorted(Verb)]
