"""A broker under attack, from strangers and from those who have joined, while two good peers go on.

The module is also the attacker's program: `python test_battery.py ENDPOINT COUNT SEED KIND...`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ganglion.limits import UNJOINED_MESSAGE_BYTES
from ganglion.transport.blocking import BlockingLink
from ganglion.transport.zmtp import GREETING, encode, encode_command, frame_header
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode
from ganglion.wire.envelope import encode as encode_envelope
from ganglion.wire.messages import Admit, Hello
from ganglion.wire.verb import Verb

MEMORY_BYTES = 64 * 1024 * 1024
WAIT_S = 20.0
TOKEN = "t" * 43
READY = encode_command(b"READY", b"\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\0")
SHAKEN = GREETING + READY
UPDATE = "environment.update"


def hello(role: str, name: str, token: str) -> list[bytes]:
    """Return the frames of a HELLO."""
    body = codec_of(Hello).encode(Hello(1, role, name, token))
    return encode_envelope(Envelope("", Head(Verb.HELLO, 1), body))


def wire(frames: list[bytes]) -> bytes:
    """Return a message as bytes."""
    return b"".join(encode(frames))


class Peer:
    """Be a peer that answers BEAT whenever it looks."""

    def __init__(self, endpoint: str, role: str, name: str, token: str = TOKEN) -> None:
        self.name = name
        self.link = BlockingLink.connect(endpoint, WAIT_S)
        self.link.send(hello(role, name, token))
        assert self.receive().head.verb is Verb.WELCOME

    def send(self, to: str, head: Head, body: bytes = b"", *blobs: bytes) -> None:
        self.link.send(encode_envelope(Envelope(to, head, body, blobs)))

    def look(self, wait_s: float) -> Envelope | None:
        """Return the next message that is no BEAT, or None."""
        while (frames := self.link.receive(wait_s)) is not None:
            envelope = decode(frames)
            if envelope.head.verb is not Verb.BEAT:
                return envelope
            self.send("", Head(Verb.BEAT, envelope.head.serial, "here"))
        return None

    def receive(self) -> Envelope:
        envelope = self.look(WAIT_S)
        assert envelope is not None, f"{self.name} waited for nothing"
        return envelope


# == attacks ==========================================================================================================
class Attacker:
    """Do what strangers and treacherous peers do; all of it is drawn from one seed."""

    def __init__(self, endpoint: str, seed: int) -> None:
        self.endpoint = endpoint
        self.random = random.Random(seed)
        self._held: list[socket.socket] = []

    def connect(self, said: bytes = b"") -> socket.socket:
        """Return a connection that has said something; a broker that closes meanwhile is no surprise."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.connect(self.endpoint.removeprefix("ipc://"))  # without a timeout: it waits where many connect
        made.settimeout(WAIT_S)
        with contextlib.suppress(OSError):
            made.sendall(said)
        return made

    def hold(self, made: socket.socket) -> None:
        """Keep a connection open, until a hundred newer ones are."""
        self._held.append(made)
        if len(self._held) > 100:
            self._held.pop(0).close()

    def leave(self, made: socket.socket) -> None:
        """Mostly see how the broker takes it, sometimes close at once."""
        if self.random.random() < 0.8:
            with contextlib.suppress(OSError):
                made.shutdown(socket.SHUT_WR)
                while made.recv(65_536):
                    pass
        made.close()

    def noise(self) -> None:
        self.leave(self.connect(self.random.randbytes(self.random.randint(1, 4096))))

    def unfinished(self) -> None:
        """Begin a message of any shape that is allowed, or just not, and stay."""
        size = UNJOINED_MESSAGE_BYTES + self.random.choice([-1, 0, 1])
        shapes = [
            frame_header(size, more=False) + bytes(size - 1),
            frame_header(0, more=True) * self.random.randint(1, 4),
            frame_header(8, more=True) + bytes(8) + frame_header(size - 8, more=True) + bytes(size - 9),
            b"\x03" + bytes(self.random.randint(0, 8)),
        ]
        self.hold(self.connect(SHAKEN + self.random.choice(shapes)))

    def tokens(self) -> None:
        name = self.random.choice(["supervisor", "r/environment/x/0", "r/controller/0", "nobody"])
        said = wire(hello(name.split("/")[-1], name, str(self.random.random())))
        self.leave(self.connect(SHAKEN + said))

    def bombs(self) -> None:
        """Say a HELLO whose body is small and grows large, or never ends."""
        room = UNJOINED_MESSAGE_BYTES - 40
        bodies = [b"\x81\xa1x\xdc\x3f\x00" + b"\x80" * room, b"\x91" * room, b"{" * room, b"\xdd\xff\xff\xff\xff"]
        head = encode_envelope(Envelope("", Head(Verb.HELLO, 1)))[1]
        self.leave(self.connect(SHAKEN + wire([b"", head, self.random.choice(bodies)[:room]])))

    # -- of those who have joined -------------------------------------------------------------------------------------
    def joined(self, role: str = "muscle") -> socket.socket:
        """Return the connection of a peer that has joined."""
        peer = Peer(self.endpoint, role, f"r/{role}/bad/0")
        return peer.link._socket

    def floods(self) -> None:
        """Ask and tell without end, and read nothing."""
        names = ["", "nobody", "r/controller/0", "@r/events", "r/brain/bad"]
        heads = [Head(Verb.CALL, 7, "kernel.info"), Head(Verb.CALL, 7, UPDATE), Head(Verb.TELL, 0, "x")]
        for said in (
            b"".join(wire(encode_envelope(Envelope(n, h))) for n in names[:2] for h in heads),
            b"".join(wire(encode_envelope(Envelope(n, h))) for n in names for h in heads),
            encode_command(b"PING", b"\0\0"),
        ):
            made = self.joined()
            made.settimeout(0.2)
            with contextlib.suppress(OSError):
                for _ in range(20):
                    made.sendall(said * (200_000 // len(said)))
            made.close()

    def stopped(self) -> None:
        """Let others' messages wait: subscribe to what is told, and never read."""
        reader = Peer(self.endpoint, "observer", "r/observer/bad/0")
        reader.send("", Head(Verb.CALL, 2, "kernel.subscribe"), b"\x81\xa5topic\xaa@r/records")
        reader.receive()
        teller = Peer(self.endpoint, "environment", "r/environment/bad/0")
        for number in range(150):
            teller.send("@r/records", Head(Verb.TELL, number, "event"), b"", bytes(100_000))
            teller.look(0.0)
        teller.link.close()
        reader.link.close()


STRANGERS = ("noise", "unfinished", "tokens", "bombs")
JOINED = ("floods", "stopped")


def main(endpoint: str, count: str, seed: str, *kinds: str) -> None:
    """Do each kind of attack so often, those of joined peers rarely; say after each that it is done."""
    attacker = Attacker(endpoint, int(seed))
    for kind in kinds:
        attack: Callable[[], None] = getattr(attacker, kind)
        for _ in range(1 if kind in JOINED else int(count)):
            attack()
        sys.stdout.write(f"{kind}\n")
        sys.stdout.flush()


# == the broker and the good ones =====================================================================================
class Broker:
    """Run a broker in a process of its own, with a supervisor and two peers who talk."""

    def __init__(self, folder: Path) -> None:
        self.endpoint = f"ipc://{folder}/b.sock"
        self._log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ganglion.transport.server"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        order = {"endpoints": [self.endpoint], "supervisor_token_sha256": digest().hex()}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        assert "endpoints" in json.loads(self.process.stdout.readline())
        self.supervisor = Peer(self.endpoint, "supervisor", "supervisor")
        for name in ("controller/0", "environment/x/0", "muscle/bad/0", "environment/bad/0", "governor/bad"):
            self.admit(name)
        self.admit("observer/bad/0")
        self.asker = Peer(self.endpoint, "controller", "r/controller/0")
        self.answerer = Peer(self.endpoint, "environment", "r/environment/x/0")
        self.trips = 0

    def admit(self, name: str) -> None:
        """Let a peer of the run `r` join."""
        role = name.partition("/")[0]
        worker = 0 if name.endswith("/0") else None
        admit = Admit(f"r/{name}", role, "r", digest(), worker=worker, uid="bad")
        self.supervisor.send("", Head(Verb.CALL, 1, "kernel.admit"), codec_of(Admit).encode(admit))
        assert self.supervisor.receive().head.verb is Verb.REPLY

    def trip(self) -> None:
        """Let a question go to the other peer and its answer come back."""
        self.asker.send(self.answerer.name, Head(Verb.CALL, self.trips, UPDATE))
        asked = self.answerer.receive()
        self.answerer.send(asked.peer, Head(Verb.REPLY, asked.head.serial))
        answer = self.asker.receive()
        assert (Verb.REPLY, self.trips) == (answer.head.verb, answer.head.serial)
        self.trips += 1
        self.supervisor.look(0.0)

    def memory_bytes(self, which: str) -> int:
        """Return what the broker's process holds (VmRSS), or held at most (VmHWM)."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(which):
                return int(line.split()[1]) * 1024
        raise AssertionError(which)

    def forget_peak(self) -> None:
        """Let the peak of memory begin anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def close(self) -> list[dict[str, Any]]:
        for peer in (self.asker, self.answerer, self.supervisor):
            peer.link.close()
        self.process.communicate(timeout=WAIT_S)
        self._log.seek(0)
        with self._log:
            return [json.loads(line) for line in self._log]


def digest() -> bytes:
    """Return what the broker keeps of the token."""
    return hashlib.sha256(TOKEN.encode()).digest()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Return a broker in which two peers talk; it must still live when the test ends."""
    made = Broker(tmp_path)
    yield made
    if made.process.returncode is None:
        made.process.kill()
        made.close()


def besiege(broker: Broker, count: int, *kinds: str) -> None:
    """Attack while the good ones talk; all bounds are asserted."""
    for _ in range(200):
        broker.trip()
    before = broker.memory_bytes("VmRSS")
    broker.forget_peak()
    broker.trips = 0
    command = [sys.executable, __file__, broker.endpoint, str(count), "7", *kinds]
    done: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as attacker:
        assert attacker.stdout is not None
        while len(done) < len(kinds):
            broker.trip()
            if select.select([attacker.stdout], [], [], 0)[0]:
                lines = attacker.stdout.read(4096).decode().split()
                assert lines, f"the attacker ended after {done}"
                done += lines
        attacker.communicate()
    for _ in range(200):
        broker.trip()
    grown = broker.memory_bytes("VmHWM") - before

    assert list(kinds) == done
    assert broker.process.poll() is None
    assert broker.trips > 20 * len(kinds)  # good peers went on
    assert grown <= MEMORY_BYTES


def test_strangers(broker: Broker) -> None:
    """Some of each kind of stranger: the broker lives, its memory and log stay small, good peers go on."""
    besiege(broker, 60, *STRANGERS)
    log = broker.close()
    assert 0 == broker.process.returncode
    refused = [row for row in log if row["event"] in ("connection.broken", "peer.refused")]

    assert sum(row.get("count", 1) for row in refused) > 100
    assert len(refused) < 60  # by kind and second, not by stranger


def test_treacherous_peers(broker: Broker) -> None:
    """Who has joined and then floods, stops, begins and does not end, or sends bombs, harms nobody else."""
    besiege(broker, 1, *JOINED)
    log = broker.close()
    assert 0 == broker.process.returncode

    assert not [row for row in log if row["level"] == "error"]


if __name__ == "__main__":
    main(*sys.argv[1:])
