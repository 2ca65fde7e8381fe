from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ganglion.errors import PeerLost, UsageError
from ganglion.limits import OPEN_CALLS
from ganglion.transport import link
from ganglion.transport.blocking import BlockingLink
from ganglion.transport.curve import ClientKeys, new_pair
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head
from ganglion.wire.messages import Lost
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

if TYPE_CHECKING:
    from typing import Any

CALL, REPLY = Head(Verb.CALL, 5, "environment.update", (0, 0, 1, 1, 2, 3), 1000), Head(Verb.REPLY, 5)
SIZES = (0, 1, 255, 256, 65_535, 65_536, 1024 * 1024)


def test_round_trip(bus: Any) -> None:
    """A CALL reaches its callee with the caller's name, and the REPLY comes back."""
    controller, environment = bus.join(Role.CONTROLLER), bus.join(Role.ENVIRONMENT)
    for number in range(3):
        controller.send(environment.name, CALL, b"ask%d" % number)
        asked = environment.receive()
        environment.send(asked.peer, REPLY, b"answer%d" % number)
        answered = controller.receive()

        assert (controller.name, CALL, b"ask%d" % number) == (asked.peer, asked.head, asked.body)
        assert (environment.name, REPLY, b"answer%d" % number) == (answered.peer, answered.head, answered.body)


