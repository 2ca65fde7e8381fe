from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ganglion.transport.blocking import BlockingLink
from ganglion.transport.curve import new_pair
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode, encode
from ganglion.wire.messages import Admit, Hello
from ganglion.wire.verb import Verb

TOKEN = "t" * 43
SERVER, CLIENT = new_pair(), new_pair()
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


def test_too_few_descriptors() -> None:
    """Where there are not even those that a broker needs for itself it says so and ends."""
    broker, answer = start({"endpoints": ["ipc:///x"], "supervisor_token_sha256": DIGEST}, descriptors=64)

    assert {"error": "expected more than 64 descriptors (ulimit -n), found 64"} == answer
    assert 1 == finish(broker)[0]


def operator(link: Any) -> list[bytes] | None:
    """Say HELLO as the operator of `admit` and return what is answered."""
    hello = codec_of(Hello).encode(Hello(1, "operator", "operator", "o" * 43))
    link.send(encode(Envelope("", Head(Verb.HELLO, 1), hello)))
    answer: list[bytes] | None = link.receive(10.0)
    return answer


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


def test_light(tmp_path: Path) -> None:
    """The broker's process holds no numpy, no libzmq, no plugin and no store."""
    text = "import sys, ganglion.transport.server; print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split()
    roots = {name.partition(".")[0] for name in modules}

    assert set() == roots & {"numpy", "zmq", "pydantic", "sqlalchemy", "yaml", "click", "rich"}
    assert not [root for root in roots if root.startswith("ganglion_")]
    assert "ganglion.sdk" not in modules
