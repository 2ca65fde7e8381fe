"""What the kernel itself answers: who is there, who watches whom, who reads what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ganglion.broker.admission import admission_of, checked
from ganglion.broker.link import Close, Effect, Link, Peer, Route, Send
from ganglion.broker.rights import open_calls
from ganglion.errors import GanglionError, RemoteProtocolError
from ganglion.limits import KERNEL_BODY_BYTES, KERNEL_BODY_CONTAINERS, SUBSCRIPTIONS, WATCHES
from ganglion.wire.codec import codec_of, openings
from ganglion.wire.envelope import Head, encode_head, packed_serial
from ganglion.wire.messages import (
    CALL_BY_NAME,
    PROTOCOL_VERSION,
    Admit,
    Call,
    Done,
    Info,
    Joined,
    Overdue,
    Peers,
    Subscribe,
    Watch,
    Withdraw,
)
from ganglion.wire.verb import Verb

if TYPE_CHECKING:
    from ganglion.broker.core import Broker


class Kernel:
    """Answer the calls that go to the empty name; hand on to the supervisor what is its business."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._handlers: dict[str, Callable[[Link, Any, float], tuple[Any, list[Effect]]]] = {
            "kernel.info": self._info,
            "kernel.peers": self._peers,
            "kernel.watch": self._watch,
            "kernel.subscribe": self._subscribe,
            "kernel.admit": self._admit,
            "kernel.withdraw": self._withdraw,
        }

    def receive(self, link: Link, peer: Peer, head: Head, frames: Sequence[bytes], now_s: float) -> list[Effect]:
        """Decide about one message to the kernel."""
        broker = self._broker
        if head.verb is Verb.BEAT:
            return [] if head.call else [broker.say(link, Head(Verb.BEAT, head.serial, "here"), b"")]
        if head.verb is Verb.BYE:
            return broker.leave(link, head, now_s)
        if head.verb is not Verb.CALL:
            return broker.forbidden(link, head, f"the kernel takes no {head.verb.name}", now_s)
        call = CALL_BY_NAME.get(head.call)
        if call is None or call.callee is not None:
            return [broker.error(link, head.serial, "unknown_call", f"the kernel knows no call {head.call[:80]!r}")]
        if peer.role not in call.callers:
            return broker.forbidden(link, head, f"{peer.role} may not call {call.name}", now_s)
        handler = self._handlers.get(call.name)
        try:
            if call.name == "kernel.overdue" and not _awaits(link, _decoded(call, frames)):
                return [broker.error(link, head.serial, "forbidden", "you await no answer of that peer")]
            if handler is None:
                return self._hand_on(link, peer, head, frames)
            reply, effects = handler(link, _decoded(call, frames), now_s)
        except GanglionError as error:
            return [broker.error(link, head.serial, error.kind, str(error))]
        return [broker.tell(link, Head(Verb.REPLY, head.serial), reply), *effects]

    def joined(self, watcher: Link, peer: Peer) -> Send:
        """Return the effect that tells a watcher who has joined."""
        message = Joined(peer.name, peer.incarnation, peer.role.value, peer.content.value, peer.language)
        return self._broker.tell(watcher, Head(Verb.TELL, 0, "kernel.joined"), message)

    def _hand_on(self, link: Link, peer: Peer, head: Head, frames: Sequence[bytes]) -> list[Effect]:
        broker = self._broker
        supervisor = broker.joined.get("supervisor")
        if supervisor is None or supervisor.peer is None:  # a new broker's first peers may be here before it
            return [broker.absent(link, head.serial, "supervisor")]
        route = broker.route(supervisor, supervisor.peer, peer.name.encode())
        if route is None or route.back is None:
            return [broker.error(link, head.serial, "unreachable", "the supervisor cannot reach you")]
        if len(route.back.open) >= open_calls(peer):
            return [broker.busy(link, head.serial, "too many open calls to the kernel")]
        _grant_answers(route)
        route.back.open.append(packed_serial(head.serial))
        return [Send(supervisor, (peer.name.encode(), encode_head(head), *frames[2:]))]

    # -- handlers -----------------------------------------------------------------------------------------------------
    def _info(self, link: Link, request: Any, now_s: float) -> tuple[Info, list[Effect]]:
        broker = self._broker
        info = Info(broker.version, PROTOCOL_VERSION, broker.pid, len(broker.joined), now_s - broker.born_s)
        return info, []

    def _peers(self, link: Link, request: Any, now_s: float) -> tuple[Peers, list[Effect]]:
        rows = []
        for name, other in self._broker.joined.items():
            peer = other.peer
            assert peer is not None
            waits = [to.decode() for to, route in other.routes.items() if route.open]
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
                    "waiting_for": waits,
                    "queued_bytes": other.queued_bytes,
                }
            )
        return Peers(rows), []

    def _watch(self, link: Link, request: Watch, now_s: float) -> tuple[Done, list[Effect]]:
        if len(link.watches) + len(request.peers) > WATCHES:
            raise RemoteProtocolError(f"watch.peers: expected at most {WATCHES} in all (watches)")
        effects: list[Effect] = []
        for name in request.peers:
            checked(name)
        for name in dict.fromkeys(request.peers):
            link.watches.add(name)
            self._broker.watchers.setdefault(name, {})[link.key] = link
            there = self._broker.joined.get(name)
            if there is not None and there.peer is not None:
                effects.append(self.joined(link, there.peer))
        return Done(), effects

    def _subscribe(self, link: Link, request: Subscribe, now_s: float) -> tuple[Done, list[Effect]]:
        if len(link.topics) >= SUBSCRIPTIONS:
            raise RemoteProtocolError(f"subscribe.topic: expected at most {SUBSCRIPTIONS} (subscriptions)")
        if not request.topic.startswith("@"):
            raise RemoteProtocolError(f"subscribe.topic: expected @<run>/<topic>, found {request.topic[:80]!r}")
        topic = checked(request.topic).encode()
        link.topics.add(topic)
        self._broker.topics.setdefault(topic, {})[link.key] = link
        return Done(), []

    def _admit(self, link: Link, request: Admit, now_s: float) -> tuple[Done, list[Effect]]:
        self._broker.admit(admission_of(request))
        return Done(), []

    def _withdraw(self, link: Link, request: Withdraw, now_s: float) -> tuple[Done, list[Effect]]:
        broker, effects = self._broker, list[Effect]()
        for name in request.names:
            broker.register.withdraw(name)
            there = broker.joined.get(name)
            if there is not None:
                effects += [*broker.disconnect(there, "withdrawn", now_s), Close(there, "withdrawn")]
            for watcher in broker.watchers.pop(name, {}).values():  # nobody will bear the name
                watcher.watches.discard(name)
            topic = name.encode()
            for reader in broker.topics.pop(topic, {}).values():
                reader.topics.discard(topic)
                reader.gaps.pop(topic, None)
        return Done(), effects


def _decoded(call: Call, frames: Sequence[bytes]) -> Any:
    """Return a request; RemoteProtocolError for one that is no such message, or more than we would decode."""
    body = frames[2] if len(frames) > 2 else b""
    if len(body) > KERNEL_BODY_BYTES:
        text = f"expected at most {KERNEL_BODY_BYTES} bytes (kernel_body_bytes), found {len(body)}"
        raise RemoteProtocolError(f"body: {text}")
    if openings(body) > KERNEL_BODY_CONTAINERS:
        text = f"expected at most {KERNEL_BODY_CONTAINERS} maps and lists (kernel_body_containers)"
        raise RemoteProtocolError(f"body: {text}, found what may be {openings(body)}")
    return codec_of(call.request).decode(body)


def _awaits(link: Link, overdue: Overdue) -> bool:
    """Say whether a peer has an open call to whom it accuses."""
    route = link.routes.get(overdue.peer.encode(errors="replace"))
    return route is not None and bool(route.open)


def _grant_answers(route: Route) -> None:
    """Let the supervisor answer a peer that asked the kernel."""
    route.allowed |= (1 << Verb.REPLY) | (1 << Verb.ERROR)
