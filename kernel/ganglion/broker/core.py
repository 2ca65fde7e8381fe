"""The broker: routes envelopes between peers; decides and never acts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ganglion import limits
from ganglion.broker.admission import Register, Strangers, admission_of, checked
from ganglion.broker.link import TRANSITIONS, Admission, Close, Effect, Link, Note, Peer, Route, Send, State
from ganglion.broker.rights import allowed, bit, calls, may_publish, open_calls
from ganglion.errors import GanglionError, RemoteProtocolError
from ganglion.wire.codec import Content, codec_of, openings
from ganglion.wire.envelope import Head, decode_head, encode_head, packed
from ganglion.wire.messages import (
    CALL_BY_NAME,
    PROTOCOL_VERSION,
    Admit,
    Done,
    Failure,
    Gap,
    Hello,
    Info,
    Joined,
    Lost,
    Near,
    Peers,
    Subscribe,
    Watch,
    Welcome,
    Withdraw,
)
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

_SLEEPER_S = 0.75  # after a tick this late no peer is reported: the broker itself was stopped or starved
_CROWDED, _RELIEVED = 0.8, 0.7  # fractions of the places: raise an alarm, allow the next alarm
_REFUSALS_MAX = 10  # this many forbidden messages of one peer
_REFUSALS_SPAN_S = 10.0  # within this time end its connection
_AGAIN_MS = int(1000 * limits.RETRY_S["call"])
_CALL, _ANSWERS = Verb.CALL, (Verb.REPLY, Verb.ERROR)
_LIMITS = {
    "body_bytes": limits.BODY_BYTES,
    "frame_bytes": limits.FRAME_BYTES,
    "message_bytes": limits.MESSAGE_BYTES,
    "message_frames": limits.MESSAGE_FRAMES,
    "integer_max": limits.INTEGER_MAX,
}


class Broker:
    """Route envelopes between peers; decide and never act.

    A front calls `connect` for a new connection, `receive` for each message that its fast path does not forward itself,
    `disconnect` when a connection is lost, and `tick` a few times a second. After each call the front performs the
    effects in order. Times are monotonic seconds. The broker knows names, permissions and open calls, not episodes.

    `admissions` are the names that may join from the start. A broker that replaces another one therefore knows the
    superseded incarnations at once.
    """

    def __init__(
        self,
        supervisor_token_sha256: bytes,
        version: str,
        pid: int,
        now_s: float,
        peers_max: int = limits.PEERS,
        admissions: Iterable[Admission] = (),
    ) -> None:
        first = Admission("supervisor", Role.SUPERVISOR, "", supervisor_token_sha256, returns=True)
        self.register = Register([first, *admissions])
        self.links: dict[int, Link] = {}
        self.joined: dict[str, Link] = {}
        self.watchers: dict[str, dict[int, Link]] = {}
        self.topics: dict[bytes, dict[int, Link]] = {}
        self.version, self.pid, self.born_s = version, pid, now_s
        self._strangers = Strangers()
        self._handlers: dict[str, Callable[[Link, Any, float], tuple[Any, list[Effect]]]] = {
            "kernel.info": self._info,
            "kernel.peers": self._peers,
            "kernel.watch": self._watch,
            "kernel.subscribe": self._subscribe,
            "kernel.admit": self._admit,
            "kernel.withdraw": self._withdraw,
        }
        self._peers_max = peers_max
        self._crowded = False
        self._keys = 0
        self._ticked_s = now_s

    # -- connections --------------------------------------------------------------------------------------------------
    def connect(self, now_s: float, origin: str = "") -> tuple[Link, list[Effect]]:
        """Add a new connection; the effects may close the oldest unjoined connection to make room.

        `origin` is the process or address of the other end, as the system reports it.
        """
        self._keys += 1
        link = Link(self._keys, now_s, origin)
        self.links[link.key] = link
        effects = self._count_links()
        full = len(self.links) > self._peers_max
        if full or len(self.links) - len(self.joined) > limits.UNJOINED_PEERS:
            oldest = next(other for other in self.links.values() if other.peer is None)
            if oldest is link:
                text = f"expected at most {self._peers_max} connections (peers)"
                return link, [*effects, *self._refuse(link, 0, "limit", text, now_s)]
            reason = f"{limits.UNJOINED_PEERS} newer connections wait for their HELLO (unjoined_peers)"
            if full:
                reason = f"all {self._peers_max} places are taken (peers), the oldest connection without HELLO ends"
            effects += [*self._end(oldest, reason, now_s), Close(oldest, reason)]
        return link, effects

    def _count_links(self) -> list[Effect]:
        """Return one alarm when most places are taken; the next one requires that there was room again."""
        count = len(self.links)
        crowded = count > (_RELIEVED if self._crowded else _CROWDED) * self._peers_max
        alarm = crowded and not self._crowded
        self._crowded = crowded
        fields = {"connections": count, "most": self._peers_max}
        return [Note("warning", "peers.crowded", fields)] if alarm else []

    def disconnect(self, link: Link, reason: str, now_s: float) -> list[Effect]:
        """Remove a lost connection; peers that watch it, or wait for its answer, receive LOST."""
        if link.state is State.GONE:
            return []
        return self._end(link, reason, now_s)

    def receive(self, link: Link, frames: Sequence[bytes], now_s: float) -> list[Effect]:
        """Decide about one message `[to][head][body][blob ...]`."""
        if link.state is State.GONE:
            return []
        link.heard_s = now_s
        link.asked_s = None
        try:
            if len(frames) < 2:
                raise RemoteProtocolError(f"expected the frames [to][head][body][blob ...], found {len(frames)}")
            head = decode_head(frames[1])
            if head.verb not in TRANSITIONS[link.state]:
                raise RemoteProtocolError(f"{head.verb.name} is not allowed for a peer that is {link.state.value}")
        except RemoteProtocolError as error:
            return self._refuse(link, 0, "protocol", str(error), now_s)
        if link.peer is None:
            return self._hello(link, head, frames, now_s)
        to = bytes(frames[0])
        if not to:
            return self._to_kernel(link, link.peer, head, frames, now_s)
        if to[:1] == b"@":
            return self._publish(link, link.peer, head, to, frames)
        return self._forward(link, link.peer, head, to, frames, now_s)

    def tick(self, now_s: float) -> list[Effect]:
        """Check the time limits of all connections; call it about four times a second."""
        effects: list[Effect] = []
        late = now_s - self._ticked_s > _SLEEPER_S
        self._ticked_s = now_s
        for link in list(self.links.values()):
            if late:
                link.heard_s, link.asked_s = now_s, None
                link.born_s = max(link.born_s, now_s - limits.HANDSHAKE_S / 2) if link.peer is None else link.born_s
            elif link.peer is None:
                if now_s - link.born_s > limits.HANDSHAKE_S:
                    text = f"expected HELLO within {limits.HANDSHAKE_S} s (handshake_s)"
                    effects += self._refuse(link, 0, "deadline", text, now_s)
            else:
                effects += self._beat(link, link.peer, now_s)
            if link.gaps and link.queued_bytes <= limits.QUEUE_MARK_BYTES // 2:
                effects += [self._tell_gap(link, to) for to in list(link.gaps)]
        return effects

    def check(self) -> None:
        """Assert the invariants of the broker's tables; for tests."""
        for name, link in self.joined.items():
            assert self.links.get(link.key) is link, f"{name} has joined but has no connection"
            assert link.state is State.JOINED
            assert link.peer is not None
            assert link.peer.name == name
        for link in self.links.values():
            assert link.state is not State.GONE
            assert (link.peer is None) == (link.state is State.CONNECTED)
            for to, route in link.routes.items():
                assert self.joined.get(to.decode()) is route.target, f"{link.name} has a route to the gone {to!r}"
                assert link.peer is not None
                assert route.source == link.peer.name.encode()
                assert len(route.open) <= route.limit
                assert route.back is not None
                assert route.back.back is route
        for links in (*self.watchers.values(), *self.topics.values()):
            assert links
            assert all(self.links.get(key) is link for key, link in links.items())

    # -- joining and leaving ------------------------------------------------------------------------------------------
    def _hello(self, link: Link, head: Head, frames: Sequence[bytes], now_s: float) -> list[Effect]:
        if head.verb is Verb.BYE:
            return [*self._end(link, "left", now_s), Close(link, "left")]
        try:
            if len(frames) != 3 or frames[0]:
                raise RemoteProtocolError(f"HELLO: expected the frames [][head][body], found {len(frames)}")
            hello = codec_of(Hello).decode(frames[2])
            admission = self.register.entitled(hello, self.joined, link.curve_key)
            content = content_of(hello.content)
        except RemoteProtocolError as error:
            kind, _, _ = str(error).partition(":")
            kind = kind if kind in ("version", "token", "role", "name", "incarnation") else "protocol"
            if kind == "token" and not self._strangers.may_answer(link.origin, now_s):
                return [*self._end(link, str(error), now_s), Close(link, "another wrong token")]
            return self._refuse(link, head.serial, kind, str(error), now_s)
        effects: list[Effect] = []
        former = self.joined.get(admission.name)
        if former is not None:
            if former.peer is not None and former.peer.incarnation >= admission.incarnation:
                former.claimed = True
                text = f"name: {admission.name} has joined already as incarnation {former.peer.incarnation}"
                return self._refuse(link, head.serial, "name", text, now_s)
            effects += [*self._end(former, "succeeded by a newer incarnation", now_s), Close(former, "succeeded")]
        beats = hello.features is not None and "beats_in_call" in hello.features
        peer = replace(Peer.of(admission), content=content, language=hello.language[:32], beats_in_call=beats)
        return effects + self._join(link, head, peer, now_s)

    def _join(self, link: Link, head: Head, peer: Peer, now_s: float) -> list[Effect]:
        link.peer, link.state, link.joined_s = peer, State.JOINED, now_s
        self.joined[peer.name] = link
        self.register.came(peer.name)
        welcome = Welcome(
            PROTOCOL_VERSION,
            peer.name,
            peer.incarnation,
            limits.BEAT_AFTER_SILENCE_S,
            limits.BEAT_ANSWER_S,
            _LIMITS,
            peer.run,
            peer.worker,
            _NEXT.get(peer.role, ""),
        )
        effects: list[Effect] = [
            self._tell(link, Head(Verb.WELCOME, head.serial), welcome),
            Note("info", "peer.joined", {"name": peer.name, "language": peer.language}),
        ]
        for watcher in self.watchers.get(peer.name, {}).values():
            effects.append(self._tell_joined(watcher, peer))
        return effects

    def _end(self, link: Link, reason: str, now_s: float) -> list[Effect]:
        """Remove a connection from all tables; send LOST to watchers and to callers with open calls."""
        link.state = State.GONE
        self.links.pop(link.key, None)
        for watched in link.watches:
            _discard(self.watchers, watched, link)
        for topic in link.topics:
            _discard(self.topics, topic, link)
        if link.peer is None:
            return []
        peer = link.peer
        del self.joined[peer.name]
        name, idle = peer.name.encode(), not self._working(link)
        told = dict(self.watchers.get(peer.name, {}))
        for there in filter(None, map(self.joined.get, () if link.near is None else link.near.awaited_by)):
            if there.curve_key == link.curve_key:
                told[there.key], idle = there, False
        for route in link.routes.values():
            back = route.target.routes.pop(name, None)
            if back is not None and back.open:
                told[route.target.key] = route.target
        link.routes.clear()  # a front may still process messages of this peer
        returns = self.register.awaited(peer.name) is not None
        lost = Lost(peer.name, peer.incarnation, reason, returns, idle)
        note = Note("info", "peer.lost", {"name": peer.name, "reason": reason})
        return [note, *self._announce(link, lost, list(told.values()))]

    def _announce(self, link: Link, lost: Lost, told: Sequence[Link]) -> list[Effect]:
        return [self._tell(other, Head(Verb.LOST), lost) for other in told]

    def _refuse(self, link: Link, serial: int, kind: str, text: str, now_s: float) -> list[Effect]:
        answer = self._error(link, serial, kind, text)
        note = Note("warning", "peer.refused", {"name": link.name, "kind": kind, "reason": text[:300]})
        return [answer, note, *self._end(link, text, now_s), Close(link, text)]

    def _beat(self, link: Link, peer: Peer, now_s: float) -> list[Effect]:
        if link.heard_s > (link.asked_s or 0.0):
            link.asked_s, link.claimed = None, False
        if link.asked_s is None:
            if now_s - link.heard_s <= limits.BEAT_AFTER_SILENCE_S:
                return []
            link.asked_s = now_s
            return [self._say(link, Head(Verb.BEAT, 0), b"")]
        # At its first call a peer imports its classes; modules such as torch hold the interpreter for seconds. A
        # successor has imported them before it joins. A peer that tries to join again has lost this connection.
        owes = peer.beats_in_call and (peer.incarnation > 1 or any(route.count for route in link.routes.values()))
        owes = owes or link.claimed
        if now_s - link.asked_s <= limits.BEAT_ANSWER_S or (not owes and self._working(link)):
            return []
        reason = f"silent for {now_s - link.heard_s:.1f} s"
        return [*self._end(link, reason, now_s), Close(link, reason)]

    def _working(self, link: Link) -> bool:
        return any(route.back is not None and route.back.open for route in link.routes.values())

    # -- routing ------------------------------------------------------------------------------------------------------
    def _route(self, link: Link, peer: Peer, to: bytes) -> Route | None:
        """Return the route from a peer to a name, made if it is missing; None if no peer has that name."""
        route = link.routes.get(to)
        if route is not None:
            return route
        target = self.joined.get(to.decode(errors="replace"))
        if target is None or target.peer is None or target is link:
            return None
        there, here = target.peer, peer.name.encode()
        route = Route(allowed(peer, there), here, target, open_calls(peer), calls(peer, there))
        back = Route(allowed(there, peer), to, link, open_calls(there), calls(there, peer))
        route.back, back.back = back, route
        link.routes[to] = route
        target.routes[here] = back
        return route

    def _forward(
        self, link: Link, peer: Peer, head: Head, to: bytes, frames: Sequence[bytes], now_s: float
    ) -> list[Effect]:
        if head.verb is Verb.BYE and peer.role is not Role.SUPERVISOR:  # a dismissed peer may send the BYE back
            return self._to_kernel(link, peer, head, frames, now_s)
        route = self._route(link, peer, to)
        verb = head.verb
        if route is None:
            return self._nobody(link, peer, head, to, now_s)
        if not route.allowed & bit(verb):
            return self._forbidden(link, head, f"{peer.role} may not say {verb.name} to {_show(to)}", now_s)
        if verb is _CALL:
            if packed(head.call) not in route.calls:
                text = f"{peer.role} may not call {head.call[:80]!r} of {_show(to)}"
                return self._forbidden(link, head, text, now_s)
            if len(route.open) >= route.limit or route.target.queued_bytes > limits.QUEUE_MARK_BYTES:
                text = f"{_show(to)}: {len(route.open)} calls of the caller, {route.target.queued_bytes} bytes wait"
                return [self._again(link, head.serial, text)]
            route.open.append(packed(head.serial))
        elif verb in _ANSWERS:
            serials = [] if route.back is None else route.back.open
            serial = next((one for one in serials if serial_of(one) == head.serial), None)
            if serial is None:
                if now_s - max(link.joined_s, route.target.joined_s) <= limits.LATE_ANSWER_S:
                    return [Note("info", "answer.late", {"source": link.name, "to": _show(to)})]
                return self._forbidden(link, head, f"{_show(to)} has no open call {head.serial}", now_s)
            serials.remove(serial)
        route.count += 1
        return [Send(route.target, (route.source, *frames[1:]))]

    def _publish(self, link: Link, peer: Peer, head: Head, to: bytes, frames: Sequence[bytes]) -> list[Effect]:
        topic = to.decode(errors="replace")
        if head.verb is not Verb.TELL or not may_publish(peer, topic):
            return self._forbidden(link, head, f"{peer.role} may not say {head.verb.name} to {_show(to)}", link.heard_s)
        effects: list[Effect] = []
        source = peer.name.encode()
        for reader in self.topics.get(to, {}).values():
            if reader.queued_bytes > limits.QUEUE_MARK_BYTES:
                reader.gaps[to] = reader.gaps.get(to, 0) + 1
                continue
            if to in reader.gaps:
                effects.append(self._tell_gap(reader, to))
            effects.append(Send(reader, (source, *frames[1:])))
        return effects

    def _tell_gap(self, reader: Link, to: bytes) -> Effect:
        gap = Gap(to.decode(errors="replace"), reader.gaps.pop(to))
        return self._tell(reader, Head(Verb.TELL, 0, "kernel.gap"), gap)

    def _nobody(self, link: Link, peer: Peer, head: Head, to: bytes, now_s: float) -> list[Effect]:
        """Answer a CALL to an absent peer: retry if the peer will return, else an error; other messages are logged."""
        if head.verb is not _CALL:
            fields = {"source": link.name, "to": _show(to), "verb": head.verb.name}
            return [Note("warning", "message.undeliverable", fields)]
        name = to.decode(errors="replace")
        awaited = self.register.awaited(name) if name not in self.joined else None
        if awaited is None:
            return [self._error(link, head.serial, "unreachable", f"no peer named {_show(to)} has joined")]
        if packed(head.call) not in calls(peer, Peer.of(awaited)):
            text = f"{peer.role} may not call {head.call[:80]!r} of {_show(to)}"
            return self._forbidden(link, head, text, now_s)
        return [self._again(link, head.serial, f"{name} is absent and will return", {"absent": True})]

    def _forbidden(self, link: Link, head: Head, text: str, now_s: float) -> list[Effect]:
        """Refuse a forbidden message; the tenth within ten seconds ends the connection.

        A CALL is answered. Other messages are logged only: no peer awaits an answer, and the sender would take an ERROR
        for the answer to one of its own calls or for the end of the connection.
        """
        times_s = [t for t in link.refusals_s if now_s - t < _REFUSALS_SPAN_S]
        link.refusals_s = [*times_s, now_s]
        serial = head.serial if head.verb is _CALL else 0
        if len(link.refusals_s) >= _REFUSALS_MAX:
            return self._refuse(link, serial, "forbidden", text, now_s)
        if head.verb is not _CALL:
            return [Note("warning", "message.forbidden", {"name": link.name, "reason": text[:300]})]
        return [self._error(link, serial, "forbidden", text)]

    # -- messages of the kernel ---------------------------------------------------------------------------------------
    def _say(self, link: Link, head: Head, body: bytes) -> Send:
        return Send(link, (b"", encode_head(head), body))

    def _tell(self, link: Link, head: Head, message: Any) -> Send:
        content = Content.MSGPACK if link.peer is None else link.peer.content
        return self._say(link, head, codec_of(type(message)).encode(message, content))

    def _error(self, link: Link, serial: int, kind: str, text: str) -> Send:
        return self._tell(link, Head(Verb.ERROR, serial), Failure(kind, text))

    def _again(self, link: Link, serial: int, text: str, data: dict[str, Any] | None = None) -> Send:
        """Answer a CALL that cannot be delivered now; the caller retries it."""
        return self._tell(link, Head(Verb.ERROR, serial), Failure("busy", text, retry_after_ms=_AGAIN_MS, data=data))

    def _tell_joined(self, watcher: Link, peer: Peer) -> Send:
        message = Joined(peer.name, peer.incarnation, peer.role.value, peer.content.value, peer.language)
        return self._tell(watcher, Head(Verb.TELL, 0, "kernel.joined"), message)

    def admit(self, admission: Admission) -> None:
        """Let a name join from now on; LimitExceeded when the register is full."""
        self.register.admit(admission)

    # -- messages to the kernel ---------------------------------------------------------------------------------------
    def _to_kernel(self, link: Link, peer: Peer, head: Head, frames: Sequence[bytes], now_s: float) -> list[Effect]:
        """Decide about one message to the empty name: answer it, or pass it to the supervisor."""
        if head.verb is Verb.BEAT:
            if head.call or not head.serial:  # an answer: `here`, or the broker's own question returned
                return []
            return [self._say(link, Head(Verb.BEAT, head.serial, "here"), b"")]
        if head.verb is Verb.BYE:
            answer = self._say(link, Head(Verb.BYE, head.serial), b"")
            self.register.left(link.name)
            return [answer, *self._end(link, "left", now_s), Close(link, "left")]
        if head.verb is Verb.TELL and head.call == "kernel.near" and self.register.relays(link.curve_key):
            return self._stayed(link, frames, now_s)
        if head.verb is not Verb.CALL:
            return self._forbidden(link, head, f"the kernel takes no {head.verb.name}", now_s)
        call = CALL_BY_NAME.get(head.call)
        if call is None or call.callee is not None:
            return [self._error(link, head.serial, "unknown_call", f"the kernel knows no call {head.call[:80]!r}")]
        if peer.role not in call.callers:
            return self._forbidden(link, head, f"{peer.role} may not call {call.name}", now_s)
        handler = self._handlers.get(call.name)
        try:
            if handler is not None:
                reply, effects = handler(link, codec_of(call.request).decode(_bounded(frames)), now_s)
                return [self._tell(link, Head(Verb.REPLY, head.serial), reply), *effects]
            if call.name == "kernel.overdue":
                accused = codec_of(call.request).decode(_bounded(frames)).peer
                if accused not in _awaited(link):
                    return [self._error(link, head.serial, "forbidden", "the caller awaits no answer of that peer")]
        except GanglionError as error:
            return [self._error(link, head.serial, error.kind, str(error))]
        return self._hand_on(link, peer, head, frames)

    def _stayed(self, link: Link, frames: Sequence[bytes], now_s: float) -> list[Effect]:
        """Take in a relay's report on one of its peers."""
        try:
            link.near = near = codec_of(Near).decode(_bounded(frames))
        except RemoteProtocolError as error:
            return self._refuse(link, 0, "protocol", str(error), now_s)
        if not near.left:
            return []
        return [*self._end(link, near.left, now_s), Close(link, near.left)]

    def _hand_on(self, link: Link, peer: Peer, head: Head, frames: Sequence[bytes]) -> list[Effect]:
        supervisor = self.joined.get("supervisor")
        if supervisor is None or supervisor.peer is None:  # at a new broker peers may join before the supervisor
            return [self._again(link, head.serial, "supervisor is absent and will return", {"absent": True})]
        route = self._route(supervisor, supervisor.peer, peer.name.encode())
        assert route is not None
        assert route.back is not None
        if len(route.back.open) >= open_calls(peer):
            return [self._again(link, head.serial, "too many open calls to the kernel")]
        route.allowed |= bit(Verb.REPLY) | bit(Verb.ERROR)  # the supervisor may answer a peer that called the kernel
        route.back.open.append(packed(head.serial))
        return [Send(supervisor, (peer.name.encode(), encode_head(head), *frames[2:]))]

    def _info(self, link: Link, request: Any, now_s: float) -> tuple[Info, list[Effect]]:
        info = Info(self.version, PROTOCOL_VERSION, self.pid, len(self.joined), now_s - self.born_s)
        return info, []

    def _peers(self, link: Link, request: Any, now_s: float) -> tuple[Peers, list[Effect]]:
        rows = []
        for name, other in self.joined.items():
            peer = other.peer
            assert peer is not None
            near = {} if other.near is None else other.near.sent
            sent = {to.decode(): route.count for to, route in other.routes.items() if route.count}
            rows.append(
                {
                    "name": name,
                    "role": peer.role.value,
                    "run": peer.run,
                    "incarnation": peer.incarnation,
                    "language": peer.language,
                    "remote": other.curve_key is not None,
                    "worker": peer.worker,
                    "heard_ms": int(1000 * (now_s - other.heard_s)),
                    "waiting_for": _awaited(other),
                    "sent": sent | {to: count + sent.get(to, 0) for to, count in near.items()},
                    "stayed": None if other.near is None else sum(near.values()),
                    "queued_bytes": other.queued_bytes,
                }
            )
        return Peers(rows), []

    def _watch(self, link: Link, request: Watch, now_s: float) -> tuple[Done, list[Effect]]:
        if len(link.watches) + len(request.peers) > limits.WATCHES:
            raise RemoteProtocolError(f"watch.peers: expected at most {limits.WATCHES} in all (watches)")
        effects: list[Effect] = []
        for name in request.peers:
            checked(name)
        for name in dict.fromkeys(request.peers):
            link.watches.add(name)
            self.watchers.setdefault(name, {})[link.key] = link
            there = self.joined.get(name)
            if there is not None and there.peer is not None:
                effects.append(self._tell_joined(link, there.peer))
        return Done(), effects

    def _subscribe(self, link: Link, request: Subscribe, now_s: float) -> tuple[Done, list[Effect]]:
        if len(link.topics) >= limits.SUBSCRIPTIONS:
            raise RemoteProtocolError(f"subscribe.topic: expected at most {limits.SUBSCRIPTIONS} (subscriptions)")
        if not request.topic.startswith("@"):
            raise RemoteProtocolError(f"subscribe.topic: expected @<run>/<topic>, found {request.topic[:80]!r}")
        topic = checked(request.topic).encode()
        link.topics.add(topic)
        self.topics.setdefault(topic, {})[link.key] = link
        return Done(), []

    def _admit(self, link: Link, request: Admit, now_s: float) -> tuple[Done, list[Effect]]:
        self.register.admit(admission_of(request))
        return Done(), []

    def _withdraw(self, link: Link, request: Withdraw, now_s: float) -> tuple[Done, list[Effect]]:
        effects: list[Effect] = []
        for name in request.names:
            self.register.withdraw(name)
            there = self.joined.get(name)
            if there is not None:
                effects += [*self.disconnect(there, "withdrawn", now_s), Close(there, "withdrawn")]
            for watcher in self.watchers.pop(name, {}).values():  # no later peer gets this name
                watcher.watches.discard(name)
            topic = name.encode()
            for reader in self.topics.pop(topic, {}).values():
                reader.topics.discard(topic)
                reader.gaps.pop(topic, None)
        return Done(), effects


