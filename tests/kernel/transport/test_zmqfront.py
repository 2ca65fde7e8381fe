from __future__ import annotations

import contextlib
import hashlib
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from ganglion.broker.link import Admission
from ganglion.errors import LaunchError, PeerLost
from ganglion.limits import MESSAGE_FRAMES, QUEUE_MARK_BYTES
from ganglion.transport.curve import ClientKeys, KeyPair, new_pair
from ganglion.transport.zmqfront import ZmqFront
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


def outcome(monitor: Any) -> zmq.Event:
    """Return what became of the first connection of a DEALER."""
    assert monitor.poll(int(1000 * WAIT_S))
    return zmq.Event(recv_monitor_message(monitor)["event"])


def with_keys(keys: ClientKeys) -> Callable[[Any], None]:
    """Return a function that gives keys to a socket."""

    def set_up(dealer: Any) -> None:
        dealer.curve_serverkey = keys.server.encode()
        dealer.curve_publickey = keys.public.encode()
        dealer.curve_secretkey = keys.secret.encode()

    return set_up


def plain(dealer: Any) -> None:
    """Give a name and a password to a socket."""
    dealer.plain_username, dealer.plain_password = b"admin", b"admin"


LISTED = new_pair()


@pytest.mark.parametrize(
    "set_up",
    [
        pytest.param(with_keys(client(new_pair())), id="unlisted"),
        pytest.param(with_keys(client(LISTED, new_pair().public)), id="wrong-server"),
        pytest.param(with_keys(ClientKeys(SERVER.public, LISTED.public, new_pair().secret)), id="half-a-pair"),
        pytest.param(lambda dealer: None, id="null"),
        pytest.param(plain, id="plain"),
    ],
)
def test_intruders(station: Any, front: Any, set_up: Callable[[Any], None]) -> None:
    """Without the two right keys no handshake ends well, and the broker sees nothing of it, right token or not."""
    name = admit(station, "keys/environment/intruder", LISTED.public)
    before = reached(station)
    with zmq.Context() as context:
        intruder, monitor = dealer(context, front.endpoint, set_up)
        assert zmq.Event.DISCONNECTED is outcome(monitor)
        intruder.disable_monitor()
        monitor.close(0)
        intruder.close()

        assert before + 1 == reached(station)
        friend, monitor = dealer(context, front.endpoint, with_keys(client(LISTED)))
        assert zmq.Event.HANDSHAKE_SUCCEEDED is outcome(monitor)
        assert friend.poll(int(1000 * WAIT_S))
        assert before + 3 == reached(station)
        friend.disable_monitor()
        monitor.close(0)
        friend.close()
    station.call(lambda: station.exchange.broker.register.withdraw(name))


@pytest.mark.parametrize(
    "noise",
    [
        b"\x01\x00\x06\x00HELLO",
        b"\xff\0\0\0\0\0\0\0\x01\x7f\x00\x05\x00\x00",
        b"\xff\0\0\0\0\0\0\0\x01\x7f\x01\x05\x00\x00\x01\x01\x00\x00\x05HELLO",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + bytes(range(256)),
    ],
    ids=["zmtp-1", "zmtp-1-long", "zmtp-2", "http", "tls"],
)
def test_old_and_other_protocols(station: Any, front: Any, noise: bytes) -> None:
    """Old versions of ZMTP, which know no keys, and other protocols reach nobody."""
    before = reached(station)
    _, _, port = front.endpoint.rpartition(":")
    with socket.create_connection(("127.0.0.1", int(port)), WAIT_S) as stranger, contextlib.suppress(OSError):
        stranger.sendall(noise)
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(4096):  # until it is closed
            pass

    assert before + 1 == reached(station)


def test_a_dead_judge_admits_nobody(station: Any, front: Any) -> None:
    """When the handler of handshakes has gone in mid-run nobody comes in any more; who is there goes on."""
    pair = new_pair()
    first, second = (admit(station, f"keys/environment/{n}", pair.public) for n in ("first", "second"))
    link = ZmqBlockingLink.connect(front.endpoint, client(pair), WAIT_S)
    link.send(hello(first))
    assert link.receive(WAIT_S) is not None
    station.call(front.zap.close)
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
    with pytest.raises(PeerLost, match="does not admit our key"):
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


