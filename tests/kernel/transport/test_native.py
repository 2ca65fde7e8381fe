from __future__ import annotations

import hashlib
import itertools
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.broker.core import Broker
from ganglion.broker.link import Admission
from ganglion.errors import PeerLost
from ganglion.limits import (
    HANDSHAKE_S,
    MESSAGE_FRAMES,
    MESSAGES_PER_CALLBACK,
    PROGRESS_S,
    QUEUE_MARK_BYTES,
    UNFINISHED_IDLE_S,
)
from ganglion.transport import exchange as exchange_module
from ganglion.transport import native as native_module
from ganglion.transport.exchange import Exchange
from ganglion.transport.native import NativeConnection
from ganglion.transport.zmtp import GREETING, encode, encode_command, frame_header
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode
from ganglion.wire.envelope import encode as encode_envelope
from ganglion.wire.messages import Hello
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

READY = encode_command(b"READY", b"\x0bSocket-Type\0\0\0\x06DEALER")
WAIT_S = 10.0  # nothing here takes so long unless it is broken
INFO = Head(Verb.CALL, 5, "kernel.info")
CALL, REPLY = Head(Verb.CALL, 5, "environment.update"), Head(Verb.REPLY, 5)


def raw(station: Any, said: bytes = b"", front: str = "ipc") -> socket.socket:
    """Return a raw connection to the native front that has said something."""
    where = station.endpoints[front].partition("://")[2]
    if front == "ipc":
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.connect(where)
    else:
        connected = socket.create_connection(("127.0.0.1", int(where.rpartition(":")[2])))
    connected.settimeout(10.0)
    connected.sendall(said)
    return connected


def until_end(connected: socket.socket) -> bytes:
    """Return all that comes until the other side closes."""
    got = b""
    with connected:
        try:
            while data := connected.recv(65_536):
                got += data
        except ConnectionResetError:  # it closed with something of ours unread
            pass
    return got


def until(station: Any, condition: Callable[[], Any]) -> None:
    """Wait until something has come to pass in the broker's thread."""
    deadline_s = time.monotonic() + WAIT_S
    while not station.call(condition):
        assert time.monotonic() < deadline_s, "it did not come to pass"


STRANGERS = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),
    "zmtp 2 hub": b"\xff\0\0\0\0\0\0\0\1\x7f\1\4\0\0",
    "zmtp 2 command": b"\xff\0\0\0\0\0\0\0\1\x7f\1\5\0\0" + encode_command(b"PING", b"\0\0"),
    "plain": GREETING[:12] + b"PLAIN".ljust(20, b"\0") + bytes(32),
    "pub": GREETING + encode_command(b"READY", b"\x0bSocket-Type\0\0\0\3PUB"),
    "huge frame": GREETING + READY + b"\x02\x7f" + b"\xff" * 7,
    "many frames": GREETING + READY + b"\1\0" * 2000,
    "no hello": GREETING + READY + b"".join(encode(encode_envelope(Envelope("nobody", CALL)))),
    "no head": GREETING + READY + b"".join(encode([b"", b"x", b""])),
}


@pytest.mark.parametrize("front", ["ipc", "tcp"])
@pytest.mark.parametrize("stranger", STRANGERS)
def test_garbage_is_sent_away(station: Any, front: str, stranger: str) -> None:
    """Whatever a stranger says wrongly ends his connection, and disturbs nobody."""
    bus = station.bus(front)
    controller, environment = bus.join(Role.CONTROLLER), bus.join(Role.ENVIRONMENT)
    said = until_end(raw(station, STRANGERS[stranger], front))
    controller.send(environment.name, CALL)

    assert said[:11] in (GREETING[:11], b"")  # nothing where the reset overtook it
    assert CALL == environment.receive().head
    bus.close()


@pytest.mark.parametrize("said", [b"", GREETING + READY + b"\1\0\1\5he"])
def test_silence_is_sent_away(station: Any, said: bytes) -> None:
    """Who does not get as far as HELLO in time is sent away, wherever he stopped."""
    connected = raw(station, said)
    station.pass_time(HANDSHAKE_S + 1.0)
    answer = until_end(connected)

    assert answer.startswith(GREETING)
    assert b"(handshake_s)" in answer


