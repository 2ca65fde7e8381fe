from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ganglion.errors import PeerLost, UsageError
from ganglion.limits import OPEN_CALLS
from ganglion.transport import blocking
from ganglion.transport.blocking import BlockingLink
from ganglion.transport.curve import ClientKeys, new_pair
from ganglion.wire.envelope import Head
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

if TYPE_CHECKING:
    from typing import Any

CALL, REPLY = Head(Verb.CALL, 5, "environment.update", (0, 0, 1, 1, 2, 3), 1000), Head(Verb.REPLY, 5)
SIZES = (0, 1, 255, 256, 65_535, 65_536, 1024 * 1024)


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


def test_choice(station: Any) -> None:
    """Without keys there is a native link to this machine and none to others; with keys libzmq connects."""
    pair = new_pair()
    keys = ClientKeys(new_pair().public, pair.public, pair.secret)
    link = blocking.connect_blocking(station.endpoints["ipc"])
    link.close()

    assert isinstance(link, BlockingLink)
    with pytest.raises(UsageError, match="expected CURVE keys"):
        blocking.connect_blocking("tcp://0.0.0.0:1", 5.0)
    with pytest.raises(PeerLost, match="no process listens"):
        blocking.connect_blocking("tcp://127.0.0.1:1", 5.0, keys)