def test_a_routing_id_is_no_authority(station: Any, front: Any) -> None:
    """Who chooses the routing id of another gets nothing of his, and is not taken for him."""
    pair, other = new_pair(), new_pair()
    name = admit(station, "keys/environment/owner", pair.public)
    admit(station, "keys/environment/thief", other.public)

    def named(keys: ClientKeys) -> Callable[[Any], None]:
        def set_up(dealer: Any) -> None:
            dealer.routing_id = b"the same"
            with_keys(keys)(dealer)

        return set_up

    with zmq.Context() as context:
        owner, watch = dealer(context, front.endpoint, named(client(pair)), name)
        assert Verb.WELCOME == owner.recv_multipart()[1][1]
        before = reached(station)
        thief, watch_too = dealer(context, front.endpoint, named(client(other)))
        assert zmq.Event.HANDSHAKE_SUCCEEDED is outcome(watch_too)
        thief.send_multipart(encode(Envelope("", Head(Verb.CALL, 5, "kernel.info"))))
        owner.send_multipart(encode(Envelope("", Head(Verb.CALL, 6, "kernel.info"))))

        assert 6 == owner.recv_multipart()[1][2]
        assert not thief.poll(50)
        assert before + 1 == reached(station)
        for end, monitor in ((owner, watch), (thief, watch_too)):
            end.disable_monitor()
            monitor.close(0)
            end.close()


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
    """Refused handshakes become one note a second, with their number and the address, at the latest at the end."""
    for _ in range(3):
        with pytest.raises(PeerLost):
            ZmqBlockingLink.connect(front.endpoint, client(new_pair()), WAIT_S)
    station.call(front.close)
    notes = [note.fields for note in station.notes if note.event == "handshake.refused"]

    assert 3 <= sum(fields["count"] for fields in notes)
    assert "127.0.0.1" in notes[-1]["addresses"]


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


@pytest.mark.parametrize("frames", [MESSAGE_FRAMES - 2, MESSAGE_FRAMES - 1, 100_000])
def test_frames_are_counted(station: Any, frames: int) -> None:
    """A message of too many frames ends its sender's place and is dropped to its last frame; others are not touched."""
    bus = station.bus("zmq")
    sender, peer = bus.join(Role.ENVIRONMENT), bus.join(Role.MUSCLE)
    sender.send("", Head(Verb.CALL, 3, "kernel.info"), b"", *[b""] * (frames - 1))
    for name in (peer, sender):
        name.send("", Head(Verb.CALL, 4, "kernel.info"))
    answers = [peer.receive().head.serial, sender.receive()]

    assert 4 == answers[0]
    if frames <= MESSAGE_FRAMES - 2:
        assert (Verb.REPLY, 3) == (answers[1].head.verb, answers[1].head.serial)
        assert 4 == sender.receive().head.serial
    else:
        assert Verb.ERROR is answers[1].head.verb  # he is a stranger, and did not begin with HELLO
        assert sender.name not in station.call(lambda: dict(station.exchange.broker.joined))
    bus.close()


def test_a_send_of_the_kernel_swallows_no_message(station: Any) -> None:
    """A message that arrives while the kernel sends by itself is taken, though libzmq then signals nothing."""
    bus = station.bus("zmq")
    peer = bus.join(Role.ENVIRONMENT)
    router = station.zmq_front.router

    def send_while_something_comes() -> None:
        peer.send("", Head(Verb.CALL, 7, "kernel.info"))
        assert select.select([router.fileno()], [], [], 10.0)[0]
        link = station.exchange.broker.joined[peer.name]
        while select.select([router.fileno()], [], [], 0.0)[0]:  # libzmq looks at its signals once in a while
            station.exchange.perform([station.exchange.broker.say(link, Head(Verb.BEAT, 1), b"")])
            station.exchange.flush()

    station.call(send_while_something_comes)

    assert 7 == peer.receive().head.serial
    bus.close()


def test_nothing_is_dropped_at_a_full_reader(station: Any) -> None:
    """What libzmq does not take waits in our own queue, which is counted, and arrives."""
    bus = station.bus("zmq")
    controller, environment = bus.join(Role.CONTROLLER), bus.join(Role.ENVIRONMENT)
    count, blob = 60, bytes(200_000)
    for i in range(count):
        controller.send(environment.name, Head(Verb.CALL, i, "environment.update"), b"", blob)
    serials = [environment.receive().head.serial for _ in range(count)]

    assert list(range(count)) == serials
    assert count * len(blob) > QUEUE_MARK_BYTES
    bus.close()
