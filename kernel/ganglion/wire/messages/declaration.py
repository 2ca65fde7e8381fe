"""What the protocol is declared with: the decorator of a message, rows of calls and of what goes one way."""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

__all__ = ["Call", "Tell", "message"]

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def message(kind: type[T]) -> type[T]:
    """Make a class a message: a dataclass with slots, frozen for who checks types.

    Not frozen at run time: that would take three times as long for each message of each step.
    """
    return dataclass(slots=True)(kind)


class Call(NamedTuple):
    """Be one row of the table of calls."""

    name: str
    callers: tuple[Role, ...]
    callee: Role | None  # None: the kernel
    request: type[Any]
    reply: type[Any]


class Tell(NamedTuple):
    """Be one row of the table of one-way messages."""

    name: str
    verb: Verb
    senders: str
    receivers: str
    body: type[Any]
