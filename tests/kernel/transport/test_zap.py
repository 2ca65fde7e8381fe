from __future__ import annotations

import asyncio

import pytest
import zmq
from zmq.utils import z85

from ganglion.transport.curve import new_pair
from ganglion.transport.zmqfront import DOMAIN, ZapHandler

LISTED = new_pair().public
KEY = z85.decode(LISTED)
ASKED = [b"1.0", b"7", DOMAIN, b"192.0.2.1", b"", b"CURVE", KEY]


def judged(*questions: list[bytes]) -> tuple[list[list[bytes]], list[tuple[str, str]]]:
    """Return the answers to questions that come as libzmq's do, and who was refused with which reason."""
    refused: list[tuple[str, str]] = []

    def ask(context: zmq.Context[zmq.Socket[bytes]]) -> list[list[bytes]]:
        with context.socket(zmq.REQ) as asking:
            asking.rcvtimeo = 10_000
            asking.connect("inproc://zeromq.zap.01")
            answers = []
            for question in questions:
                asking.send_multipart(question)
                answers.append(asking.recv_multipart())
            return answers

    async def serve() -> list[list[bytes]]:
        with zmq.Context() as context:
            handler = ZapHandler(context, {LISTED}.__contains__, lambda *told: refused.append(told))
            answers = await asyncio.to_thread(ask, context)
            handler.close()
            return answers

    return asyncio.run(serve()), refused


@pytest.mark.parametrize(
    "question",
    [
        [*ASKED[:6], z85.decode(new_pair().public)],
        [*ASKED[:6], KEY[:-1]],
        [*ASKED[:6], b""],
        [*ASKED[:5], b"NULL"],
        [*ASKED[:5], b"PLAIN", b"name", b"word"],
        [*ASKED[:5], b"PLAIN", KEY],
        [*ASKED[:2], b"other", *ASKED[3:]],
        [b"2.0", *ASKED[1:]],
        [b"1.0"],
        [*ASKED, KEY],
    ],
)
def test_all_else_is_refused(question: list[bytes]) -> None:
    """An unlisted or broken key, another mechanism, domain, version or form gets 400, no User-Id, and is told."""
    answers, refused = judged(question, ASKED)

    assert b"400" == answers[0][2]
    assert b"" == answers[0][4]
    assert b"200" == answers[1][2]
    assert 1 == len(refused)
