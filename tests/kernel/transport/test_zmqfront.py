from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq
from zmq.utils import z85

from ganglion.broker.link import Admission
from ganglion.errors import LaunchError, PeerLost
from ganglion.transport.curve import ClientKeys, KeyPair, new_pair
from ganglion.transport.zmqfront import DOMAIN, ZmqFront, judged
from ganglion.transport.zmqlink import ZmqBlockingLink
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, encode
from ganglion.wire.messages import Hello
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

SERVER = new_pair()
WAIT_S = 10.0


def client(pair: KeyPair, server: str = SERVER.public) -> ClientKeys:
    """Return the keys of a client of `front`."""
    return ClientKeys(server, pair.public, pair.secret)


def admit(station: Any, name: str, key: str | None) -> str:
    """Admit an environment whose token is its name; return the name."""
    digest = hashlib.sha256(name.encode()).digest()
    admission = Admission(name, Role.ENVIRONMENT, "keys", digest, curve_key=key)
    station.call(lambda: station.exchange.broker.admit(admission))
    return name


def hello(name: str) -> list[bytes]:
    """Return the frames of a HELLO."""
    body = codec_of(Hello).encode(Hello(1, "environment", name, name))
    return encode(Envelope("", Head(Verb.HELLO, 1), body))


def reached(station: Any) -> int:
    """Return a number that grows by one with this question and by one with each connection that the broker sees."""

    def ask() -> int:
        link, _ = station.exchange.broker.connect(station.clock())
        station.exchange.broker.disconnect(link, "a question", station.clock())
        return int(link.key)

    return int(station.call(ask))


@pytest.fixture
def front(station: Any) -> Iterator[ZmqFront]:
    """Return a front of its own, with keys of its own, that listens at `front.endpoint`."""

    def listen() -> tuple[ZmqFront, str]:
        front = ZmqFront(station.exchange, SERVER.secret)
        return front, front.listen("tcp://127.0.0.1:0")

    made, made.endpoint = station.call(listen)
    yield made
    station.call(made.close)


def dealer(
    context: zmq.Context[Any], endpoint: str, set_up: Callable[[Any], None], name: str = "keys/environment/intruder"
) -> tuple[Any, Any]:
    """Return a DEALER of plain pyzmq that connects, has said HELLO, and a socket that tells what becomes of it."""
    dealer = context.socket(zmq.DEALER)
    dealer.linger = 0
    set_up(dealer)
    monitor = dealer.get_monitor_socket(int(zmq.Event.HANDSHAKE_SUCCEEDED | zmq.Event.DISCONNECTED))
    dealer.connect(endpoint)
    dealer.send_multipart(hello(name))
    return dealer, monitor


def with_keys(keys: ClientKeys) -> Callable[[Any], None]:
    """Return a function that gives keys to a socket."""

    def set_up(dealer: Any) -> None:
        dealer.curve_serverkey = keys.server.encode()
        dealer.curve_publickey = keys.public.encode()
        dealer.curve_secretkey = keys.secret.encode()

    return set_up


LISTED = new_pair().public
KEY = z85.decode(LISTED)
ASKED = [b"1.0", b"7", DOMAIN, b"192.0.2.1", b"", b"CURVE", KEY]


@pytest.mark.parametrize(
    "question",
    [
        [*ASKED[:6], z85.decode(new_pair().public)],
        [*ASKED[:6], KEY[:-1]],
        [*ASKED[:6], b""],
        [*ASKED[:5], b"NULL"],
        [*ASKED[:5], b"PLAIN", b"name", b"word"],
        [*ASKED[:5], b"PLAIN", KEY],
        [*ASKED[:2], b"other", *ASKED[3:]],
        [b"2.0", *ASKED[1:]],
        [b"1.0"],
        [*ASKED, KEY],
    ],
)
def test_all_else_is_refused(question: list[bytes]) -> None:
    """An unlisted or broken key, another mechanism, domain, version or form is refused with a reason."""
    key, reason = judged(question, {LISTED}.__contains__)

    assert ("", True) == (key, bool(reason))
    assert (LISTED, "") == judged(ASKED, {LISTED}.__contains__)


def test_a_dead_judge_admits_nobody(station: Any, front: Any) -> None:
    """When the handler of handshakes has gone in mid-run nobody comes in any more; who is there goes on."""
    pair = new_pair()
    first, second = (admit(station, f"keys/environment/{n}", pair.public) for n in ("first", "second"))
    link = ZmqBlockingLink.connect(front.endpoint, client(pair), WAIT_S)
    link.send(hello(first))
    assert link.receive(WAIT_S) is not None
    station.call(lambda: front.zap.unbind("inproc://zeromq.zap.01"))
    before = reached(station)
    for _ in range(3):
        with pytest.raises(PeerLost, match="handshake failed"):
            ZmqBlockingLink.connect(front.endpoint, client(pair), WAIT_S).send(hello(second))

    assert before + 1 == reached(station)
    link.send(encode(Envelope("", Head(Verb.CALL, 3, "kernel.info"))))
    assert link.receive(WAIT_S) is not None
    link.close()


