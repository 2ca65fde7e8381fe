"""A broker of ours for a bench, and how peers come to it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from measure import process

from ganglion.transport.blocking import BlockingLink
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode, encode
from ganglion.wire.messages import Admit, Hello
from ganglion.wire.name import Role, peer_name
from ganglion.wire.verb import Verb

RUN = "bench"
PEERS = {
    "controller": (peer_name(RUN, Role.CONTROLLER, None, 0), Role.CONTROLLER, None),
    "environment": (peer_name(RUN, Role.ENVIRONMENT, "e", 0), Role.ENVIRONMENT, "e"),
    "muscle": (peer_name(RUN, Role.MUSCLE, "m", 0), Role.MUSCLE, "m"),
    "store": (peer_name(RUN, Role.STORE), Role.STORE, None),
}


_MOST = """
import runpy, sys
import ganglion.limits

ganglion.limits.PEERS = ganglion.limits.ADMISSIONS = int(sys.argv.pop())
runpy.run_module("ganglion.transport.server", run_name="__main__")
"""


def token(peer: str) -> str:
    """Return the token of a peer of the bench; nothing here is secret."""
    return f"token-{peer}"


def _digest(peer: str) -> bytes:
    return hashlib.sha256(token(peer).encode()).digest()


@contextmanager
def broker(
    endpoint: str, more: Mapping[str, tuple[str, Role, str | None]] | None = None, most: int | None = None
) -> Iterator[str]:
    """Run our broker with the peers of the bench admitted, and `more` of the same form; gives the endpoint.

    The worker of a peer is the last part of its name, where that is a number. `most` are more connections than limits
    have it.
    """
    order = json.dumps({"endpoints": [endpoint], "supervisor_token_sha256": _digest("supervisor").hex()})
    program = ["-m", "ganglion.transport.server"]
    if most is not None:
        program = ["-c", _MOST, str(most)]
    with process([sys.executable, *program], order + "\n") as line:
        bound = json.loads(line)["endpoints"][0]
        supervisor = BlockingLink.connect(bound)
        join(supervisor, "supervisor", "supervisor", "supervisor")
        for peer, (name, role, uid) in {**PEERS, **(more or {})}.items():
            last = name.rpartition("/")[2]
            worker = None if role is Role.STORE else int(last) if last.isdigit() else 0
            admit = Admit(name, role.value, RUN, _digest(peer), uid=uid, worker=worker)
            supervisor.send(encode(Envelope("", Head(Verb.CALL, 1, "kernel.admit"), codec_of(Admit).encode(admit))))
            assert expect(supervisor) is Verb.REPLY
        yield bound
        supervisor.close()


def hello(peer: str, name: str, role: str) -> list[bytes]:
    """Return the message that joins."""
    body = codec_of(Hello).encode(Hello(1, role, name, token(peer)))
    return encode(Envelope("", Head(Verb.HELLO, 1), body))


def expect(link: BlockingLink) -> Verb:
    """Return the verb of the next message."""
    frames = link.receive(5.0)
    assert frames is not None
    return decode(frames).head.verb


def join(link: BlockingLink, peer: str, name: str, role: str) -> None:
    """Join under the name of a peer of the bench."""
    link.send(hello(peer, name, role))
    assert expect(link) is Verb.WELCOME