@pytest.mark.parametrize("size", SIZES)
def test_frame_sizes(bus: Any, size: int) -> None:
    """Bodies and blobs of each size pass unchanged, both ways."""
    controller, environment = bus.join(Role.CONTROLLER), bus.join(Role.ENVIRONMENT)
    blob = bytes(range(256)) * (size // 256 + 1)
    controller.send(environment.name, CALL, b"body", blob[:size], b"", blob[:size])
    asked = environment.receive()
    environment.send(asked.peer, REPLY, blob[:size])

    assert (blob[:size], b"", blob[:size]) == asked.blobs
    assert blob[:size] == controller.receive().body


def test_many_frames(bus: Any) -> None:
    """A message of a thousand frames passes whole and in order."""
    controller, environment = bus.join(Role.CONTROLLER), bus.join(Role.ENVIRONMENT)
    blobs = [str(i).encode() * (i % 7) for i in range(1000)]
    controller.send(environment.name, CALL, b"body", *blobs)

    assert blobs == list(environment.receive().blobs)


def test_order(bus: Any) -> None:
    """What one peer sends to another arrives in order, small and large mixed."""
    controller, environment = bus.join(Role.CONTROLLER), bus.join(Role.ENVIRONMENT)
    bodies = [bytes([i % 256]) * (70_000 if i % 20 == 7 else i) for i in range(60)]
    found = []
    for begin in range(0, 60, 10):
        for body in bodies[begin : begin + 10]:
            controller.send(environment.name, CALL, body)
        found += [environment.receive().body for _ in range(10)]

    assert bodies == found


def test_many_peers_at_once(bus: Any) -> None:
    """Each of many callers gets its own answers, however their calls mix."""
    brain = bus.join(Role.BRAIN, None)
    muscles = [bus.join(Role.MUSCLE, worker) for worker in range(8)]
    for turn in range(10):
        for muscle in muscles:
            muscle.send(brain.name, Head(Verb.CALL, turn, "brain.think"), muscle.name.encode())
        for _ in muscles:
            asked = brain.receive()
            assert asked.peer.encode() == asked.body
            brain.send(asked.peer, Head(Verb.REPLY, turn), asked.body)
        for muscle in muscles:
            assert muscle.name.encode() == muscle.receive().body


def test_unreachable(bus: Any) -> None:
    """A CALL to nobody is answered."""
    controller = bus.join(Role.CONTROLLER)
    controller.send("nobody", CALL)

    assert "unreachable" == controller.failure()


def test_busy(bus: Any) -> None:
    """One CALL more than may be open is answered busy; an answer makes room again."""
    brain, muscle = bus.join(Role.BRAIN, None), bus.join(Role.MUSCLE)
    think = Head(Verb.CALL, 1, "brain.think")
    for _ in range(OPEN_CALLS + 1):
        muscle.send(brain.name, think)
    assert "busy" == muscle.failure()
    brain.receive()
    brain.send(muscle.name, Head(Verb.REPLY, think.serial))
    assert Verb.REPLY is muscle.receive().head.verb
    muscle.send(brain.name, think)
    for _ in range(OPEN_CALLS):
        assert think == brain.receive().head


@pytest.mark.parametrize("serial", [0, 2, 200, 70_000, 2**40])
def test_an_answer_that_fits_no_open_call_is_refused(bus: Any, serial: int) -> None:
    """It does not arrive, and does not take the place of the right one, which does."""
    brain, muscle = bus.join(Role.BRAIN, None), bus.join(Role.MUSCLE)
    muscle.send(brain.name, Head(Verb.CALL, 1, "brain.think"))
    brain.receive()
    for _ in range(20):
        brain.send(muscle.name, Head(Verb.REPLY, serial))
    brain.send(muscle.name, Head(Verb.REPLY, 1))
    assert Head(Verb.REPLY, 1) == muscle.receive().head


def test_calls_that_are_no_right_do_not_pass(bus: Any) -> None:
    """On a way that is known a call passes by its name only: not another one of the callee, nor one without a name."""
    brain, muscle = bus.join(Role.BRAIN, None), bus.join(Role.MUSCLE)
    for turn in range(3):  # the first time the broker decides, then the fronts know the way
        muscle.send(brain.name, Head(Verb.CALL, turn + 1, "brain.think"))
        assert "brain.think" == brain.receive().head.call
        brain.send(muscle.name, Head(Verb.REPLY, turn + 1))
        assert Verb.REPLY is muscle.receive().head.verb
    for serial, call in enumerate(["brain.store", "brain.shutdown", "brain.thinking", "brain.thin", "", "x" * 60]):
        muscle.send(brain.name, Head(Verb.CALL, 70_000 + serial, call, (0, 0, 1, 1, 2, 3), 1000))
        assert "forbidden" == muscle.failure()
    muscle.send(brain.name, Head(Verb.CALL, 2**40, "brain.leave"))

    assert "brain.leave" == brain.receive().head.call


def test_answers_need_a_call(bus: Any) -> None:
    """A REPLY that nobody has asked for does not arrive."""
    controller, environment = bus.join(Role.CONTROLLER), bus.join(Role.ENVIRONMENT)
    controller.send(environment.name, CALL)
    environment.send(environment.receive().peer, REPLY)
    controller.receive()
    environment.send(controller.name, REPLY)
    for peer in (environment, controller):  # the kernel's answer to the one comes after the broker has judged
        peer.send("", Head(Verb.CALL, 9, "kernel.info"))
        answered = peer.receive()

        assert ("", 9) == (answered.peer, answered.head.serial)


def test_close_is_told(bus: Any) -> None:
    """Who waits for the answer of a peer that is gone is told LOST."""
    controller, environment = bus.join(Role.CONTROLLER), bus.join(Role.ENVIRONMENT)
    controller.send(environment.name, CALL)
    environment.receive()
    environment.link.close()
    told = controller.receive()

    assert Verb.LOST is told.head.verb
    assert environment.name == codec_of(Lost).decode(told.body).peer


def test_leave_and_come_back(bus: Any) -> None:
    """BYE is answered, the connection ends, and the same name may join again."""
    environment = bus.join(Role.ENVIRONMENT)
    environment.send("", Head(Verb.BYE, 3))
    assert Verb.BYE is environment.receive().head.verb
    environment.link.close()
    again = bus.join(Role.ENVIRONMENT)
    controller = bus.join(Role.CONTROLLER)
    controller.send(again.name, CALL)

    assert CALL == again.receive().head


def test_a_stranger_is_refused(bus: Any) -> None:
    """Who does not begin with HELLO gets an ERROR."""
    stranger = bus.peer(Role.ENVIRONMENT)
    stranger.send("", CALL)

    assert "protocol" == stranger.failure()


def test_mixed_fronts(station: Any) -> None:
    """Peers on different fronts of one broker reach each other, with large frames too."""
    bus = station.bus("ipc")
    blob = bytes(300_000)
    controller = bus.join(Role.CONTROLLER, 0, station.bus("zmq").connect)
    environment, muscle = bus.join(Role.ENVIRONMENT), bus.join(Role.MUSCLE, 0, station.bus("tcp").connect)
    for other, call in ((environment, "environment.update"), (muscle, "muscle.act")):
        for _ in range(2):  # the first time the broker decides, then the fronts know the way
            controller.send(other.name, Head(Verb.CALL, 5, call), b"", blob)
            assert (blob,) == other.receive().blobs
            other.send(controller.name, REPLY, b"x", blob)
            assert (blob,) == controller.receive().blobs
    bus.close()


def test_choice(station: Any) -> None:
    """Without keys there is a native link to this machine and none to others; with keys libzmq connects."""
    pair = new_pair()
    keys = ClientKeys(new_pair().public, pair.public, pair.secret)
    blocking = link.connect_blocking(station.endpoints["ipc"])
    blocking.close()

    assert isinstance(blocking, BlockingLink)
    with pytest.raises(UsageError, match="expected CURVE keys"):
        link.connect_blocking("tcp://0.0.0.0:1", 5.0)
    with pytest.raises(PeerLost, match="nobody listens"):
        link.connect_blocking("tcp://127.0.0.1:1", 5.0, keys)
