from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import PeerLost
from ganglion.limits import ADDRESS_SPACE_BYTES
from ganglion.transport.binding import bind_local
from ganglion.transport.blocking import BlockingLink
from ganglion.transport.curve import ClientKeys, new_pair
from ganglion.transport.zmqlink import ZmqBlockingLink
from ganglion.wire.codec import Content, codec_of
from ganglion.wire.envelope import Envelope, Head, decode, encode
from ganglion.wire.messages import Admit, Hello
from ganglion.wire.verb import Verb

TOKEN = "t" * 43
SERVER, CLIENT = new_pair(), new_pair()
KEYS = ClientKeys(SERVER.public, CLIENT.public, CLIENT.secret)
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()


def start(
    order: Any, descriptors: int | None = None, close_fds: bool = True
) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start a broker with an order, and with so many descriptors, and return it with its answer."""
    command = [sys.executable, "-m", "ganglion.transport.server"]
    if descriptors is not None:
        command = ["/bin/sh", "-c", f'ulimit -n {descriptors} && exec "$0" "$@"', *command]
    broker = subprocess.Popen(
        command,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, close_fds=close_fds,
    )  # fmt: skip
    assert broker.stdin is not None
    assert broker.stdout is not None
    broker.stdin.write((order if isinstance(order, str) else json.dumps(order)) + "\n")
    broker.stdin.flush()
    return broker, json.loads(broker.stdout.readline())


def finish(broker: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]]]:
    """Wait for a broker's end; return its status and what it wrote to its log."""
    _, log = broker.communicate(timeout=10.0)
    return broker.returncode, [json.loads(line) for line in log.splitlines()]


@pytest.mark.parametrize("end", ["lifeline", "SIGTERM"])
def test_serves_until_its_end(tmp_path: Path, end: str) -> None:
    """The broker says where it listens, serves, logs, and ends in order, leaving no file behind."""
    broker, answer = start(
        {"endpoints": [f"ipc://{tmp_path}/b.sock", "tcp://127.0.0.1:0"], "supervisor_token_sha256": DIGEST}
    )
    assert f"ipc://{tmp_path}/b.sock" == answer["endpoints"][0]
    link = BlockingLink.connect(answer["endpoints"][1])
    hello = codec_of(Hello).encode(Hello(1, "supervisor", "supervisor", TOKEN))
    link.send(encode(Envelope("", Head(Verb.HELLO, 1), hello)))
    frames = link.receive(10.0)
    assert frames is not None
    assert Verb.WELCOME is decode(frames).head.verb
    if end == "SIGTERM":
        os.kill(broker.pid, signal.SIGTERM)
    status, log = finish(broker)  # closes its input too
    link.close()

    assert 0 == status
    assert "peer.joined" == log[0]["event"]
    assert [] == list(tmp_path.iterdir())


def test_few_descriptors(tmp_path: Path) -> None:
    """Where descriptors are few, silent strangers take the places of each other and not of who has joined."""
    order = {"endpoints": [f"ipc://{tmp_path}/b.sock"], "supervisor_token_sha256": DIGEST}
    broker, answer = start(order, descriptors=74)  # ten for connections
    link = BlockingLink.connect(answer["endpoints"][0])
    hello = codec_of(Hello).encode(Hello(1, "supervisor", "supervisor", TOKEN))
    link.send(encode(Envelope("", Head(Verb.HELLO, 1), hello)))
    strangers = []
    for _ in range(30):
        strangers.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        strangers[-1].connect(str(tmp_path / "b.sock"))
    for stranger in strangers[:20]:
        while stranger.recv(4096):
            pass
    link.send(encode(Envelope("", Head(Verb.CALL, 2, "kernel.info"))))
    verbs = []
    while Verb.REPLY not in verbs:
        frames = link.receive(10.0)
        assert frames is not None
        verbs.append(decode(frames).head.verb)
    status, log = finish(broker)
    link.close()
    for stranger in strangers:
        stranger.close()

    assert 0 == status
    assert [10] == [row["most"] for row in log if row["event"] == "peers.crowded"]


def test_too_few_descriptors() -> None:
    """Where there are not even those that a broker needs for itself it says so and ends."""
    broker, answer = start({"endpoints": ["ipc:///x"], "supervisor_token_sha256": DIGEST}, descriptors=64)

    assert {"error": "expected more than 64 descriptors (ulimit -n), found 64"} == answer
    assert 1 == finish(broker)[0]


def test_address_in_use(tmp_path: Path) -> None:
    """A second broker at the same place says so in one sentence and ends with 1; the first goes on."""
    order = {"endpoints": [f"ipc://{tmp_path}/b.sock"], "supervisor_token_sha256": DIGEST}
    first, _ = start(order)
    second, answer = start(order)

    assert {"error": f"ipc://{tmp_path}/b.sock is in use: somebody listens there already"} == answer
    assert 1 == finish(second)[0]
    BlockingLink.connect(f"ipc://{tmp_path}/b.sock").close()
    assert 0 == finish(first)[0]


