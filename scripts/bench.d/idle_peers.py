"""Peers that are joined, ask nothing, and answer when they are asked whether they are there; ends with its input.

Arguments: the path of the broker's socket, how many, and the number of the first. A line says that all have joined.
"""

from __future__ import annotations

import select
import socket
import sys

from bench_peers import JOINED, greeting, name_of

from ganglion.transport.zmtp import encode
from ganglion.wire.envelope import Envelope, Head
from ganglion.wire.envelope import encode as encode_envelope
from ganglion.wire.verb import Verb

HERE = b"".join(encode(encode_envelope(Envelope("", Head(Verb.BEAT, 0, "here"), b""))))
READ_BYTES = 65_536


def main() -> None:
    """Join, say so, and answer until the input ends."""
    path, most, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    waiting, peers = select.epoll(), {}
    for number in range(first, first + most):
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.connect(path)
        connected.sendall(greeting(name_of("environment", number), "environment"))
        got = b""
        while JOINED not in got:
            data = connected.recv(READ_BYTES)
            if not data:
                raise RuntimeError(f"the broker closed the connection: {got!r:.200}")
            got += data
        peers[connected.fileno()] = connected
        waiting.register(connected, select.EPOLLIN)
    waiting.register(sys.stdin, select.EPOLLIN)
    print("joined", flush=True)
    while True:
        for descriptor, _ in waiting.poll():
            if descriptor == sys.stdin.fileno():
                return
            if not peers[descriptor].recv(READ_BYTES):
                raise RuntimeError("the broker closed a connection")
            peers[descriptor].sendall(HERE)


if __name__ == "__main__":
    main()
