from __future__ import annotations

import select
from typing import Any

import pytest

from ganglion.errors import LaunchError
from ganglion.limits import QUEUE_MARK_BYTES
from ganglion.transport.zmqfront import ZmqFront
from ganglion.wire.envelope import Head
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb


def test_addresses(station: Any) -> None:
    """Without encryption only this machine may be listened to; an address in use is said to be."""

    def listen() -> None:
        front = ZmqFront(station.exchange)
        try:
            with pytest.raises(LaunchError, match="without encryption"):
                front.listen("tcp://0.0.0.0:0")
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
