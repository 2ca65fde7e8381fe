"""The relay: the broker of another node, which joins each of its peers to the kernel's broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ganglion import limits
from ganglion.broker.core import Broker, content_of, serial_of
from ganglion.broker.link import Climb, Close, Effect, Link, Note, Peer, Route, Send, State
from ganglion.errors import GanglionError, RemoteProtocolError
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import Failure, Hello, Lost, Near, Welcome
from ganglion.wire.name import Role, part_of
from ganglion.wire.verb import Verb

_HERE = (b"", encode_head(Head(Verb.BEAT, 0, "here")), b"")
_TELL_S = 1.0
_WELCOME_S = 5 * limits.HANDSHAKE_S
_ANSWERS = (Verb.REPLY, Verb.ERROR)


class Relay(Broker):
    """Route messages between the peers of one node, and pass all other messages to the kernel's broker.

    Each peer has an uplink, over which it joins the kernel's broker under its own name with its own token. The kernel's
    broker treats it as any other peer and decides about all messages of the uplink. Messages within the node have the
    same permissions. The relay reports by `kernel.near` what the kernel's broker cannot see: whose answers a peer
    awaits here, who awaits a lost peer, and how many messages were local. Only the kernel's broker sends LOST, because
    it knows which peers return.

    Beside the calls of `Broker`, a front calls `descend` for a message from an uplink and `fall` for a lost uplink.
    """

    def __init__(self, version: str, pid: int, now_s: float, peers_max: int = limits.PEERS) -> None:
        super().__init__(b"", version, pid, now_s, peers_max)
        self._ups: dict[int, Link] = {}  # key of a connection -> its uplink
        self._coming: dict[int, Hello] = {}  # HELLO of each connection that waits for WELCOME
        self._asked: dict[int, set[tuple[bytes, int]]] = {}  # key -> callers and serials from the kernel's side
        self._told: dict[int, Near] = {}
        self._told_s = now_s

    def tick(self, now_s: float) -> list[Effect]:
        """Check the time limits of all connections; report local messages to the kernel once a second."""
        effects: list[Effect] = []
        for key in list(self._coming):
            self.links[key].born_s = now_s  # from here on the kernel's broker limits the handshake
            if now_s - self._ups[key].born_s > _WELCOME_S:
                effects += self.fall(self._ups[key], "the kernel did not answer HELLO", now_s)
        effects += super().tick(now_s)
        if now_s - self._told_s >= _TELL_S:
            self._told_s = now_s
            for link in self.joined.values():
                effects += self._tell_near(link)
        return effects

    def check(self) -> None:
        """Assert the invariants of the relay's tables; for tests."""
        super().check()
        assert self._ups.keys() == self._coming.keys() | {link.key for link in self.joined.values()}
        assert self._ups.keys() <= self.links.keys()
        assert self._asked.keys() | self._told.keys() <= self._ups.keys()

    # -- messages from the kernel's side ------------------------------------------------------------------------------
    def descend(self, up: Link, frames: Sequence[bytes], now_s: float) -> list[Effect]:
        """Decide about one message `[from][head][body][blob ...]` from the kernel's broker to a peer."""
        link = self.links.get(up.key)
        if link is None or self._ups.get(up.key) is not up:
            return []
        try:
            head = decode_head(frames[1])
            if head.verb is Verb.WELCOME:
                return self._welcome(link, frames, now_s)
            if head.verb is Verb.ERROR and link.peer is None and codec_of(Failure).decode(frames[2]).kind == "name":
                former = self.joined.get(self._coming[link.key].name)
                if former is not None:
                    former.claimed = True
        except (GanglionError, IndexError, ValueError) as error:
            return self.fall(up, f"the kernel sent what is no message: {error}", now_s)
        said = Send(link, tuple(frames))
        if frames[0]:
            if head.verb is Verb.CALL:
                self._asked.setdefault(up.key, set()).add((bytes(frames[0]), head.serial))
            return [said]
        if head.verb is Verb.BEAT:  # the relay sends its peers BEATs of its own
            return [] if head.call else [Send(up, _HERE)]
        if head.verb is Verb.BYE or link.peer is None:  # the kernel has ended the connection, or refuses it
            return [said, *self._let_go(link, up, "left", now_s)]
        return [said]

    def fall(self, up: Link, reason: str, now_s: float) -> list[Effect]:
        """Close the connection of a peer whose uplink is lost; the peer may join again."""
        link = self.links.get(up.key)
        if link is None or self._ups.get(up.key) is not up:
            return []
        open_here = [(one.target, serial) for one in link.routes.values() if one.back for serial in one.back.open]
        # The callers retry these calls through the uplink, and the kernel knows whether the peer returns.
        again = [self._again(caller, serial_of(serial), reason, {"absent": True}) for caller, serial in open_here]
        return [*again, *self._let_go(link, up, reason, now_s)]

    def _let_go(self, link: Link, up: Link, reason: str, now_s: float) -> list[Effect]:
        self._forget(link)
        return [*self._end(link, reason, now_s), Close(link, reason), Close(up, reason)]

    def _welcome(self, link: Link, frames: Sequence[bytes], now_s: float) -> list[Effect]:
        hello = self._coming.pop(link.key)
        found = codec_of(Welcome).decode(frames[2])
        uid, evaluation = part_of(found.name)
        content = content_of(hello.content)
        beats = hello.features is not None and "beats_in_call" in hello.features
        peer = Peer(found.name, Role(hello.role), found.run, found.incarnation, uid, found.worker, content)
        peer = replace(peer, language=hello.language[:32], beats_in_call=beats, evaluation=evaluation)
        effects: list[Effect] = []
        former = self.joined.get(peer.name)
        if former is not None:  # the kernel has ended it
            effects += self._let_go(former, self._ups[former.key], "succeeded", now_s)
        link.peer, link.state, link.joined_s = peer, State.JOINED, now_s
        self.joined[peer.name] = link
        note = Note("info", "peer.joined", {"name": peer.name, "language": peer.language})
        return [*effects, Send(link, tuple(frames)), note]

    # -- messages from the peers of the node --------------------------------------------------------------------------
    def _hello(self, link: Link, head: Head, frames: Sequence[bytes], now_s: float) -> list[Effect]:
        if head.verb is Verb.BYE:
            return [*self._end(link, "left", now_s), Close(link, "left")]
        try:
            if link.key in self._coming or len(frames) != 3 or frames[0]:
                raise RemoteProtocolError("HELLO: expected once, with the frames [][head][body]")
            hello = codec_of(Hello).decode(frames[2])
            content_of(hello.content)
        except RemoteProtocolError as error:
            return self._refuse(link, head.serial, "protocol", str(error), now_s)
        up = self._ups[link.key] = Link(link.key, now_s)
        self._coming[link.key] = hello
        return [Climb(up), Send(up, tuple(frames))]

    def _forward(
        self, link: Link, peer: Peer, head: Head, to: bytes, frames: Sequence[bytes], now_s: float
    ) -> list[Effect]:
        there = self.joined.get(to.decode(errors="replace"))
        if there is not None and there is not link and (head.verb not in _ANSWERS or self._awaits(there, peer, head)):
            return super()._forward(link, peer, head, to, frames, now_s)
        if head.verb in _ANSWERS:  # also to a local peer whose call came through the kernel
            self._asked.get(link.key, set()).discard((to, head.serial))
        return [Send(self._ups[link.key], tuple(frames))]

    def _awaits(self, caller: Link, peer: Peer, head: Head) -> bool:
        """Return True if the peer has an open local call that this answer settles."""
        route = caller.routes.get(peer.name.encode())
        return route is not None and head.serial in map(serial_of, route.open)

    def _publish(self, link: Link, peer: Peer, head: Head, to: bytes, frames: Sequence[bytes]) -> list[Effect]:
        return [Send(self._ups[link.key], tuple(frames))]

    def _to_kernel(self, link: Link, peer: Peer, head: Head, frames: Sequence[bytes], now_s: float) -> list[Effect]:
        if head.verb is Verb.BEAT:
            return super()._to_kernel(link, peer, head, frames, now_s)
        up = self._ups[link.key]
        # The kernel needs the report first: it contains the caller's local calls and the callers of a leaving peer.
        news = self._tell_near(link) if head.verb is Verb.BYE or head.call == "kernel.overdue" else []
        return [*news, Send(up, (b"", *map(bytes, frames[1:])))]

    # -- ends of connections ------------------------------------------------------------------------------------------
    def _end(self, link: Link, reason: str, now_s: float) -> list[Effect]:
        effects = super()._end(link, reason, now_s)
        up = self._forget(link)
        return effects if up is None else [*effects, Close(up, reason)]

    def _announce(self, link: Link, lost: Lost, told: Sequence[Link]) -> list[Effect]:
        up = self._ups.get(link.key)
        if up is None:
            return []
        near = Near({}, [], sorted(other.name for other in told), lost.reason[:300])
        return [_say_near(up, near)]

    def _forget(self, link: Link) -> Link | None:
        """Remove an uplink from the tables; return it, or None."""
        for book in (self._coming, self._asked, self._told):
            book.pop(link.key, None)
        return self._ups.pop(link.key, None)

    def _working(self, link: Link) -> bool:
        return bool(self._asked.get(link.key)) or super()._working(link)

    def _tell_near(self, link: Link) -> list[Effect]:
        """Report a peer's local messages and open calls in both directions, if they have changed."""
        routes: list[tuple[str, Route]] = [(to.decode(), route) for to, route in link.routes.items()]
        sent = {to: route.count for to, route in routes if route.count}
        awaited_by = [to for to, route in routes if route.back is not None and route.back.open]
        near = Near(sent, [to for to, route in routes if route.open], awaited_by)
        if near == self._told.get(link.key, Near({}, [], [])):
            return []
        self._told[link.key] = near
        return [_say_near(self._ups[link.key], near)]


def _say_near(up: Link, near: Near) -> Send:
    return Send(up, (b"", encode_head(Head(Verb.TELL, 0, "kernel.near")), codec_of(Near).encode(near)))