_NEXT = {
    Role.ENVIRONMENT: "await environment.start from your controller",
    Role.MUSCLE: "await muscle.setup from your controller",
    Role.BRAIN: "await brain.setup from the governor",
    Role.CONTROLLER: "await controller.setup from the governor",
    Role.GOVERNOR: "await governor.start from the supervisor",
    Role.TABLE: "await table.setup from the governor",
    Role.STORE: "await records",
}


def serial_of(word: bytes) -> int:
    """Return the serial that a head encodes as `word`."""
    return int.from_bytes(word[len(word) > 1 :])


def content_of(text: str) -> Content:
    """Return the encoding that a peer requests for bodies; RemoteProtocolError for an unknown one."""
    try:
        return Content(text)
    except ValueError as error:
        raise RemoteProtocolError(f"hello.content: expected msgpack or json, found {text[:40]!r}") from error


def _awaited(link: Link) -> list[str]:
    """Return the names of the peers whose answers a peer awaits, including those on its node."""
    near = [] if link.near is None else link.near.waiting_for
    return list(dict.fromkeys([*(to.decode() for to, route in link.routes.items() if route.open), *near]))


def _bounded(frames: Sequence[bytes]) -> bytes:
    """Return the body of a message to the kernel; RemoteProtocolError if it is too large to decode."""
    body = frames[2] if len(frames) > 2 else b""
    if len(body) > limits.KERNEL_BODY_BYTES:
        text = f"expected at most {limits.KERNEL_BODY_BYTES} bytes (kernel_body_bytes), found {len(body)}"
        raise RemoteProtocolError(f"body: {text}")
    if openings(body) > limits.KERNEL_BODY_CONTAINERS:
        text = f"expected at most {limits.KERNEL_BODY_CONTAINERS} maps and lists (kernel_body_containers)"
        raise RemoteProtocolError(f"body: {text}, found what may be {openings(body)}")
    return body


def _show(to: bytes) -> str:
    return repr(to[:128].decode(errors="replace"))


def _discard(books: dict[Any, dict[int, Link]], key: Any, link: Link) -> None:
    links = books.get(key)
    if links is not None:
        links.pop(link.key, None)
        if not links:
            del books[key]