def test_too_many_frames_on_the_fast_way(native: Any) -> None:
    """A joined peer that sends a frame too many is cut off, though its message came in one chunk."""
    controller, environment = native.join(Role.CONTROLLER), native.join(Role.ENVIRONMENT)
    controller.send(environment.name, CALL)
    environment.receive()
    controller.send(environment.name, CALL, *[b""] * (MESSAGE_FRAMES - 1))

    with pytest.raises(PeerLost, match="message_frames"):
        controller.receive()


def test_a_full_destination_is_busy(native: Any) -> None:
    """CALLs to a peer that does not read are answered busy at the mark, and none of those that passed is lost."""
    controller, environment = native.join(Role.CONTROLLER), native.join(Role.ENVIRONMENT)
    blob = bytes(100_000)
    sent = 0
    while not controller.link.receive(0.0):
        controller.send(environment.name, CALL, b"", blob)
        sent += 1
        assert sent * len(blob) < 4 * QUEUE_MARK_BYTES
        if sent * len(blob) > QUEUE_MARK_BYTES:
            while controller.link.receive(0.05) is None and sent < 40:
                controller.send(environment.name, CALL, b"", blob)
                sent += 1
            break
    passed = 0
    while (frames := environment.link.receive(0.2)) is not None:
        passed += decode(frames).head.verb is Verb.CALL

    assert QUEUE_MARK_BYTES // len(blob) <= passed < sent


def test_urgent_messages_overtake(native: Any) -> None:
    """A SIGNAL to a peer whose data wait comes before most of them."""
    controller = native.join(Role.CONTROLLER)
    governor = native.join(Role.GOVERNOR, None)
    for i in range(20):
        governor.send(controller.name, Head(Verb.CALL, i, "controller.start"), b"", bytes(100_000))
    governor.send(controller.name, Head(Verb.SIGNAL, 99))
    governor.send("", Head(Verb.CALL, 100, "kernel.info"))  # answered: all of the above has been routed
    while governor.receive().head.serial != 100:
        pass
    serials = []
    while 99 not in serials:
        serials.append(controller.receive().head.serial)

    assert len(serials) < 15


def kernel_calls(count: int, call: str = "kernel.info") -> bytes:
    """Return so many questions to the kernel as bytes."""
    heads = (Head(Verb.CALL, serial, call) for serial in range(count))
    return b"".join(b"".join(encode(encode_envelope(Envelope("", head)))) for head in heads)


@pytest.mark.parametrize("front", ["ipc", "tcp"])
def test_a_chunk_of_many_messages_takes_many_turns(station: Any, front: str) -> None:
    """Of a flood nothing is lost or mixed up, be it of questions to the kernel or of messages that need no decision."""
    bus = station.bus(front)
    controller, store = bus.join(Role.CONTROLLER), bus.join(Role.STORE, None)
    count = 4 * MESSAGES_PER_CALLBACK
    flood = encode_envelope(Envelope(store.name, Head(Verb.TELL, 7)))
    controller.link._send_all(b"".join(encode(flood)) * count + kernel_calls(count))

    assert list(range(count)) == [controller.receive().head.serial for _ in range(count)]
    assert [7] * count == [store.receive().head.serial for _ in range(count)]
    bus.close()


def test_who_reads_no_answers_asks_no_more(native: Any, station: Any) -> None:
    """The questions of one who does not read are not taken any more; when he reads, all of them are answered."""
    observer = native.join(Role.OPERATOR, None)
    for worker in range(20):  # each is a row of the answers, which are large so that few of them fill a queue
        native.join(Role.ENVIRONMENT, worker)
    with station.time_stopped():  # none of these answers a BEAT
        link = station.exchange.broker.joined[observer.name]
        count = 2_000
        observer.link._socket.settimeout(WAIT_S)
        calls = kernel_calls(count, "kernel.peers")
        sending = threading.Thread(target=observer.link._socket.sendall, args=(calls,))
        sending.start()
        until(station, lambda: link.sink._pauses)
        waiting_bytes = station.call(lambda: link.queued_bytes)
        serials: list[int] = []
        while len(serials) < count:
            frames = observer.link.receive(WAIT_S)
            assert frames is not None
            head = decode(frames).head
            if head.verb is not Verb.BEAT:  # an answer would get between the questions
                serials.append(head.serial)
        sending.join(WAIT_S)

    assert QUEUE_MARK_BYTES // 2 < waiting_bytes < 3 * QUEUE_MARK_BYTES
    assert list(range(count)) == serials


