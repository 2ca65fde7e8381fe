"""A broker with peers at its links: every message goes through `receive`, every effect is kept as a plain tuple."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from ganglion.broker.core import Broker
from ganglion.broker.link import Admission, Close, Effect, Link, Note, Send
from ganglion.wire.codec import codec_of, decode_map
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import Hello
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb


def digest(token: str) -> bytes:
    """Return what the register keeps of a token."""
    return hashlib.sha256(token.encode()).digest()


class Bus:
    """Hold one broker and the links of its peers, by name."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.broker = Broker(digest("boss"), "1.2.3", 4711, self.now_s)
        self.peers: dict[str, Link] = {}
        self.closed: list[Link] = []
        self.notes: list[Note] = []

    def take(self, effects: Sequence[Effect]) -> list[tuple[Any, ...]]:
        """Return what is sent as (receiver, from, verb, serial, call, body); keep what is closed and noted."""
        said = []
        for effect in effects:
            if isinstance(effect, Send):
                head = decode_head(effect.frames[1])
                body = decode_map(effect.frames[2])
                row = (effect.link.name, effect.frames[0].decode(), head.verb, head.serial, head.call, body)
                said.append(row)
            elif isinstance(effect, Close):
                self.closed.append(effect.link)
            else:
                self.notes.append(effect)
        self.broker.check()
        return said

    def connect(self) -> Link:
        link, effects = self.broker.connect(self.now_s)
        self.take(effects)
        return link

    def admit(self, name: str, role: Role, run: str = "farm", token: str = "", **more: Any) -> None:
        """Let a name join with its token, by default the name itself."""
        self.broker.admit(Admission(name, role, run, digest(token or name), **more))

    def hello(self, link: Link, name: str, role: str, token: str, **more: Any) -> list[tuple[Any, ...]]:
        """Say HELLO; returns what is said because of it."""
        hello = Hello(more.pop("version", 1), role, name, token, **more)
        frames = [b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)]
        return self.take(self.broker.receive(link, frames, self.now_s))

    def join(self, name: str, role: Role, run: str = "farm", **more: Any) -> Link:
        """Admit a name and let it join."""
        features, content = more.pop("features", None), more.pop("content", "msgpack")
        if role is not Role.SUPERVISOR:
            self.admit(name, role, run, **more)
        link = self.connect()
        token = "boss" if role is Role.SUPERVISOR else name
        said = self.hello(link, name, role.value, token, features=features, content=content)
        assert Verb.WELCOME in [row[2] for row in said], said
        self.peers[name] = link
        return link

    def say(
        self, source: Link, to: str, verb: Verb, serial: int = 0, call: str = "", body: bytes = b""
    ) -> list[tuple[Any, ...]]:
        """Let a peer say something; returns what is said because of it."""
        frames = [to.encode(), encode_head(Head(verb, serial, call)), body]
        return self.take(self.broker.receive(source, frames, self.now_s))

    def ask(self, source: Link, call: str, message: Any = None, serial: int = 1) -> list[tuple[Any, ...]]:
        """Let a peer call the kernel; returns what is said because of it."""
        body = b"" if message is None else codec_of(type(message)).encode(message)
        return self.say(source, "", Verb.CALL, serial, call, body)

    def tick(self, passed_s: float = 0.25) -> list[tuple[Any, ...]]:
        """Let time pass and look at the clocks."""
        self.now_s += passed_s
        return self.take(self.broker.tick(self.now_s))


@pytest.fixture
def bus() -> Bus:
    """Return a broker that nobody has joined."""
    return Bus()


@pytest.fixture(scope="session")
def new_bus() -> type[Bus]:
    """Return what makes a broker, for tests of many examples."""
    return Bus
