from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ganglion.broker.link import Admission
from ganglion.errors import PeerLost
from ganglion.transport.native import NativeFront
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head
from ganglion.wire.messages import Failure, Hello
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

FRONTS = ("ipc", "tcp", "zmq")
NOBODY = 65534

OTHER_USER = """
import os, socket, sys
os.setgroups([]), os.setgid(65534), os.setuid(65534)
with socket.socket(socket.AF_UNIX) as stranger:
    stranger.settimeout(10.0)
    try:
        stranger.connect(sys.argv[1])
    except PermissionError:
        sys.exit(77)
    try:
        stranger.sendall(bytes.fromhex(sys.argv[2]))
        heard = stranger.recv(4096)
    except ConnectionError:
        heard = b""
    print(len(heard))
"""


def admit(station: Any, name: str, **more: Any) -> str:
    """Admit a muscle of run `one`, or as told; return its token."""
    token = (name + "-").ljust(43, "t")[:43]
    digest = hashlib.sha256(token.encode()).digest()
    values = {"role": Role.MUSCLE, "run": "ended", "uid": "x", "worker": 0, **more}
    admission = Admission(name=name, token_sha256=digest, curve_key=station.keys.public, **values)
    station.call(lambda: station.exchange.broker.admit(admission))
    return token


def answer(bus: Any, **said: Any) -> tuple[Verb, str]:
    """Say HELLO by a connection of its own; return the verb of the answer, and its reason if it is an ERROR."""
    peer = bus.peer(Role.MUSCLE)
    hello = Hello(**{"version": 1, "role": "muscle", "name": "", "token": "", **said})
    peer.send("", Head(Verb.HELLO, 1), codec_of(Hello).encode(hello))
    envelope = peer.receive()
    refused = envelope.head.verb is Verb.ERROR
    return envelope.head.verb, codec_of(Failure).decode(envelope.body).message if refused else ""


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param({"token": ""}, "token: it admits nobody", id="none"),
        pytest.param({"token": "w" * 43}, "token: it admits nobody", id="wrong"),
        pytest.param({"token": "w" * 44}, "token: expected at most 43 bytes", id="long"),
        pytest.param({"name": "RUN-2/muscle/y/0"}, "name: no run waits for a muscle named", id="of-another-run"),
        pytest.param({"name": "RUN/brain/x", "role": "brain"}, "name: this token does not admit", id="of-another"),
        pytest.param({"role": "brain"}, "role: this token is for the role muscle", id="another-role"),
        pytest.param({"role": "supervisor"}, "role: this token is for the role muscle", id="supervisor"),
        pytest.param({"role": "supervisor", "name": "supervisor"}, "name: this token does not admit", id="top"),
        pytest.param({"incarnation": 2}, "incarnation: RUN/muscle/y/0 is at 3, found the stale 2", id="fenced"),
        pytest.param({"version": 2}, "version:", id="version"),
    ],
)
def test_who_has_no_right_does_not_join(station: Any, front: str, change: dict[str, Any], found: str) -> None:
    """No token, a wrong one, one of another run, name or role, a fenced incarnation: each is told, none joins."""
    station.pass_time(1.5)  # one address is told of one wrong token in a second
    bus = station.bus(front)
    change = {key: v.replace("RUN", bus.run) if isinstance(v, str) else v for key, v in change.items()}
    name = f"{bus.run}/muscle/y/0"
    token = admit(station, name, run=bus.run, incarnation=3)
    for run, rest, role in ((f"{bus.run}-2", "muscle/y/0", Role.MUSCLE), (bus.run, "brain/x", Role.BRAIN)):
        admit(station, f"{run}/{rest}", run=run, role=role)
    before = set(station.call(lambda: dict(station.exchange.broker.joined)))
    verb, reason = answer(bus, **{"name": name, "token": token, **change})

    assert Verb.ERROR is verb
    assert found.replace("RUN", bus.run) in reason
    assert before == set(station.call(lambda: dict(station.exchange.broker.joined)))
    assert (Verb.WELCOME, "") == answer(bus, name=name, token=token, incarnation=3)
    bus.close()


@pytest.mark.parametrize("front", FRONTS)
def test_an_expired_token_admits_nobody(station: Any, front: str) -> None:
    """When a run has ended its tokens are worth nothing."""
    station.pass_time(1.5)
    name = "ended/muscle/x/0"
    token = admit(station, name)
    station.call(lambda: station.exchange.broker.register.withdraw(name))
    bus = station.bus(front)

    assert (Verb.ERROR, "token: it admits nobody") == answer(bus, name=name, token=token)
    bus.close()


@pytest.mark.parametrize("front", FRONTS)
def test_a_fenced_incarnation_is_cut_off(station: Any, front: str) -> None:
    """A successor takes the name over; what its predecessor says from then on reaches nobody."""
    bus = station.bus(front)
    controller = bus.join(Role.CONTROLLER)
    name = f"{bus.run}/environment/x/1"
    token = admit(station, name, role=Role.ENVIRONMENT, run=bus.run)
    former = bus.peer(Role.ENVIRONMENT, 9)
    hello = codec_of(Hello).encode(Hello(1, "environment", name, token))
    former.send("", Head(Verb.HELLO, 1), hello)
    assert Verb.WELCOME is former.receive().head.verb
    admit(station, name, role=Role.ENVIRONMENT, run=bus.run, incarnation=2)
    successor = bus.peer(Role.ENVIRONMENT, 8)
    successor.send("", Head(Verb.HELLO, 1), hello)
    assert Verb.WELCOME is successor.receive().head.verb
    controller.send("", Head(Verb.CALL, 4, "kernel.info"))
    assert 4 == controller.receive().head.serial
    with contextlib.suppress(PeerLost):  # the native fronts close it, which libzmq's cannot
        former.send(controller.name, Head(Verb.REPLY, 1))
        former.send("", Head(Verb.HELLO, 1), hello)
    controller.send("", Head(Verb.CALL, 5, "kernel.info"))

    assert 5 == controller.receive().head.serial
    assert 2 == station.call(lambda: station.exchange.broker.joined[name].peer.incarnation)
    bus.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user for a while")
def test_another_user_is_sent_away(station: Any) -> None:
    """Folder and file keep other users out; were they open, the system would tell who it is: not a byte is answered."""
    with tempfile.TemporaryDirectory(prefix="gu-", dir="/tmp") as text:
        folder = Path(text) / "bus"

        async def listen() -> NativeFront:
            front = NativeFront(station.exchange)
            await front.listen(f"ipc://{folder}/a.sock")
            return front

        front = asyncio.run_coroutine_threadsafe(listen(), station.loop).result(10.0)
        Path(text).chmod(0o755)
        greeting = bytes.fromhex("ff00000000000000017f0301") + b"NULL".ljust(20, b"\0") + bytes(32)
        words = [sys.executable, "-c", OTHER_USER, f"{folder}/a.sock", greeting.hex()]
        for opened in ((), (folder,)):
            for path in opened:
                path.chmod(0o755)
            assert 77 == subprocess.run(words, check=False).returncode
        (folder / "a.sock").chmod(0o777)
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        station.call(front.close)

    assert "0\n" == done.stdout
