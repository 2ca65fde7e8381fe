from __future__ import annotations

import re

from ganglion.transport.zmtp import Connection
from ganglion_conformance.talk import Talk, conversation_text


def test_conversation_is_always_the_same() -> None:
    """Nothing in the conversation depends on time, chance or process."""
    assert conversation_text() == conversation_text()


def test_conversation_is_what_a_broker_accepts() -> None:
    """The bytes that the environment says, joined into one stream, are read by the broker's side without a fault."""
    stream = b""
    for block in conversation_text().split("\n\n"):
        if block.startswith("->"):
            stream += bytes.fromhex("".join(re.findall(r"^   ([0-9a-f]+)$", block, re.MULTILINE)))
    side = Connection(listening=True)

    heard = side.messages(stream, 0.0)

    assert [1, 4, 4, 4, 4, 8, 4, 10] == [frames[1][1] for frames in heard]


def test_conversation_leaves_in_order() -> None:
    """The last that both sides say is BYE."""
    talk = Talk()
    talk.run()
    said = [line for line in talk.lines if line.startswith(("->", "<-"))]

    assert ["<- BYE", "-> BYE", "<- BYE"] == said[-3:]