def test_a_withdrawn_key(station: Any, front: Any) -> None:
    """A key that leaves the table ends its connections with their next message, and opens no others."""
    pair = new_pair()
    name = admit(station, "keys/environment/gone", pair.public)
    broker = station.exchange.broker
    link = ZmqBlockingLink.connect(front.endpoint, client(pair), WAIT_S)
    link.send(hello(name))
    assert link.receive(WAIT_S) is not None
    station.call(lambda: broker.register.withdraw(name))
    assert station.call(lambda: name in broker.joined)
    before = reached(station)
    for _ in range(3):
        link.send(encode(Envelope("", Head(Verb.CALL, 2, "kernel.info"))))
    link.send(hello(name))
    with pytest.raises(PeerLost, match="does not admit the key"):
        ZmqBlockingLink.connect(front.endpoint, client(pair), WAIT_S)

    assert link.receive(0.1) is None
    assert before + 1 == reached(station)
    assert not station.call(lambda: name in broker.joined)
    link.close()


@pytest.mark.parametrize("own", [None, new_pair().public], ids=["local", "of-another"])
def test_a_token_belongs_to_its_key(station: Any, front: Any, own: str | None) -> None:
    """A token of this machine alone, or of another key, admits nobody through this key."""
    pair = new_pair()
    admit(station, "keys/environment/bystander", pair.public)
    name = admit(station, "keys/environment/victim", own)
    station.pass_time(1.5)  # of one address a wrong token is answered once in a second
    link = ZmqBlockingLink.connect(front.endpoint, client(pair), WAIT_S)
    link.send(hello(name))
    answer = link.receive(WAIT_S)

    assert answer is not None
    assert b"token: it is not for the key of this connection" in answer[2]
    assert not station.call(lambda: name in station.exchange.broker.joined)
    link.close()


def test_a_successor_at_a_routing_id_is_somebody_else(station: Any, front: Any) -> None:
    """Who gets the routing id of one that has gone is a stranger: the other is lost at once."""
    pair, other = new_pair(), new_pair()
    name = admit(station, "keys/environment/late", pair.public)
    heir = admit(station, "keys/environment/heir", other.public)

    def named(keys: ClientKeys) -> Callable[[Any], None]:
        def set_up(dealer: Any) -> None:
            dealer.routing_id = b"another"
            with_keys(keys)(dealer)

        return set_up

    joined = station.exchange.broker.joined
    with zmq.Context() as context:
        owner, watch = dealer(context, front.endpoint, named(client(pair)), name)
        assert owner.poll(int(1000 * WAIT_S))
        owner.disable_monitor()
        watch.close(0)
        owner.close()
        answered = False
        while not answered:  # libzmq ignores it as long as the former is there
            late, watch = dealer(context, front.endpoint, named(client(other)), heir)
            answered = bool(late.poll(100))
            late.disable_monitor()
            watch.close(0)
            late.close()

    assert (False, True) == station.call(lambda: (name in joined, heir in joined))


def test_refusals_are_counted(station: Any, front: Any) -> None:
    """Refused handshakes become one note a second, with their number, the last address and the reason."""
    for _ in range(3):
        with pytest.raises(PeerLost):
            ZmqBlockingLink.connect(front.endpoint, client(new_pair()), WAIT_S)
    station.pass_time(3.0)
    notes = [note.fields for note in station.notes if note.event == "handshake.refused"]

    assert 3 <= sum(fields.get("count", 1) for fields in notes)
    assert ("127.0.0.1", "the key is not in the table of keys") == (notes[-1]["address"], notes[-1]["reason"])


def test_addresses(station: Any) -> None:
    """A path is not listened to with keys; an address in use, or of no interface of ours, is said to be."""

    def listen() -> None:
        front = ZmqFront(station.exchange, SERVER.secret)
        try:
            with pytest.raises(LaunchError, match="expected tcp"):
                front.listen("ipc:///tmp/x")
            with pytest.raises(LaunchError, match="cannot be bound"):
                front.listen("tcp://192.0.2.1:0")
            with pytest.raises(LaunchError, match="in use"):
                front.listen(station.endpoints["zmq"])
            assert front.listen("tcp://127.0.0.1:0").startswith("tcp://127.0.0.1:")
        finally:
            front.close()

    station.call(listen)


def test_a_strangers_bounds(station: Any) -> None:
    """A stranger's message that is larger than a HELLO may be is not even decoded."""
    bus = station.bus("zmq")
    stranger, peer = bus.peer(Role.ENVIRONMENT), bus.join(Role.MUSCLE)
    stranger.send("", Head(Verb.HELLO, 1), bytes(20_000))
    peer.send("", Head(Verb.CALL, 1, "kernel.info"))
    assert Verb.REPLY is peer.receive().head.verb
    stranger.send("", Head(Verb.CALL, 1))

    assert "protocol" == stranger.failure()  # he is a new stranger
    bus.close()
