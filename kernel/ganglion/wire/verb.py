"""The verbs of the bus: the part of a message that a broker reads before forwarding."""

from __future__ import annotations

from enum import IntEnum


class Verb(IntEnum):
    """Name the kind of a message.

    The number is the first element of the head, a positive msgpack fixint, hence the head's second byte, which is
    readable without decoding.
    """

    HELLO = 1
    WELCOME = 2
    CALL = 3
    REPLY = 4
    ERROR = 5
    TELL = 6
    SIGNAL = 7
    BEAT = 8
    LOST = 9
    BYE = 10
