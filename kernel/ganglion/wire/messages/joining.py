"""Joining and leaving: what is said between every peer and the kernel, whatever the role."""

from typing import Any

from ganglion.wire.messages.declaration import message

__all__ = ["PROTOCOL_VERSION", "Bye", "Done", "Failure", "Hello", "Lost", "Nothing", "Welcome"]

PROTOCOL_VERSION = 1


@message
class Hello:
    """Ask to join under a name; the first message of every peer."""

    version: int
    role: str
    name: str
    token: str = ""
    language: str = ""
    content: str = "msgpack"
    incarnation: int = 0
    features: list[str] | None = None  # "beats_in_call": answers BEAT while it works on a CALL


@message
class Welcome:
    """Tell a peer that it has joined, under which name, and what holds from now on."""

    version: int
    name: str
    incarnation: int
    beat_after_s: float
    beat_answer_s: float
    limits: dict[str, int]
    run: str = ""
    worker: int | None = None
    next: str = ""  # one sentence: what this peer may expect


@message
class Failure:
    """Say why a CALL failed, or why a connection ends: the body of every ERROR."""

    kind: str
    message: str
    where: str | None = None
    traceback: str | None = None
    retry_after_ms: int | None = None
    data: dict[str, Any] | None = None


@message
class Lost:
    """Tell a watcher, and who waits for its answer, that a peer is gone."""

    peer: str
    incarnation: int
    reason: str
    returns: bool = False  # a successor will come: open calls are to be said again
    idle: bool = False  # nobody awaited an answer of it


@message
class Bye:
    """Leave in order; answered with an empty BYE."""

    reason: str = ""


@message
class Nothing:
    """Carry nothing: a request without fields."""


@message
class Done:
    """Carry nothing: it is done."""