def test_a_killed_broker_is_replaced(tmp_path: Path) -> None:
    """What a killed broker left behind does not stop its successor at the same place."""
    order = {"endpoints": [f"ipc://{tmp_path}/b.sock"], "supervisor_token_sha256": DIGEST}
    first, _ = start(order)
    first.kill()
    finish(first)
    second, answer = start(order)

    assert {"endpoints": [f"ipc://{tmp_path}/b.sock"]} == answer
    assert 0 == finish(second)[0]


@pytest.mark.parametrize(
    "order",
    ["", "nonsense", "[]", "{}", {"endpoints": [], "supervisor_token_sha256": DIGEST},
     {"endpoints": ["ipc:///x"], "supervisor_token_sha256": "zz"},
     {"endpoints": ["tcp://0.0.0.0:0"], "supervisor_token_sha256": DIGEST},
     {"endpoints": ["tcp://127.0.0.1:0"], "remote": ["tcp://127.0.0.1:0"], "supervisor_token_sha256": DIGEST},
     {"endpoints": ["tcp://127.0.0.1:0"], "remote": "x", "supervisor_token_sha256": DIGEST},
     {"endpoints": ["tcp://127.0.0.1:0"], "remote": ["ipc:///tmp/x"], "secret_key": SERVER.secret,
      "supervisor_token_sha256": DIGEST}],
)  # fmt: skip
def test_bad_orders(order: Any) -> None:
    """An order that cannot be carried out is answered with what was expected, and status 1."""
    broker, answer = start(order)

    assert "expected" in answer["error"]
    assert 1 == finish(broker)[0]


def remote_order(folder: Path) -> dict[str, Any]:
    """Return the order of a broker with an encrypted front."""
    return {
        "endpoints": [f"ipc://{folder}/b.sock"],
        "remote": ["tcp://127.0.0.1:0"],
        "secret_key": SERVER.secret,
        "supervisor_token_sha256": DIGEST,
    }


def limit(pid: int, what: int) -> int:
    """Return the soft limit of a process."""
    return resource.prlimit(pid, what)[0]


def operator(link: Any) -> list[bytes] | None:
    """Say HELLO as the operator of `admit` and return what is answered."""
    hello = codec_of(Hello).encode(Hello(1, "operator", "operator", "o" * 43))
    link.send(encode(Envelope("", Head(Verb.HELLO, 1), hello)))
    answer: list[bytes] | None = link.receive(10.0)
    return answer


def exhaust(link: Any) -> None:
    """Take what comes by a link until nothing has come for ten seconds."""
    while link.receive(10.0) is not None:
        pass


def admit(folder: Path) -> BlockingLink:
    """Join as the supervisor and admit operators with the key CLIENT; return the link."""
    link = BlockingLink.connect(f"ipc://{folder}/b.sock")
    hello = codec_of(Hello).encode(Hello(1, "supervisor", "supervisor", TOKEN))
    link.send(encode(Envelope("", Head(Verb.HELLO, 1), hello)))
    admission = Admit("operator/*", "operator", "", hashlib.sha256(b"o" * 43).digest(), curve_key=CLIENT.public)
    link.send(encode(Envelope("", Head(Verb.CALL, 2, "kernel.admit"), codec_of(Admit).encode(admission))))
    for verb in (Verb.WELCOME, Verb.REPLY):
        frames = link.receive(10.0)
        assert frames is not None
        assert verb is decode(frames).head.verb
    return link


def test_a_remote_front(tmp_path: Path) -> None:
    """With keys in its order a broker serves connections with CURVE too; its memory is bounded, and never dumped."""
    broker, answer = start(remote_order(tmp_path))
    supervisor = admit(tmp_path)
    link = ZmqBlockingLink.connect(answer["remote"][0], KEYS, 10.0)
    frames = operator(link)

    assert frames is not None
    assert Verb.WELCOME is decode(frames).head.verb
    assert ADDRESS_SPACE_BYTES == limit(broker.pid, resource.RLIMIT_AS)
    assert 0 == limit(broker.pid, resource.RLIMIT_CORE)
    for open_link in (link, supervisor):
        open_link.close()
    assert 0 == finish(broker)[0]


def test_an_immense_message_costs_its_sender_the_connection(tmp_path: Path) -> None:
    """Where the memory of the process ends libzmq drops the message and its sender; the broker and others go on."""
    broker, answer = start(remote_order(tmp_path))
    supervisor = admit(tmp_path)
    pages = int(Path(f"/proc/{broker.pid}/statm").read_text().split()[0])
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_AS)
    memory = pages * resource.getpagesize() + 256 * 1024 * 1024
    resource.prlimit(broker.pid, resource.RLIMIT_AS, (memory, hard))
    link = ZmqBlockingLink.connect(answer["remote"][0], KEYS, 10.0)
    assert operator(link) is not None
    link.send([bytes(16 * 1024 * 1024)] * 24)
    with pytest.raises(PeerLost):
        exhaust(link)
    link.close()
    again = ZmqBlockingLink.connect(answer["remote"][0], KEYS, 10.0)
    frames = operator(again)

    assert frames is not None
    assert Verb.WELCOME is decode(frames).head.verb
    for open_link in (again, supervisor):
        open_link.close()
    assert 0 == finish(broker)[0]


