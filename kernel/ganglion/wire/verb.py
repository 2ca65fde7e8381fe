"""The verbs of the bus: what a broker reads of a message before it forwards it."""

from __future__ import annotations

from enum import IntEnum


class Verb(IntEnum):
    """Say what kind of message this is.

    The number is the first element of the head, a positive msgpack fixint, so that it is the head's second byte and
    can be read without decoding.
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
