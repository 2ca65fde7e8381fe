from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ganglion.transport.blocking import BlockingLink
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode, encode
from ganglion.wire.messages import Hello
from ganglion.wire.verb import Verb

TOKEN = "t" * 43
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()


def start(order: Any) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start a broker with an order, and return it with its answer."""
    broker = subprocess.Popen(
        [sys.executable, "-m", "ganglion.transport.server"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
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
     {"endpoints": ["tcp://0.0.0.0:0"], "supervisor_token_sha256": DIGEST}],
)  # fmt: skip
def test_bad_orders(order: Any) -> None:
    """An order that cannot be carried out is answered with what was expected, and status 1."""
    broker, answer = start(order)

    assert "expected" in answer["error"]
    assert 1 == finish(broker)[0]


def test_light(tmp_path: Path) -> None:
    """The broker's process holds no numpy, no libzmq, no plugin and no store."""
    text = "import sys, ganglion.transport.server; print(*sorted(sys.modules))"
    modules = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    ).stdout.split()
    roots = {name.partition(".")[0] for name in modules}

    assert set() == roots & {"numpy", "zmq", "pydantic", "sqlalchemy", "yaml", "click", "rich"}
    assert not [root for root in roots if root.startswith("ganglion_")]
    assert "ganglion.sdk" not in modules