def test_who_is_held_is_not_accused(native: Any, station: Any) -> None:
    """A sender that we do not read, since a reader is slow, is not taken for silent."""
    governor, controller = native.join(Role.GOVERNOR, None), native.join(Role.CONTROLLER)
    store = native.join(Role.STORE, None)
    controller.send(governor.name, Head(Verb.CALL, 1, "governor.failed"))  # who has work may be silent
    governor.receive()
    count = 100
    tells = [Head(Verb.TELL, serial) for serial in range(count)]
    sending = threading.Thread(target=lambda: [store.send(governor.name, head, b"", bytes(100_000)) for head in tells])
    sending.start()
    sending.join(0.2)
    assert sending.is_alive()
    pass_time_for(station, controller, 5)
    serials = [governor.receive().head.serial for _ in range(count)]
    sending.join(WAIT_S)

    assert list(range(count)) == serials
    assert store.name in station.call(lambda: list(station.exchange.broker.joined))


def pass_time_for(station: Any, peer: Any, seconds: int) -> None:
    """Let time pass in which one peer is not silent."""
    link = station.exchange.broker.joined[peer.name]
    for _ in range(2 * seconds):
        station.call(lambda: setattr(link, "heard_s", station.clock()))
        station.pass_time(0.5)


def test_a_destination_that_takes_nothing_is_lost(native: Any, station: Any) -> None:
    """Who has work may be silent, but not leave for ten seconds what waits for him; who asked him is told."""
    controller, environment = native.join(Role.CONTROLLER), native.join(Role.ENVIRONMENT)
    link = station.exchange.broker.joined[environment.name]
    for _ in range(12):
        controller.send(environment.name, CALL, b"", bytes(100_000))
    until(station, lambda: link.queued_bytes > QUEUE_MARK_BYTES // 2)
    pass_time_for(station, controller, int(PROGRESS_S) - 2)
    assert environment.name in station.call(lambda: list(station.exchange.broker.joined))
    pass_time_for(station, controller, 4)

    assert Verb.LOST is controller.receive().head.verb
    assert any("(progress_s)" in str(note.fields.get("reason")) for note in station.notes)


def test_silence_beyond_ones_own_word(native: Any, station: Any) -> None:
    """Who says by PING how long he may be silent, at most, is lost when he is so for longer."""
    controller, environment = native.join(Role.CONTROLLER), native.join(Role.ENVIRONMENT)
    controller.send(environment.name, CALL)  # work, so that BEAT asks in vain
    environment.receive()
    environment.link._send_all(encode_command(b"PING", b"\0\x32"))
    link = station.exchange.broker.joined[environment.name]
    until(station, lambda: link.sink._zmtp.silence_s == 5.0)
    pass_time_for(station, controller, 4)
    assert environment.name in station.call(lambda: list(station.exchange.broker.joined))
    pass_time_for(station, controller, 2)

    assert Verb.LOST is controller.receive().head.verb
    assert any("its PING allowed" in str(note.fields.get("reason")) for note in station.notes)


def begun(size: int, to: str = "r/controller/0") -> bytes:
    """Return the begin of an answer of so many bytes."""
    return b"".join(encode([to.encode(), bytes((0x92, 4, 5)), b""])[:-2]) + frame_header(size, more=False)


@pytest.mark.parametrize(
    ("data", "between"),
    [(begun(100) + b"x", b""), (begun(100)[:-2], encode_command(b"PING", b"\0\0"))],
    ids=["silent", "pings"],
)
def test_a_message_that_does_not_grow(native: Any, station: Any, data: bytes, between: bytes) -> None:
    """Who begins a message and does not go on is lost after its time, whatever commands he sends between frames."""
    environment = native.join(Role.ENVIRONMENT)
    environment.link._send_all(data)
    known, passed_s = len(station.notes), 0
    while passed_s < 3 * UNFINISHED_IDLE_S and environment.name in station.exchange.broker.joined:
        environment.link._send_all(between)
        pass_time_for(station, environment, 1)  # silence is not to be the reason
        passed_s += 1

    assert environment.name not in station.exchange.broker.joined
    assert passed_s >= UNFINISHED_IDLE_S
    assert any("unfinished_idle_s" in str(note.fields.get("reason")) for note in station.notes[known:])


def test_a_sleeping_broker_accuses_nobody(native: Any, station: Any) -> None:
    """A broker that was stopped for a minute finds nobody guilty who had begun a message, or promised to speak."""
    environment = native.join(Role.ENVIRONMENT)
    environment.link._send_all(encode_command(b"PING", b"\0\x0a") + begun(100) + b"x")
    link = station.exchange.broker.joined[environment.name]
    until(station, lambda: link.sink._zmtp.unfinished)

    def sleep() -> None:
        station._offset_s += 60.0
        station.exchange.tick()

    for _ in range(2):
        station.call(sleep)

    assert environment.name in station.call(lambda: list(station.exchange.broker.joined))


def test_a_defect_ends_one_connection(native: Any, station: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where we fail at what one sends, he is lost by that reason, and all others go on."""
    environment, muscle = native.join(Role.ENVIRONMENT), native.join(Role.MUSCLE)
    link = station.exchange.broker.joined[environment.name]
    monkeypatch.setattr(link, "refusals_s", None)  # as good a defect as any
    environment.send(muscle.name, CALL)
    with pytest.raises(PeerLost):
        environment.link.receive(WAIT_S)
    muscle.send("", INFO)

    assert Verb.REPLY is muscle.receive().head.verb
    assert any(note.event == "connection.failed" for note in station.notes)


class Wire:
    """Be a transport that writes at once, without a socket."""

    def __init__(self) -> None:
        self.written = b""
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, pieces: list[bytes]) -> None:
        self.written += b"".join(pieces)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return 0

    def ignore(self, *arguments: Any, **options: Any) -> None:
        pass

    set_write_buffer_limits = get_extra_info = close = abort = ignore


def play(data: bytes, cuts: list[int]) -> tuple[bytes, bytes]:
    """Let a controller say some bytes in pieces; return what its environment hears, and it itself."""
    later: list[Callable[[], None]] = []
    exchange = Exchange(
        Broker(b"", "", 0, 5.0),
        lambda note: None,
        lambda: 5.0,
        lambda seconds, call: None if seconds else later.append(call),
    )
    wires, connections = [Wire(), Wire()], [NativeConnection(exchange) for _ in range(2)]
    for wire, connection, role in zip(wires, connections, ("controller", "environment"), strict=True):
        name = f"r/{role}/0"
        digest = hashlib.sha256(name.encode()).digest()
        exchange.broker.admit(Admission(name, Role(role), "r", digest, worker=0))
        hello = codec_of(Hello).encode(Hello(1, role, name, name))
        said = encode(encode_envelope(Envelope("", Head(Verb.HELLO, 1), hello)))
        connection.connection_made(wire)  # type: ignore[arg-type]
        connection.data_received(GREETING + READY + b"".join(said))
        while later:
            later.pop(0)()
        wire.written = b""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for begin, end in itertools.pairwise(edges):
        if begin < end:
            connections[0].data_received(data[begin:end])
        while later:
            later.pop(0)()
        assert wires[0].reading or connections[0]._closing
    exchange.broker.check()
    return wires[1].written, wires[0].written


def packed(to: str, head: Head, *blobs: bytes) -> bytes:
    """Return a message as bytes."""
    return b"".join(encode(encode_envelope(Envelope(to, head, b"", blobs))))


chatter = st.one_of(
    st.sampled_from(
        [
            packed("r/environment/0", CALL),
            packed("r/environment/0", CALL, b"x" * 300, b""),
            packed("r/environment/0", Head(Verb.TELL, 1, "x")),
            packed("nobody", CALL),
            packed("nobody", Head(Verb.TELL, 1, "x")),
            packed("", INFO),
            encode_command(b"PING", b"\0\0ctx"),
        ]
    ),
    st.binary(max_size=3),
)


@given(st.lists(chatter, max_size=12).map(b"".join), st.lists(st.integers(0, 5000), max_size=8))
def test_turns_change_nothing(data: bytes, cuts: list[int]) -> None:
    """What is heard does not depend on the pieces in which it was said, nor on how much one turn allows."""
    expected = play(data, [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange_module, "_WALK", range(2))
        patch.setattr(native_module, "_DECISIONS_PER_CALLBACK", 1)
        patch.setattr(native_module, "_FULL_READ_BYTES", 50)
        found = play(data, cuts)

    assert expected == found
