from __future__ import annotations

from ganglion.peer.conversation import Conversation
from ganglion.peer.wait import Accusations
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.messages import Failure, Lost
from ganglion.wire.verb import Verb


def refused(serial: int, kind: str) -> list[bytes]:
    """Return an ERROR of the kernel."""
    return [b"", encode_head(Head(Verb.ERROR, serial)), codec_of(Failure).encode(Failure(kind, "no"))]


def test_a_refusal_that_crosses_a_loss_ends_nothing() -> None:
    """Who is lost while he is being accused is no longer late: that the accusation is refused says nothing of him."""
    conversation, serials = Conversation(), iter([1001, 1002])
    accusations = Accusations(conversation, lambda overdue: next(serials))
    pending, _ = conversation.call("r/a", "brain.think", b"", 0.0, 5.0)
    accusations.accuse(conversation.late(5.0), 5.0)
    lost = codec_of(Lost).encode(Lost("r/a", 1, "it closed the connection", True))
    conversation.receive([b"", encode_head(Head(Verb.LOST)), lost], 5.1)
    accusations.hear(refused(1001, "forbidden"), 5.2)

    assert ([], 10.1) == (conversation.late(10.0), pending.deadline_s)
    assert [] == accusations.accuse(conversation.late(10.1), 10.1)  # and is accused again if he is late again
    accusations.hear(refused(1001, "forbidden"), 10.2)  # what was asked before is of no interest
    assert [] == conversation.late(10.2)
    accusations.hear(refused(1002, "forbidden"), 10.3)
    assert [pending] == accusations.accuse(conversation.late(10.3), 10.3)
