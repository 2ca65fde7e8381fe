"""The life of a connection as a table: what a peer may say to the kernel, and when."""

from __future__ import annotations

from enum import Enum

from ganglion.wire.verb import Verb

__all__ = ["TRANSITIONS", "State"]


class State(Enum):
    """Say how far a connection has come."""

    CONNECTED = "connected"
    JOINED = "joined"
    GONE = "gone"


TRANSITIONS: dict[State, dict[Verb, State]] = {
    State.CONNECTED: {
        Verb.HELLO: State.JOINED,  # or GONE, with an ERROR that says why
        Verb.BYE: State.GONE,
    },
    State.JOINED: {
        Verb.CALL: State.JOINED,
        Verb.REPLY: State.JOINED,
        Verb.ERROR: State.JOINED,
        Verb.TELL: State.JOINED,
        Verb.SIGNAL: State.JOINED,
        Verb.BEAT: State.JOINED,
        Verb.BYE: State.GONE,
    },
    State.GONE: {},
}
"""What is no cell is refused with an ERROR and ends the connection. WELCOME and LOST are said by the kernel alone."""