def test_without_descriptors_the_listener_rests(tmp_path: Path) -> None:
    """Where there is no descriptor for another connection the listener rests, and comes back when there is one."""
    broker, answer = start(remote_order(tmp_path))
    supervisor = admit(tmp_path)
    where = answer["remote"][0]
    _, _, port = where.rpartition(":")
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    most = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (most, hard))
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", int(port)), 10.0) as refused:
        assert b"" == refused.recv(1)  # until the listener is closed, with what it had not accepted
    with pytest.raises(PeerLost):
        ZmqBlockingLink.connect(where, KEYS, 10.0)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (hard, hard))
    link = None
    while link is None:
        with contextlib.suppress(PeerLost):
            link = ZmqBlockingLink.connect(where, KEYS, 10.0)
    frames = operator(link)

    assert frames is not None
    assert Verb.WELCOME is decode(frames).head.verb
    for open_link in (link, supervisor):
        open_link.close()
    assert "listener.rests" in [line["event"] for line in finish(broker)[1]]


def test_light(tmp_path: Path) -> None:
    """The broker's process holds no numpy, no libzmq, no plugin and no store."""
    text = "import sys, ganglion.transport.server; print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split()
    roots = {name.partition(".")[0] for name in modules}

    assert set() == roots & {"numpy", "zmq", "pydantic", "sqlalchemy", "yaml", "click", "rich"}
    assert not [root for root in roots if root.startswith("ganglion_")]
    assert "ganglion.sdk" not in modules


def table(*names: str) -> list[dict[str, Any]]:
    """Return admissions as they stand in an order; the token of each is the end of its name."""
    codec = codec_of(Admit)
    made = [Admit(n, "brain", "r", hashlib.sha256(n[-40:].encode()).digest(), 3, "a", returns=True) for n in names]
    return [json.loads(codec.encode(admit, Content.JSON)) for admit in made]


def test_a_broker_takes_the_place_of_another(tmp_path: Path) -> None:
    """A broker that inherits a socket serves who waits there, and knows from its table who has been succeeded."""
    bound = bind_local(f"ipc://{tmp_path}/b.sock")
    waiting = socket.socket(socket.AF_UNIX)
    waiting.connect(str(tmp_path / "b.sock"))  # before there is anybody
    os.set_inheritable(bound.listening.fileno(), True)
    names = [f"r/brain/{'x' * 100}{i:04d}" for i in range(2000)]  # more than a pipe holds
    order = {
        "endpoints": [bound.endpoint],
        "listening": [bound.listening.fileno()],
        "supervisor_token_sha256": DIGEST,
        "admissions": table(*names),
    }
    broker, answer = start(order, close_fds=False)
    assert {"endpoints": [bound.endpoint]} == answer
    assert waiting.recv(10).startswith(b"\xff")
    verbs = []
    for incarnation in (2, 3):
        link = BlockingLink.connect(bound.endpoint)
        hello = codec_of(Hello).encode(Hello(1, "brain", names[-1], names[-1][-40:], incarnation=incarnation))
        link.send(encode(Envelope("", Head(Verb.HELLO, 1), hello)))
        frames = link.receive(10.0)
        assert frames is not None
        verbs.append(decode(frames).head.verb)
        link.close()
    waiting.close()

    assert [Verb.ERROR, Verb.WELCOME] == verbs
    assert 0 == finish(broker)[0]
    assert (tmp_path / "b.sock").is_socket()  # it belongs to who has bound it
    bound.close()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"listening": [0, 1]}, "a descriptor for each of the endpoints"),
        ({"listening": ["3"]}, "a descriptor for each of the endpoints"),
        ({"listening": {"a": 1}}, "a descriptor for each of the endpoints"),
        ({"listening": [0]}, "expected sockets"),
        ({"admissions": {}}, "expected a list"),
        ({"admissions": [{"name": "x"}]}, "expected"),
        ({"admissions": [{**table("x")[0], "role": "king"}]}, "unknown role"),
    ],
)
def test_bad_inheritance(tmp_path: Path, more: dict[str, Any], text: str) -> None:
    """What a broker is handed and cannot take over is named, and it does not come up."""
    order = {"endpoints": [f"ipc://{tmp_path}/b.sock"], "supervisor_token_sha256": DIGEST, **more}
    broker, answer = start(order)

    assert text in answer["error"]
    assert 1 == finish(broker)[0]
